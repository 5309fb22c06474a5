"""Which keys go together, and what a matrix means.

The checks work on the data as it is, valid or not, so that all mistakes are reported at once.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, get_args

from paceline import numbers
from paceline.config.nodes import Location
from paceline.config.schema import DEFAULT_TIMEOUT_S
from paceline.config.values import is_scalar, shown
from paceline.errors import did_you_mean
from paceline.model import CheckKind, Scalar, is_number, write_scalar

MAX_CELLS = 10_000

PROGRAMS = ("script", "command", "pytest", "asv")
"""What an entry may run; a data set-up has the first two to choose from."""

Cell = dict[str, Scalar]
Item = tuple[int, dict[str, Any]]

_AXIS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_AXIS_NAMES = "an axis is named with letters, digits, '_' and '-'"


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
        yield from _check_program(entry, path, PROGRAMS)
        yield from _check_suite_keys(entry, path)
        yield from _check_timeout(data, entry, path)
        for number, requirement in _mappings(entry.get("requirements")):
            yield from _check_requirement(requirement, (*path, "requirements", number))
        if isinstance(entry.get("matrix"), dict):
            yield from check_matrix(entry["matrix"], (*path, "matrix"))
    for index, setup in _mappings(data.get("data_setups")):
        yield from _check_program(setup, ("data_setups", index), PROGRAMS[:2])
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


def _check_program(work: dict[str, Any], path: Location, known: Sequence[str]) -> Iterator[Breach]:
    given = [key for key in known if key in work]
    if len(given) > 1:
        which = " or ".join(f"'{key}'" for key in given)
        yield Breach((*path, given[-1]), f"give {which}, not {'both' if len(given) == 2 else 'all of them'}")
    elif not given:
        others = ", or 'pytest' or 'asv'" if len(known) > 2 else ""
        yield Breach(path, f"give a 'script' or a 'command' to run{others}", missing=tuple(known))
    for key in (*known, "interpreter"):
        value = work.get(key)
        if value == [] or (isinstance(value, str) and not value.strip()):
            yield Breach((*path, key), "must not be empty")


def _check_suite_keys(entry: dict[str, Any], path: Location) -> Iterator[Breach]:
    """What means nothing for an entry whose cases are the tests or benchmarks of another tool."""
    if entry.get("share_process") and "pytest" not in entry:
        yield Breach((*path, "share_process"), "is for tests: give 'pytest', or leave it out")
    kind = next((key for key in PROGRAMS[2:] if key in entry), None)
    for key in ("script_base_dir", *(("args",) if kind == "asv" else ())):
        if kind is not None and key in entry:
            yield Breach((*path, key), f"means nothing with '{kind}'; leave it out")


def _check_timeout(data: dict[str, Any], entry: dict[str, Any], path: Location) -> Iterator[Breach]:
    longest = data.get("max_timeout_s")
    timeout = entry.get("timeout_s", data.get("default_timeout_s", DEFAULT_TIMEOUT_S))
    if is_number(longest) and is_number(timeout) and timeout > longest:
        key = "timeout_s" if "timeout_s" in entry else "default_timeout_s"
        yield Breach(
            (*path, "timeout_s"),
            f"{key} {numbers.number(timeout)} is above max_timeout_s {numbers.number(longest)}",
        )


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


def check_matrix(matrix: dict[str, Any], path: Location = ()) -> Iterator[Breach]:
    """All that keeps a matrix from being expanded. `exclude` is about the axes: it applies before `include` does."""
    axes = {key: values for key, values in matrix.items() if key not in ("include", "exclude")}
    included, excluded = _mappings(matrix.get("include")), _mappings(matrix.get("exclude"))
    if not axes and not included:
        yield Breach(path, "a matrix needs an axis: a key with a list of values", missing=("",))
    for name, values in axes.items():
        yield from _check_axis(name, values, (*path, name))
    for kind, items in (("include", included), ("exclude", excluded)):
        for index, item in items:
            if not item:
                yield Breach((*path, kind, index), f"an item of '{kind}' needs at least one axis")
    for index, item in included:
        for name in item:
            if not _AXIS_NAME.fullmatch(name):
                yield Breach((*path, "include", index, name), _AXIS_NAMES)
    for index, item in excluded:
        for name in item:
            if name not in axes:
                hint = did_you_mean(name, axes, f"the axes are {', '.join(sorted(axes)) or 'none'}")
                yield Breach((*path, "exclude", index, name), f"there is no axis {name!r}; {hint}")
    if all(isinstance(values, list) and values for values in axes.values()):
        yield from _check_size(axes, included, excluded, path)


def _check_axis(name: str, values: Any, path: Location) -> Iterator[Breach]:
    if not _AXIS_NAME.fullmatch(name):
        yield Breach(path, _AXIS_NAMES)
    if values == []:
        yield Breach(path, "an axis needs at least one value")
    seen: set[str] = set()
    for index, value in enumerate(values if isinstance(values, list) else ()):
        if not is_scalar(value):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            yield Breach((*path, index), "a value of an axis must be finite")
        text = write_scalar(value)  # as names of cases have it, which must differ
        if text in seen:
            yield Breach((*path, index), f"the value {shown(value)} is there twice")
        seen.add(text)


def _check_size(
    axes: dict[str, list[Any]], included: list[Item], excluded: list[Item], path: Location
) -> Iterator[Breach]:
    count = math.prod(map(len, axes.values())) + len(included)
    rules = [item for _, item in excluded if item]
    if count > MAX_CELLS:
        yield Breach(path, f"has {count:,} cells; at most {MAX_CELLS:,} are allowed")
    elif axes and rules and not included and next(_product(axes, rules), None) is None:
        yield Breach(path, "has no cells left; give an axis a value, or exclude less")


def expand_matrix(
    axes: Mapping[str, Sequence[Scalar]],
    include: Sequence[Mapping[str, Scalar]] = (),
    exclude: Sequence[Mapping[str, Scalar]] = (),
) -> list[Cell]:
    """All cells, in the order of the axes; `include` and `exclude` mean what they do in GitHub Actions.

    An included mapping extends the combinations whose axis values it does not contradict; if there are
    none, it is a cell of its own.
    """
    cells = list(_product(axes, exclude)) if axes else []
    added: list[Cell] = []
    for extra in include:
        # What an axis set is never overwritten, what another `include` added may be.
        on_axes = {axis: extra[axis] for axis in axes if axis in extra}
        others = {name: value for name, value in extra.items() if name not in axes}
        matching = [cell for cell in cells if _matches(cell, on_axes)]
        for cell in matching:
            cell.update(others)
        if not matching:
            added.append(on_axes | others)
    return cells + added


def _product(axes: Mapping[str, Sequence[Scalar]], exclude: Sequence[Mapping[str, Scalar]]) -> Iterator[Cell]:
    for values in product(*axes.values()):
        cell = dict(zip(axes, values, strict=True))
        if not any(_matches(cell, rule) for rule in exclude):
            yield cell


def _matches(cell: Mapping[str, Scalar], rule: Mapping[str, Scalar]) -> bool:
    return all(
        name in cell and write_scalar(cell[name]) == write_scalar(value) for name, value in rule.items()
    )


def _mappings(value: Any) -> list[Item]:
    """The items of a list that are mappings, with their positions."""
    return [
        (index, item)
        for index, item in enumerate(value if isinstance(value, list) else ())
        if isinstance(item, dict)
    ]
