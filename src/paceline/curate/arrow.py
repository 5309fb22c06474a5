"""pyarrow for all that curates documents, or what to install for it."""

from paceline.errors import needs_extra

with needs_extra("curate", "curating documents"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

__all__ = ["pa", "pc", "pq"]
