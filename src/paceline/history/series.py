"""What is read from the history: the values of one metric of one case, one after the other."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A reset of a case: its numbers mean something else from then on."""

    case_key: str
    at: str
    why: str
