"""A test as a case: its identity in the history, its parameters as data, its source."""

import hashlib
import inspect
import linecache
import re
import textwrap
from types import CodeType
from typing import NamedTuple

import pytest

from paceline.model import Case, name_case
from paceline.pytest_plugin.database import arm
from paceline.pytest_plugin.parameters import base_of, params_of
from paceline.record.redact import Redactor

_DEF = re.compile(r"\s*(?:async\s+)?def\s")


class Source(NamedTuple):
    """The text of a test function with its decorators, and a hash of the function alone."""

    text: str
    hash: str


def case_of(item: pytest.Item, redactor: Redactor) -> Case:
    """The case that a test is; its parameters are part of its identity, in whatever order they were written."""
    nodeid, entry = item.nodeid, base_of(item)
    params = params_of(item)
    if params:
        # Here, not with the rest: the names that are made of them have to stay the same.
        params, nodeid = redactor.values(params), redactor.text(nodeid)
    return Case(name=nodeid, entry=entry, key=name_case(entry, params), params=params, variant=arm() or None)


def source_of(item: pytest.Item) -> Source | None:
    """What the test consists of; None where there is no file to read it from."""
    function = getattr(item, "function", None)
    code = getattr(inspect.unwrap(function), "__code__", None) if function else None
    if code is None or code.co_name == "<lambda>":
        return None
    place = code.co_filename, code.co_firstlineno
    if place not in _sources:
        _sources[place] = _source_of_code(code)
    return _sources[place]


_sources: dict[tuple[str, int], Source | None] = {}
"""By file and line: parameters of one test share it, and to compare code takes longer than to read lines."""


def forget_sources() -> None:
    """Read files anew: one process may run pytest several times."""
    _sources.clear()
    linecache.checkcache()


def _source_of_code(code: CodeType) -> Source | None:
    """The lines of a function, found without parsing: to parse a file of tests takes longer than most tests."""
    file, first = linecache.getlines(code.co_filename), code.co_firstlineno - 1
    body = next((number for number in range(first, len(file)) if _DEF.match(file[number])), None)
    if body is None:
        return None
    last = _end_by_indent(file, body)
    function = "".join(file[body:last])
    if not _is_whole(function):
        last = max(last, _end_by_code(code))
        function = "".join(file[body:last])
    # Without its decorators: a further value of a parameter leaves what the others measure as it was.
    function = _dedented(function)
    digest = hashlib.sha256(function.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Source(function if body == first else _dedented("".join(file[first:last])), digest)


def _end_by_indent(file: list[str], body: int) -> int:
    """The line before the next that stands no further to the right than the `def`."""
    last = body + 1
    indent = len(file[body]) - len(file[body].lstrip())
    for number in range(body + 1, len(file)):
        line = file[number]
        bare = line.lstrip()
        if bare and bare[0] != "#":
            if len(line) - len(bare) <= indent and bare[0] not in ")]}":
                break
            last = number + 1
    return last


def _is_whole(text: str) -> bool:
    """Whether no bracket or long string is left open, as one may be that goes on at the margin."""
    return (
        text.count("(") == text.count(")")
        and text.count("[") == text.count("]")
        and text.count("{") == text.count("}")
        and not text.count('"""') % 2
        and not text.count("'''") % 2
        and not text.endswith("\\\n")
    )


def _end_by_code(code: CodeType) -> int:
    """The last line of a function as its code has it: exact, and slow."""
    inner = [_end_by_code(const) for const in code.co_consts if type(const) is CodeType]
    return max([code.co_firstlineno, *inner, *(end for _, end, _, _ in code.co_positions() if end)])


def _dedented(text: str) -> str:
    return textwrap.dedent(text).rstrip() if text[:1].isspace() else text.rstrip()
