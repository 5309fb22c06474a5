"""Which keys go together. Works on the data as it is, valid or not, so that all mistakes are told at once."""

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from paceline.config.nodes import Location
from paceline.config.schema import DEFAULT_TIMEOUT_S
from paceline.config.values import is_number, is_scalar, shown
from paceline.model import CheckKind

_AXIS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Breach(NamedTuple):
    """A rule that is broken. One of `missing` keys may be in a file that cannot be read, or be there misspelt."""

    path: Location
    message: str
    missing: tuple[str, ...] = ()


def check_rules(data: dict[str, Any], disabled_entries: int = 0) -> Iterator[Breach]:
    """All broken rules of a configuration."""
    yield from _check_suite(data, disabled_entries)
    for index, entry in _mappings(data.get("entries")):
        path = ("entries", index)
        yield from _check_program(entry, path)
        yield from _check_timeout(data, entry, path)
        for number, requirement in _mappings(entry.get("requirements")):
            yield from _check_requirement(requirement, (*path, "requirements", number))
        if isinstance(entry.get("matrix"), dict):
            yield from _check_matrix(entry["matrix"], (*path, "matrix"))
    for index, setup in _mappings(data.get("data_setups")):
        yield from _check_program(setup, ("data_setups", index))
    for index, sink in _mappings(data.get("sinks")):
        if "name" not in sink:
            yield Breach(("sinks", index), "a sink needs a name or a type", missing=("name", "type"))


def _check_suite(data: dict[str, Any], disabled_entries: int) -> Iterator[Breach]:
    if data.get("evals") is not None and not data.get("entries"):
        pass  # the models to evaluate are enough for a suite
    elif data.get("entries") == []:
        reason = f"all {disabled_entries} are disabled" if disabled_entries else "'entries' is empty"
        yield Breach(("entries",), f"there is nothing to run: {reason}", missing=("entries",))
    elif "entries" not in data:
        yield Breach((), "there is nothing to run: the key 'entries' is missing", missing=("entries",))
    if "viewer_url" in data and "viewer_url_template" in data:
        yield Breach(("viewer_url",), "give 'viewer_url' or 'viewer_url_template', not both")


def _check_program(work: dict[str, Any], path: Location) -> Iterator[Breach]:
    if "script" in work and "command" in work:
        yield Breach((*path, "command"), "give 'script' or 'command', not both")
    elif "script" not in work and "command" not in work:
        yield Breach(path, "give a 'script' or a 'command' to run", missing=("script", "command"))
    for key in ("script", "command", "interpreter"):
        value = work.get(key)
        if value == [] or (isinstance(value, str) and not value.strip()):
            yield Breach((*path, key), "must not be empty")


def _check_timeout(data: dict[str, Any], entry: dict[str, Any], path: Location) -> Iterator[Breach]:
    longest = data.get("max_timeout_s")
    timeout = entry.get("timeout_s", data.get("default_timeout_s", DEFAULT_TIMEOUT_S))
    if is_number(longest) and is_number(timeout) and timeout > longest:
        key = "timeout_s" if "timeout_s" in entry else "default_timeout_s"
        yield Breach((*path, "timeout_s"), f"{key} {timeout:g} is above max_timeout_s {longest:g}")


def _check_requirement(requirement: dict[str, Any], path: Location) -> Iterator[Breach]:
    exact: Any = requirement.get("exact_value")
    low: Any = requirement.get("min_value")
    high: Any = requirement.get("max_value")
    if exact is None and low is None and high is None and requirement.get("max_regression") is None:
        told = "give 'exact_value', or 'min_value' and/or 'max_value', or 'max_regression'"
        yield Breach(path, told, missing=get_args(CheckKind))
    if exact is not None and (low is not None or high is not None):
        hint = "set it to null where it is not wanted any more"
        yield Breach((*path, "exact_value"), f"excludes 'min_value' and 'max_value'; {hint}")
    if is_number(low) and is_number(high) and high < low:
        yield Breach((*path, "max_value"), f"max_value {high} is below min_value {low}")
    if exact is not None and not is_number(exact) and requirement.get("tolerance"):
        yield Breach((*path, "tolerance"), f"{shown(exact)} has no tolerance; only a number has")


def _check_matrix(matrix: dict[str, Any], path: Location) -> Iterator[Breach]:
    axes = {key: values for key, values in matrix.items() if key not in ("include", "exclude")}
    included = [item for _, item in _mappings(matrix.get("include"))]
    if not axes and not included:
        yield Breach(path, "a matrix needs an axis: a key with a list of values", missing=("",))
    for name, values in axes.items():
        yield from _check_axis(name, values, (*path, name))
    known = {*axes, *(key for item in included for key in item)}
    for key in ("include", "exclude"):
        for index, item in _mappings(matrix.get(key)):
            yield from _check_combination(key, item, known, (*path, key, index))


def _check_axis(name: str, values: Any, path: Location) -> Iterator[Breach]:
    if not _AXIS_NAME.fullmatch(name):
        yield Breach(path, "an axis is named with letters, digits, '_' and '-'")
    if values == []:
        yield Breach(path, "an axis needs at least one value")
    seen: set[str] = set()
    for index, value in enumerate(values if isinstance(values, list) else ()):
        if not is_scalar(value):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            yield Breach((*path, index), "a value of an axis must be finite")
        if str(value) in seen:
            yield Breach((*path, index), f"the value {shown(value)} is there twice")
        seen.add(str(value))


def _check_combination(kind: str, item: dict[str, Any], known: set[str], path: Location) -> Iterator[Breach]:
    if not item:
        yield Breach(path, f"an item of '{kind}' needs at least one axis")
    for name in item:
        if kind == "exclude" and name not in known:
            yield Breach((*path, name), f"there is no axis {name!r}; the axes are {', '.join(sorted(known))}")
        elif not _AXIS_NAME.fullmatch(name):
            yield Breach((*path, name), "an axis is named with letters, digits, '_' and '-'")


def _mappings(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict):
            yield index, item
