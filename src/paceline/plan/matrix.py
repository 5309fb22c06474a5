"""A matrix becomes cells: all combinations of its axes, less `exclude`, with `include`; names are stable."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from paceline.errors import did_you_mean
from paceline.model import Scalar, write_scalar

MAX_CELLS = 10_000

Cell = dict[str, Scalar]


class MatrixError(ValueError):
    """A matrix that cannot be expanded; `where` is the path to the wrong part inside the matrix."""

    def __init__(self, message: str, *where: str | int) -> None:
        super().__init__(message)
        self.where = where


def expand(
    axes: Mapping[str, Sequence[Scalar]],
    include: Sequence[Mapping[str, Scalar]] = (),
    exclude: Sequence[Mapping[str, Scalar]] = (),
) -> list[Cell]:
    """All cells, in the order of the axes; `include` and `exclude` mean what they do in GitHub Actions.

    An included mapping extends the combinations whose axis values it does not contradict; if there are
    none, it is a cell of its own.
    """
    _check(axes, include, exclude)
    rows = product(*axes.values()) if axes else ()
    originals: list[Cell] = [dict(zip(axes, row, strict=True)) for row in rows]
    kept = [cell for cell in originals if not any(_matches(cell, rule) for rule in exclude)]
    cells = _include(kept, axes, include)
    if not cells:
        raise MatrixError("has no cells left; give an axis a value, or exclude less")
    return cells


def _check(
    axes: Mapping[str, Sequence[Scalar]],
    include: Sequence[Mapping[str, Scalar]],
    exclude: Sequence[Mapping[str, Scalar]],
) -> None:
    count = prod(len(values) for values in axes.values()) + len(include)
    if count > MAX_CELLS:
        raise MatrixError(f"has {count:,} cells; at most {MAX_CELLS:,} are allowed")
    for axis, values in axes.items():
        _check_axis(axis, values)
    for i, rule in enumerate(exclude):
        _check_rule(rule, axes, i)


def _check_axis(axis: str, values: Sequence[Scalar]) -> None:
    seen: set[str] = set()
    for i, value in enumerate(values):
        text = write_scalar(value)
        if text in seen:
            raise MatrixError(f"the value {text} is there twice; case names must differ", axis, i)
        seen.add(text)


def _check_rule(rule: Mapping[str, Scalar], axes: Mapping[str, Sequence[Scalar]], position: int) -> None:
    if not rule:
        raise MatrixError("is empty and would exclude every cell", "exclude", position)
    for name in rule:
        if name not in axes:
            hint = did_you_mean(name, axes, f"the axes are {', '.join(axes) or 'none'}")
            raise MatrixError(f"{name!r} is not an axis; {hint}", "exclude", position)


def _matches(cell: Mapping[str, Scalar], rule: Mapping[str, Scalar]) -> bool:
    return all(
        name in cell and write_scalar(cell[name]) == write_scalar(value) for name, value in rule.items()
    )


def _include(
    kept: list[Cell], axes: Mapping[str, object], include: Sequence[Mapping[str, Scalar]]
) -> list[Cell]:
    # What an axis set is never overwritten, what another `include` added may be.
    cells = [dict(cell) for cell in kept]
    added: list[Cell] = []
    for extra in include:
        on_axes = {name: value for name, value in extra.items() if name in axes}
        matching = [cell for cell in cells if _matches(cell, on_axes)]
        for cell in matching:
            cell.update((name, value) for name, value in extra.items() if name not in axes)
        if not matching:
            others = {name: value for name, value in extra.items() if name not in axes}
            added.append({axis: extra[axis] for axis in axes if axis in extra} | others)
    return cells + added
