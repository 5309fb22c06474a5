"""What may have got worse tonight: lasting changes in the history, and newest values that look odd."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from paceline.finding import Finding, Place, SeriesKey, Stage
from paceline.findings.commits import Repository
from paceline.findings.detection import detect
from paceline.findings.order import Order, position_of, read_order
from paceline.findings.segments import place_of_point
from paceline.findings.watched import watched
from paceline.history import Point, Series, Store
from paceline.history.findings import finding_id
from paceline.judge import suspect_tail
from paceline.judge.suspicion import LONGEST_TAIL
from paceline.model import Direction

_REMEMBERED = 30
"""Values of the good level that a new one is held against."""
_LOOKED_AT = 2 * (_REMEMBERED + LONGEST_TAIL)
"""The newest values of a series that a suspicion may be about."""
_RECENT = 3
_SLACK = 4
"""How many nights before it looked worse it may have become so; tonight is bad if any night is. A wider bracket costs
a few runs, a wrong one all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspected:
    """A metric of a case that may have got worse after `good` and not after `bad`.

    `finding` is the change that the history knows; without one it is a suspicion about the newest values. `also` are
    metrics and cases of which the newest values look odd since the same place.
    """

    series: SeriesKey
    direction: Direction
    good: Place
    bad: Place
    effect: float
    weight: float
    before: tuple[float, ...]
    at: Point
    epoch: int = 0
    runs: int = 0
    """Those that were made for it on earlier nights, also while it was a mere suspicion that did not reproduce."""
    finding: Finding | None = None
    also: tuple[SeriesKey, ...] = ()

    @property
    def id(self) -> str:
        return self.finding.id if self.finding else finding_id(self.series, "worse", self.at.record_id)

    @property
    def refuted_id(self) -> str:
        """The id under which it is kept that it did not reproduce: a change that lasts is another finding."""
        return finding_id(self.series, "inconclusive", self.at.record_id)

    @property
    def is_certain(self) -> bool:
        """Whether the history alone shows that it changed, or an earlier night has confirmed it."""
        return self.finding is not None

    @property
    def stage(self) -> Stage:
        return self.finding.stage if self.finding else "suspected"

    def runs_left(self, most: int) -> int:
        """How many more runs may be made; to find out whether a mere suspicion holds, half of them at most."""
        return (most if self.is_certain else most // 2) - self.runs

    @property
    def chance(self) -> float:
        """How likely such a score is for values that did not change."""
        return math.erfc(self.weight / math.sqrt(2)) / 2


def find_suspicions(
    store: Store,
    repository: Repository | None,
    session_id: str,
    cases: Sequence[str],
    metrics: Sequence[str] = (),
    own_class: str = "",
) -> list[Suspected]:
    """All suspicions about these cases, the strongest first: each change that the history shows, since another one
    at its place does not prove it; of values that look odd, one for each place.

    With a class of machines, none of others speaks for one of it.
    """
    detect(store, repository)
    order = read_order(store)
    known = [one for one in store.findings() if one.case in set(cases) and is_wanted(one.metric, metrics)]
    several = [
        series
        for series in watched(store, store.iter_columns(cases=cases, judged_only=True))
        if series.case_key in cases
    ]
    by_key = {series.key: series for series in several}
    refuted: defaultdict[SeriesKey, list[Finding]] = defaultdict(list)
    for one in store.findings(withdrawn=True):
        if one.verdict == "inconclusive" and one.stage == "not_reproduced":
            refuted[one.series].append(one)
    found = [_with_runs(one, refuted[one.series]) for one in _lasting(known, by_key, order)]
    for key, series in by_key.items():
        if is_wanted(key.metric, metrics):
            own = [one for one in known if one.series == key]
            newest = _newest(series, order, session_id, own, refuted[key])
            found += [_with_runs(one, refuted[key]) for one in newest]
    merged = [one for several in split_by_machine(found, own_class) for one in _merged(several)]
    return _ranked(merged)


def split_by_machine(
    suspicions: Sequence[Suspected], own_class: str
) -> tuple[list[Suspected], list[Suspected]]:
    """The suspicions about machines of this class, and the others: what a node of a pool measured, only such a
    machine can confirm."""
    here = [one for one in suspicions if one.series.environment_class == own_class or not own_class]
    return here, [one for one in suspicions if one not in here]


def is_wanted(metric: str, patterns: Sequence[str]) -> bool:
    """Whether a night that names these metrics (or, by naming none, all) is about this one."""
    return not patterns or any(fnmatchcase(metric, pattern) for pattern in patterns)


def _lasting(known: Iterable[Finding], by_key: dict[SeriesKey, Series], order: Order) -> Iterator[Suspected]:
    """Changes for the worse that nobody has said anything about. A drift has no commit that did it."""
    for one in known:
        series = by_key.get(one.series)
        if (
            not one.fails
            or one.kind != "step"
            or one.effect is None
            or series is None
            or not series.direction
        ):
            continue
        points = order.points(series)
        good = position_of(points, one.last_good)
        before = [point.value for point in points[: 0 if good is None else good + 1]]
        if not points or _is_over(one, points, before):
            continue
        yield Suspected(
            series=one.series,
            direction=series.direction,
            good=one.last_good,
            bad=one.first_bad,
            effect=one.effect,
            weight=abs(one.effect) / max(one.p_value or 0.0, 1e-12),
            before=tuple(before[-_REMEMBERED:]),
            at=points[-1],
            finding=one,
        )


def _with_runs(suspected: Suspected, refuted: Iterable[Finding]) -> Suspected:
    """The suspicion with the runs that were made for it before, and for refuted ones within its bracket."""
    begin, end = suspected.good.time, suspected.bad.time
    earlier = sum(one.runs for one in refuted if begin < one.at_time <= end)
    return replace(suspected, runs=earlier + (suspected.finding.runs if suspected.finding else 0))


def _newest(
    series: Series, order: Order, session_id: str, known: Sequence[Finding], refuted: Sequence[Finding]
) -> Iterator[Suspected]:
    """A suspicion about the newest values, if tonight's is the last and the level before has no change in it.

    Points that were run again and did not reproduce are not asked about again.
    """
    every = order.points(series)
    if not every or every[-1].session_id != session_id or series.direction is None:
        return
    begin = max((every.position(one.at_record) or 0 for one in known), default=0)
    spans = [(one.at_time, one.first_bad.time) for one in refuted]
    places = [
        place
        for place, time in enumerate(every.times)
        if place >= begin and not any(first <= time <= last for first, last in spans)
    ][-_LOOKED_AT:]
    if not places or places[-1] != len(every) - 1:
        return
    points, told = every.at(places), every.values
    values = [told[place] for place in places]
    found = suspect_tail(values, higher_is_better=series.direction == "higher")
    if found is not None:
        yield Suspected(
            series=series.key,
            direction=series.direction,
            good=place_of_point(points[max(0, found.index - 1 - _SLACK)]),
            bad=place_of_point(points[-1]),
            effect=found.effect,
            weight=found.score,
            before=tuple(values[max(0, found.index - _REMEMBERED) : found.index]),
            at=points[found.index],
            epoch=series.epoch,
        )


def _merged(found: Iterable[Suspected]) -> Iterator[Suspected]:
    """All that are certain, and one for each place of others, which speaks for the rest of them."""
    leads: dict[tuple[Place, Place], Suspected] = {}
    for one in sorted(found, key=lambda one: -one.weight):
        if one.is_certain:
            yield one
            continue
        lead = leads.get((one.good, one.bad))
        leads[one.good, one.bad] = one if lead is None else replace(lead, also=(*lead.also, one.series))
    yield from leads.values()


def _ranked(found: Iterable[Suspected]) -> list[Suspected]:
    """The certain before the others, and of each incident one before any other: it may find the cause for all."""
    ranked: list[tuple[bool, int, float, Suspected]] = []
    seen: Counter[str] = Counter()
    for one in sorted(found, key=lambda one: -one.weight):
        incident = one.finding.incident if one.finding else ""
        ranked.append((not one.is_certain, seen[incident] if incident else 0, -one.weight, one))
        seen[incident] += 1
    return [one for *_, one in sorted(ranked, key=lambda rank: rank[:-1])]


def _is_over(finding: Finding, points: Sequence[Point], before: Sequence[float]) -> bool:
    """Whether the newest values are back where they were; only for a finding that no detector watches."""
    at = next((i for i, point in enumerate(points) if point.record_id == finding.at_record), len(points))
    after = [point.value for point in points[at + 1 :]]
    if finding.stands or len(after) < _RECENT or not before:
        return False
    old = statistics.median(before)
    effect = finding.effect or 0.0
    middle = old * (1 + effect / 2)
    newest = statistics.median(after[-_RECENT:])
    return newest < middle if effect > 0 else newest > middle
