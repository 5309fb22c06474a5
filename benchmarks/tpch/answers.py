"""Whether two engines gave the same answer."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

# Engines add floats in different orders, so sums of millions differ in the last digits; a wrong join does not
# differ by so little.
RELATIVE_TOLERANCE = 1e-8
ABSOLUTE_TOLERANCE = 1e-6


def differences(left: pa.Table, right: pa.Table) -> list[str]:
    """What tells two answers apart: columns, number of rows, or values row by row in the order asked for."""
    if left.column_names != right.column_names:
        return [f"columns {left.column_names} and {right.column_names}"]
    if len(left) != len(right):
        return [f"{len(left)} rows and {len(right)}"]
    found = (_column_difference(name, left[name], right[name]) for name in left.column_names)
    return [difference for difference in found if difference]


def _column_difference(name: str, left: pa.ChunkedArray, right: pa.ChunkedArray) -> str | None:
    if _is_number(left.type) and _is_number(right.type):
        same = np.isclose(
            _floats(left), _floats(right), rtol=RELATIVE_TOLERANCE, atol=ABSOLUTE_TOLERANCE, equal_nan=True
        )
    else:
        same = np.array(_plain(left) == _plain(right), dtype=bool)
    if same.all():
        return None
    row = int(np.argmin(same))
    return f"{name}: {left[row]} and {right[row]} in row {row}, {np.count_nonzero(~same)} rows differ"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return pc.cast(column, pa.float64()).to_numpy()


def _plain(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """Text, whatever types the engine has for text and dates; what is missing is None."""
    if pt.is_temporal(column.type):
        column = pc.cast(column, pa.date32())
    return pc.cast(column, pa.string()).to_numpy()
