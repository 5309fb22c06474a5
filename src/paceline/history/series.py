"""What is read from the history: the values of one metric of one case, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paceline.model import Direction


class Point(NamedTuple):
    """One record's value of a metric; a named tuple because millions of them are made."""

    value: float
    samples: tuple[float, ...]
    revision: str
    session: str
    record_id: str
    time: str
    status: str
    environment_id: str
    source_hash: str
    session_id: str
    disturbed: str = ""
    """What disturbed at least half of the record's runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The points that may be held against each other, ordered by time.

    `epoch` counts the resets of the case before these points. Values that are no finite numbers are left out.
    """

    case_key: str
    version: str
    variant: str | None
    metric: str
    unit: str | None
    direction: Direction | None
    environment_class: str
    epoch: int
    points: tuple[Point, ...]

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(point.value for point in self.points)


class Column(NamedTuple):
    """A series for who looks at thousands of them: its values, and beside each what its point has of its record."""

    case_key: str
    version: str
    variant: str
    metric: str
    unit: str
    environment_class: str
    epoch: int
    direction: Direction | None
    values: list[float]
    fields: Sequence[tuple[str, ...]]
    """The fields of `Point` after its samples. Shared by the metrics of a case, so they are the same object."""

    def points(self) -> list[Point]:
        """The points, without samples."""
        return [Point(value, (), *fields) for value, fields in zip(self.values, self.fields, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A reset of a case: its numbers mean something else from then on."""

    case_key: str
    at: str
    why: str
