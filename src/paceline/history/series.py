"""What is read from the history: the values of one metric of one case as an array, and the records they come from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from paceline.finding import SeriesKey
from paceline.model import Direction

Floats = NDArray[np.float64]


class Point(NamedTuple):
    """One record's value of a metric; a named tuple because many of them are made."""

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


class Names(NamedTuple):
    """Sessions, environments and sources by their numbers: few beside the records, so they are joined to them here."""

    sessions: Mapping[int, tuple[str, str, str]]
    """Name, revision and id."""
    environments: Mapping[int, tuple[str, str]]
    """Id and class."""
    sources: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a series' points by columns, in the order of time; metrics of a case share them."""

    names: Names
    times: Sequence[str]
    numbers: Sequence[int]
    sessions: Sequence[int]
    environments: Sequence[int]
    idents: Sequence[bytes]
    statuses: Sequence[str]
    own_revisions: Sequence[str | None]
    """Those that are not the session's."""
    sources: Sequence[int | None]
    disturbed: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.times)

    def take(self, at: Iterable[int]) -> "Records":
        """Those at these places, in this order."""
        chosen = list(at)
        columns: list[Any] = [getattr(self, field.name) for field in fields(self)[1:]]
        return Records(self.names, *([column[i] for i in chosen] for column in columns))

    def revisions(self) -> list[str]:
        """What each of them measured."""
        sessions = self.names.sessions
        pairs = zip(self.own_revisions, self.sessions, strict=True)
        return [sessions[session][1] if own is None else own for own, session in pairs]

    def point(self, i: int, value: float, samples: tuple[float, ...] = ()) -> Point:
        """What was measured at a place."""
        name, revision, session_id = self.names.sessions[self.sessions[i]]
        own, source = self.own_revisions[i], self.sources[i]
        return Point(
            value=value,
            samples=samples,
            revision=revision if own is None else own,
            session=name,
            record_id=self.idents[i].hex(),
            time=self.times[i],
            status=self.statuses[i],
            environment_id=self.names.environments[self.environments[i]][0],
            source_hash="" if source is None else self.names.sources[source],
            session_id=session_id,
            disturbed=self.disturbed[i] or "",
        )


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
    values: Floats
    records: Records
    samples: Sequence[tuple[float, ...]] | None = None
    """Those of each value, if they were asked for."""

    @property
    def key(self) -> SeriesKey:
        """What tells it from the others."""
        names = (self.case_key, self.variant or "", self.version, self.metric, self.unit or "")
        return SeriesKey(*names, self.environment_class)

    @property
    def points(self) -> list[Point]:
        """Its points, made anew each time."""
        return list(Points(self))


class Points(Sequence[Point]):
    """Points of a series in some order; each is made when it is asked for, as most are never looked at."""

    def __init__(self, series: Series, places: Sequence[int] | None = None) -> None:
        self._series = series
        self._places = range(len(series.values)) if places is None else places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Point: ...

    @overload
    def __getitem__(self, at: slice) -> "Points": ...

    def __getitem__(self, at: int | slice) -> "Point | Points":
        if isinstance(at, slice):
            return Points(self._series, self._places[at])
        place, samples = self._places[at], self._series.samples
        value = float(self._series.values[place])
        return self._series.records.point(place, value, samples[place] if samples else ())

    def at(self, places: Iterable[int]) -> "Points":
        """Those at these places."""
        return Points(self._series, [self._places[place] for place in places])

    @property
    def values(self) -> list[float]:
        """Their values."""
        values: list[float] = self._series.values[self._places].tolist()
        return values

    @property
    def times(self) -> list[str]:
        """When they were measured."""
        times = self._series.records.times
        return [times[place] for place in self._places]

    def position(self, record_id: str) -> int | None:
        """Which of them is that of a record."""
        idents, wanted = self._series.records.idents, bytes.fromhex(record_id)
        return next((i for i, place in enumerate(self._places) if idents[place] == wanted), None)
