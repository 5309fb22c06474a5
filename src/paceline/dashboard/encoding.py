"""Data files of the site: JSON inside a script, because a page opened from disk may load scripts and nothing else.

Arrays are written as base64 of their bytes, little-endian, which a browser reads ten times as fast as numbers in text
and which keeps every digit.
"""

import re
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.record.codec import dump_plain

_NAME = re.compile(r"[a-z]+(/[0-9a-f]{1,32}(-old|/[0-9]{1,9})?)?")
_LINE_ENDS = (
    (b"\n", b"\\n"),
    (b"\r", b"\\r"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
_SPARSE = 0.4
"""Below this share of values the places are written beside the values."""

_FNV_OFFSET, _FNV_PRIME, _64_BITS = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def data_file(name: str, value: Any) -> bytes:
    """A script that hands the value over as a text to parse: nothing in the data can become code.

    A literal object would not do: a key such as `__proto__` means something in one. Texts of the database that are JSON
    already are in the value as they are, so line ends are escaped, too.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a data file")
    text = dump_plain(value).replace(b"\\", b"\\\\").replace(b"'", b"\\'")
    for sign, escaped in _LINE_ENDS:
        text = text.replace(sign, escaped)
    return b"(self.paceline=self.paceline||[]).push(['%s','%s'])\n" % (name.encode(), text)


def file_id(name: str) -> str:
    """The name of the file of a case or a metric: FNV-1a, which the page computes from the case's name, too."""
    digest = _FNV_OFFSET
    for byte in name.encode("utf-8", "replace"):
        digest = ((digest ^ byte) * _FNV_PRIME) & _64_BITS
    return f"{digest:016x}"


def pack_ints(values: Any) -> Any:
    """Whole numbers below 2³¹: one number if all are equal, else their bytes."""
    array = np.asarray(values, dtype="<i4")
    if len(array) and (array == array[0]).all():
        return int(array[0])
    return {"i": _base64(array)}


def pack_floats(values: Any) -> Any:
    """Numbers, NaN where there is none: as single precision where that is exact, with places where few are there."""
    array = np.asarray(values, dtype="<f8")
    there = ~np.isnan(array)
    if not there.any():
        return None
    if len(array) > 1 and there.all() and (array == array[0]).all():
        return float(array[0])
    if there.mean() < _SPARSE:
        places = np.flatnonzero(there).astype("<i4")
        return {"x": _base64(places), **_exact(array[there])}
    return _exact(array)


def _exact(array: NDArray[np.float64]) -> dict[str, str]:
    with np.errstate(over="ignore"):
        single = array.astype("<f4")
    same = np.array_equal(single.astype("<f8"), array, equal_nan=True)
    return {"h": _base64(single)} if same else {"f": _base64(array)}


def pack_bytes(values: Any) -> str:
    """Whole numbers below 256, a byte each."""
    return _base64(np.asarray(values, dtype="u1"))


def _base64(array: NDArray[Any]) -> str:
    return b64encode(array.tobytes()).decode()


def milliseconds(times: list[str]) -> NDArray[np.float64]:
    """Times as milliseconds since 1970; NaN for one that is none."""
    shown = [time[:23] for time in times]
    try:
        moments = np.array(shown, dtype="datetime64[ms]")
    except ValueError:  # what others wrote may be any text
        moments = np.array([_moment(time) for time in shown], dtype="datetime64[ms]")
    numbers = moments.astype(np.float64)
    numbers[np.isnat(moments)] = np.nan
    return numbers


def _moment(text: str) -> np.datetime64:
    try:
        return np.datetime64(text, "ms")
    except ValueError:
        return np.datetime64("NaT", "ms")
