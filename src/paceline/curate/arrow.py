"""pyarrow for all that curates documents, or what to install for it."""

from paceline.errors import MissingExtra

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ModuleNotFoundError:
    raise MissingExtra("curating documents", "curate") from None

__all__ = ["pa", "pc", "pq"]
