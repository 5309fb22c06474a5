"""Single values as other tools write them."""

import math
import re
from collections.abc import Mapping

from paceline.model import Scalar

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0}
_NUMBER = re.compile(r"-?\d{1,15}(\.\d+)?(e[+-]?\d{1,2})?", re.IGNORECASE)
_CONSTANTS: Mapping[str, Scalar] = {"True": True, "False": False, "None": None}


def number_or_text(value: Scalar) -> Scalar:
    """A text as the number it writes, if it writes one the way it would be written back."""
    if not isinstance(value, str):
        return value
    for convert in (int, float):
        try:
            number = convert(value)
        except ValueError:
            continue
        return number if str(number) == value and math.isfinite(number) else value
    return value


def from_repr(text: str) -> Scalar:
    """A value of which the `repr` was kept: numbers, flags and simple texts are themselves again."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _NUMBER.fullmatch(text):
        return float(text) if {".", "e", "E"} & set(text) else int(text)
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and "\\" not in text
    return text[1:-1] if quoted else text


def seconds_in(unit: str) -> float | None:
    """How many seconds one of a unit of time has; None if it is no unit of time."""
    return _SECONDS.get(unit)
