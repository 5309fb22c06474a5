"""What a test is called without its parameters, and these as data. Nothing but the standard library and pytest."""

import inspect
import numbers
import os
import re
import reprlib
from datetime import date
from enum import Enum

import pytest

Scalar = str | int | float | bool | None

LONGEST_VALUE = 200
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_INT64 = 1 << 63

_short = reprlib.Repr()
_short.maxother = _short.maxstring = _short.maxlong = LONGEST_VALUE
_short.maxdict = _short.maxlist = _short.maxtuple = _short.maxset = _short.maxfrozenset = 20


def base_of(item: pytest.Item) -> str:
    """The id of a test without its parameters, which all its cases share."""
    return item.nodeid[: len(item.nodeid) - len(item.name)] + (
        getattr(item, "originalname", None) or item.name
    )


def params_of(item: pytest.Item) -> dict[str, Scalar]:
    """The values that `parametrize` and fixtures with parameters gave this test."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return {}
    # pytest-repeat counts its repetitions in a parameter; they are attempts at one case.
    given = {name: value for name, value in callspec.params.items() if not name.startswith("__pytest")}
    return {name: _scalar(value, callspec.id) for name, value in given.items()}


def _scalar(value: object, test_id: str) -> Scalar:
    """A parameter as data; one that says nothing lasting of itself is known by the id pytest gives the test."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return str(value.name)
    if isinstance(value, numbers.Integral):
        return int(value) if -_INT64 <= int(value) < _INT64 else str(int(value))
    if isinstance(value, numbers.Real):
        return float(value)
    text = _text(value)
    return text if len(text) <= LONGEST_VALUE and not _ADDRESS.search(text) else test_id


def _text(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, type) or inspect.isroutine(value):
        name = f"{value.__module__}.{value.__qualname__}"
        return name if "<" not in name else f"{name} at 0x0"  # all lambdas have one name
    return _short.repr(value)
