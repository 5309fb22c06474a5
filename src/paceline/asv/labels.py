"""Parameters of asv's benchmarks as data: it knows them by the text of their `repr`."""

import re
from collections.abc import Mapping

Scalar = str | int | float | bool | None

_NUMBER = re.compile(r"-?\d{1,15}(\.\d+)?(e[+-]?\d{1,2})?", re.IGNORECASE)
_CONSTANTS: Mapping[str, Scalar] = {"True": True, "False": False, "None": None}


def from_repr(text: str) -> Scalar:
    """A value of which the `repr` was kept: numbers, flags and simple texts are themselves again."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _NUMBER.fullmatch(text):
        return float(text) if {".", "e", "E"} & set(text) else int(text)
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and "\\" not in text
    return text[1:-1] if quoted else text
