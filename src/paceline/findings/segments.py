"""A series cut into the stretches between its changes: their levels, and how surely each change is placed.

The level that a metric has had so far is the baseline of requirements that are relative to it.
"""

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from paceline.finding import Finding, Place, SeriesKey
from paceline.findings.order import Order, position_of, read_order
from paceline.history import Store
from paceline.history.series import Point, Points, Records, Series
from paceline.judge import Analysis, ChangePoint, Drift, analyse, change_points, compare
from paceline.judge.intervals import Integers
from paceline.judge.requirements import Baseline
from paceline.metrics import is_steady
from paceline.model import Direction, Verdict

SMALLEST_EFFECT = 0.005
"""A change of less than half a percent is real on a quiet machine, and nobody's night is worth it."""

SMALLEST_DRIFT = 0.03
"""A drift is told of once it has moved the level by as much as the margin of comparisons."""

_COMPARED = 30
"""Points on each side of a change that tell how large it is: enough for a narrow interval, and recent."""
_RECENT = 20
"""Points that a level is taken from, if there are so many since the last change."""

CaseKey = tuple[str, str, str, str]
"""Key, variant and version of a case, and the class of machines."""
Baselines = Mapping[CaseKey, Mapping[str, Baseline]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of level before the point `index`; it lies between the points `last_good` and `first_bad`."""

    index: int
    last_good: int
    first_bad: int
    verdict: Verdict
    effect: float
    low: float | None
    high: float | None
    p_value: float
    undone_at: int | None
    """The first point of the later level that is as good as the one before the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A series in the order in which it is judged, and where it changed."""

    key: SeriesKey
    epoch: int
    direction: Direction
    points: Points
    analysis: Analysis
    newest: str = ""
    """The time of the newest record."""
    revision: str | None = ""
    """That of the last point, empty where no place of a revision is known; None where that of some is."""

    @property
    def found(self) -> tuple[ChangePoint, ...]:
        return self.analysis.changes

    @property
    def drift(self) -> Drift | None:
        return self.analysis.drift


class _Chosen(NamedTuple):
    """Which points are judged, and in which order, None for all as they are; on which days; the last revision."""

    places: list[int] | None
    days: Integers | None
    revision: str | None


def place_of_point(point: Point) -> Place:
    """Where in the history a point was measured."""
    return Place(
        revision=point.revision,
        session=point.session,
        time=point.time,
        session_id=point.session_id,
        environment=point.environment_id,
    )


class Judge:
    """Judges the series of a history, one after the other."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._last: tuple[object, dict[bool, _Chosen]] = (None, {})

    def judge(self, series: Series, *, only_sure: bool = False) -> Judged:
        """Where the series changed, all that may be by chance included, unless only what is sure is asked for."""
        assert series.direction is not None, "only metrics with a direction are judged"
        chosen, days, revision = self._chosen(series.records, is_steady(series.metric, series.unit))
        values = series.values if chosen is None else series.values[chosen]
        analysis = analyse(values, days, only_sure=only_sure)
        return Judged(
            key=series.key,
            epoch=series.epoch,
            direction=series.direction,
            points=Points(series, chosen),
            analysis=analysis,
            newest=series.records.times[-1],
            revision=revision,
        )

    def _chosen(self, records: Records, steady: bool) -> _Chosen:
        """Most metrics of a case share it."""
        if self._last[0] is not records:
            self._last = records, {}
        known = self._last[1]
        if steady not in known:
            chosen = self._order.chosen(records, steady)
            times = records.times if chosen is None else [records.times[i] for i in chosen]
            days = days_of(times)
            known[steady] = _Chosen(
                chosen,
                None if days is None else np.array(days, dtype=np.intp),
                self._order.last(records, chosen),
            )
        return known[steady]


def days_of(times: Iterable[str]) -> list[int] | None:
    """The numbers of the days of these times; None if they do not follow each other."""
    days = [_day(time[:10]) for time in times]
    return days if all(0 < a <= b for a, b in itertools.pairwise(days)) else None


@lru_cache(maxsize=4096)
def _day(text: str) -> int:
    try:
        return date.fromisoformat(text).toordinal()
    except ValueError:
        return 0


def describe(judged: Judged) -> list[Change | None]:
    """Each change that was found, in order; None for one that is too small to matter."""
    if not judged.found:
        return []
    values = judged.points.values
    edges = [0, *(one.index for one in judged.found), len(values)]
    levels = [statistics.median(values[a:b]) for a, b in itertools.pairwise(edges)]
    return [
        _describe(judged, values, edges, levels, number)
        if abs(judged.found[number].effect) >= SMALLEST_EFFECT
        else None
        for number in range(len(judged.found))
    ]


def describe_drift(judged: Judged) -> Change | None:
    """The drift of a series, as a change that takes its time; None if there is none that matters."""
    drift = judged.drift
    if drift is None or abs(drift.effect) < SMALLEST_DRIFT:
        return None
    is_worse = (drift.effect > 0) == (judged.direction == "lower")
    return Change(
        index=drift.begin,
        last_good=max(drift.begin - 1, 0),
        first_bad=drift.end,
        verdict="worse" if is_worse else "better",
        effect=drift.effect,
        low=None,
        high=None,
        p_value=drift.p_value,
        undone_at=None,
    )


def _describe(
    judged: Judged, values: list[float], edges: list[int], levels: list[float], number: int
) -> Change:
    begin, index, end = edges[number : number + 3]
    verdict, effect = size_of(judged.found[number], levels[number], levels[number + 1], judged.direction)
    before, after = values[max(begin, index - _COMPARED) : index], values[index : min(end, index + _COMPARED)]
    low, high = _interval(before, after, effect)
    return Change(
        index=index,
        last_good=judged.found[number].first - 1,
        first_bad=judged.found[number].last,
        verdict=verdict,
        effect=effect,
        low=low,
        high=high,
        p_value=judged.found[number].p_value,
        undone_at=_undone_at(edges, levels, number),
    )


def size_of(found: ChangePoint, before: float, after: float, direction: Direction) -> tuple[Verdict, float]:
    """Whether a change between these levels is for the worse, and its size, which has the sign that they show."""
    rises = after > before
    is_worse = rises == (direction == "lower")
    return "worse" if is_worse else "better", math.copysign(found.effect, 1 if rises else -1)


def _interval(before: list[float], after: list[float], effect: float) -> tuple[float, float]:
    compared = compare(before, after)
    return min(compared.low - 1, effect), max(compared.high - 1, effect)


def _undone_at(edges: list[int], levels: list[float], number: int) -> int | None:
    """Where a later level takes back four fifths of the change, or more."""
    old, new = levels[number], levels[number + 1]
    if old == new:
        return None
    for later in range(number + 2, len(levels)):
        if (levels[later] - new) / (old - new) >= 0.8:
            return edges[later]
    return None


def read_baselines(store: Store, wanted: Mapping[str, Iterable[str]], *, but: str) -> Baselines:
    """The level of each of these metrics of these cases, without what the session named `but` measured."""
    order = read_order(store)
    answers = open_regressions(store)
    found: dict[CaseKey, dict[str, Baseline]] = {}
    for key, metrics in wanted.items():
        for series in store.iter_columns(cases=[key], metrics=sorted(metrics), judged_only=True):
            told = series.key
            # Asked for by the name in the suite, which may be an older one.
            case = (key, told.variant, told.version, told.environment_class)
            points = [point for point in order.points(series) if point.session != but]
            values = level_values(points, answers.get(told, ()))
            level = statistics.median(values[-_RECENT:]) if values else 0.0
            found.setdefault(case, {})[series.metric] = Baseline(level=level, results=len(values))
    return found


def open_regressions(store: Store) -> dict[SeriesKey, list[Finding]]:
    """The regressions that nobody has answered yet, by their series."""
    found: dict[SeriesKey, list[Finding]] = {}
    for one in store.findings():
        if one.fails:
            found.setdefault(one.series, []).append(one)
    return found


def level_values(points: Sequence[Point], regressions: Iterable[Finding] = ()) -> list[float]:
    """The values of the level before the first of these regressions, since the last change before that."""
    good = [_last_good(points, one) for one in regressions]
    values = [point.value for point in points[: min(good) + 1 if good else len(points)]]
    changes = change_points(values)
    return values[changes[-1].index :] if changes else values


def _last_good(points: Sequence[Point], finding: Finding) -> int:
    """Which point is the last before the change; by its time if it is gone."""
    at = position_of(points, finding.last_good)
    if at is not None:
        return at
    return sum(1 for point in points if point.time <= finding.last_good.time) - 1
