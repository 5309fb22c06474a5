"""What changed since each release: the levels of series at tags and now, and which changes own the difference.

A level is that of the stretch between two changes, so that one noisy night is not taken for a release. A series whose
changes cannot be found, because releases alone were measured, is compared by its samples.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

from paceline.finding import Finding, SeriesKey
from paceline.findings.between import noise_of
from paceline.findings.order import Order
from paceline.findings.watched import watched
from paceline.history import Store
from paceline.history.naming import Named, read_series_names
from paceline.history.series import Point, Series
from paceline.judge.comparison import compare_sessions
from paceline.model import Direction, Verdict

SMALLEST = 0.005
"""A change of less than half a percent is told of by nobody."""
MOST_OF_IT = 0.8
"""The share of a change that its owners are named for."""
_NEAR = 10
"""Points on each side of a release, within its stretch, that its level is taken from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A tag, at the first measured revision that has it."""

    name: str
    time: str
    revision: str
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """A series since a release: its level there, the change to its level now, and the verdict on it."""

    level: float
    change: float
    verdict: Verdict
    steps: tuple[Finding, ...] = ()
    """The changes of the series that lie after the release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One series: its level now, and since each release, None where it was not measured."""

    series: SeriesKey
    name: str
    direction: Direction
    now: float
    since: tuple[Since | None, ...]

    @property
    def largest(self) -> float:
        """The largest change since any of the releases."""
        return max((abs(one.change) for one in self.since if one), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A cause of changes, and its share of all that got worse, or of all that got better if more did."""

    share: float
    effect: float
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """All series together since a release: the mean change, above 0 for the worse, and who owns most of it."""

    release: Release
    series: int
    change: float
    owners: tuple[Owner, ...] = ()

    @property
    def owned(self) -> float:
        return sum(one.share for one in self.owners)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The releases, oldest first; the series that were measured at one of them; and the balance since each."""

    releases: tuple[Release, ...]
    rows: tuple[Row, ...]
    balances: tuple[Balance, ...]


def read_ledger(
    store: Store,
    order: Order,
    findings: Iterable[Finding],
    *,
    tags: Sequence[str] = (),
    last: int | None = None,
    cases: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
) -> Ledger:
    """What changed since the last releases, or since those whose names fit one of the globs `tags`.

    `findings` are those of the history, told; of them the changes that stand are looked at.
    """
    releases = releases_of(order, tags)[-last if last else None :]
    changes: defaultdict[SeriesKey, list[Finding]] = defaultdict(list)
    for one in findings:
        if one.kind in ("step", "drift") and one.stands and one.state != "false" and one.effect is not None:
            changes[one.series].append(one)
    with store.database.reading():
        names = read_series_names(store.database)
    rows = []
    for series in watched(store, _read(store, cases, metrics)):
        row = _row(series, order, releases, changes[series.key])
        if row is not None:
            named = names.get((*row.series[:3], row.series.environment_class), Named("", ""))
            rows.append(replace(row, name=named.name))
    rows.sort(key=lambda row: (-row.largest, row.series))
    balances = tuple(_balance(release, number, rows) for number, release in enumerate(releases))
    return Ledger(releases=tuple(releases), rows=tuple(rows), balances=balances)


def _read(store: Store, cases: Sequence[str] | None, metrics: Sequence[str] | None) -> Iterator[Series]:
    """The series, case by case; those with few points with their samples."""
    wanted = store.iter_columns(cases=cases, metrics=metrics, judged_only=True)
    for case, group in groupby(wanted, key=lambda series: series.case_key):
        several = list(group)
        if any(len(series.values) <= 2 * _NEAR for series in several):
            several = [*store.iter_columns(cases=[case], metrics=metrics, judged_only=True, samples=True)]
        yield from several


def releases_of(order: Order, tags: Sequence[str] = ()) -> list[Release]:
    """The tags of measured revisions, in the order of commits; of several at one revision the last."""
    found: dict[int, Release] = {}
    for revision, named in order.tags.items():
        if revision not in order.places or revision in order.aside:
            continue
        fitting = [tag for tag in named if not tags or any(fnmatchcase(tag.name, glob) for glob in tags)]
        if fitting:
            place = order.places[revision]
            tag = fitting[-1]
            found[place] = Release(name=tag.name, time=tag.time, revision=revision, place=place)
    return [found[place] for place in sorted(found)]


class _Levels:
    """The stretches of a series between its changes."""

    def __init__(self, points: Sequence[Point], changes: Iterable[Finding]) -> None:
        self.points = points
        at = {one.record_id: number for number, one in enumerate(points)}
        placed = sorted(
            ((at[one.at_record], one) for one in changes if one.at_record in at), key=lambda pair: pair[0]
        )
        self.steps = placed
        self._edges = [0, *(number for number, _ in placed), len(points)]

    def near(self, number: int) -> Sequence[Point]:
        """The points around one, in its stretch."""
        begin = max(edge for edge in self._edges[:-1] if edge <= number)
        end = min(edge for edge in self._edges[1:] if edge > number)
        return self.points[max(begin, number - _NEAR) : min(end, number + _NEAR + 1)]

    def after(self, number: int) -> tuple[Finding, ...]:
        return tuple(one for place, one in self.steps if place > number)


def _row(series: Series, order: Order, releases: Sequence[Release], changes: Sequence[Finding]) -> Row | None:
    points = [*order.points(series)]
    if not points or series.direction is None:
        return None
    levels = _Levels(points, changes)
    places = [order.places.get(point.revision) for point in points]
    now = statistics.median(point.value for point in levels.near(len(points) - 1))
    since: list[Since | None] = []
    for release in releases:
        number = _at(places, release.place)
        since.append(None if number is None else _since(levels, number, now, series.direction))
    if not any(since):
        return None
    return Row(series=series.key, name="", direction=series.direction, now=now, since=tuple(since))


def _at(places: Sequence[int | None], wanted: int) -> int | None:
    """The first point that was measured at a release or after it; None if there is none, or none before it."""
    number = next((i for i, place in enumerate(places) if place is not None and place >= wanted), None)
    return number if number is not None and (number > 0 or places[number] == wanted) else None


def _since(levels: _Levels, number: int, now: float, direction: Direction) -> Since | None:
    points, steps = levels.points, levels.after(number)
    is_sparse = not steps and len(points) <= 2 * _NEAR
    level = statistics.median(point.value for point in levels.near(number))
    if is_sparse:  # so few that a change between them is not to be seen: what was measured there, and last
        level, now = points[number].value, points[-1].value
    if level <= 0 or now <= 0:
        return None
    verdict: Verdict = "same"
    change = now / level - 1
    if is_sparse and number < len(points) - 1:
        verdict = _compared(points, number, direction)
    elif steps and abs(change) >= SMALLEST:
        verdict = "worse" if (change > 0) == (direction == "lower") else "better"
    is_change = verdict in ("worse", "better")
    return Since(level=level, change=change if is_change else 0.0, verdict=verdict, steps=steps)


def _compared(points: Sequence[Point], number: int, direction: Direction) -> Verdict:
    """The verdict on a point and the last one of a series, by their samples."""
    sides = [[point.samples or (point.value,)] for point in (points[number], points[-1])]
    noise = noise_of([point.value for point in points])
    if noise is None and min(len(side[0]) for side in sides) < 2:
        return "inconclusive"
    higher = direction == "higher"
    return compare_sessions(sides[0], sides[1], noise=noise, higher_is_better=higher).verdict


def _balance(release: Release, number: int, rows: Sequence[Row]) -> Balance:
    """The mean of all series, by their logarithms; each cause owns what its changes add to that."""
    known = [(row, row.since[number]) for row in rows]
    told = [(row, one) for row, one in known if one is not None]
    if not told:
        return Balance(release=release, series=0, change=0.0)
    total = sum(_badness(row, one.change) for row, one in told) / len(told)
    shares: defaultdict[str, list[tuple[float, Finding]]] = defaultdict(list)
    for row, one in told:
        for step in one.steps:
            shares[_cause(step)].append((_badness(row, step.effect or 0.0) / len(told), step))
    sums = {cause: sum(part for part, _ in parts) for cause, parts in shares.items()}
    # Of what went the way that all went in the end: what others took back is no part of it.
    gross = sum(size for size in sums.values() if size * total > 0)
    owners = [
        Owner(
            share=sums[cause] / gross,
            effect=math.expm1(sums[cause]),
            findings=tuple(step for _, step in sorted(parts, key=lambda pair: -abs(pair[0]))),
        )
        for cause, parts in shares.items()
        if abs(total) >= SMALLEST and gross
    ]
    named = tuple(_most_of_it(sorted(owners, key=lambda one: -one.share)))
    return Balance(release=release, series=len(told), change=math.expm1(total), owners=named)


def _badness(row: Row, change: float) -> float:
    """A relative change as a logarithm, above 0 for the worse."""
    size = math.log1p(max(change, -0.999999))
    return size if row.direction == "lower" else -size


def _cause(step: Finding) -> str:
    return str((step.culprit or {}).get("revision") or step.incident or step.id)


def _most_of_it(owners: Iterable[Owner]) -> Iterator[Owner]:
    """The largest, until they own most of the change."""
    owned = 0.0
    for one in owners:
        if owned >= MOST_OF_IT or one.share <= 0:
            return
        owned += one.share
        yield one


def ledger_json(ledger: Ledger) -> dict[str, Any]:
    """The whole as data, for scripts and for the page."""

    def since(one: Since | None) -> Mapping[str, Any] | None:
        if one is None:
            return None
        steps = [step.id for step in one.steps]
        return {"level": one.level, "change": one.change, "verdict": one.verdict, "findings": steps}

    return {
        "releases": [
            {"name": one.name, "time": one.time, "revision": one.revision} for one in ledger.releases
        ],
        "balances": [
            {
                "release": one.release.name,
                "series": one.series,
                "change": one.change,
                "owned": one.owned,
                "owners": [
                    {
                        "share": owner.share,
                        "effect": owner.effect,
                        "culprit": owner.findings[0].culprit,
                        "suspects": list(owner.findings[0].suspects),
                        "last_good": owner.findings[0].last_good.revision,
                        "first_bad": owner.findings[0].first_bad.revision,
                        "findings": [step.id for step in owner.findings],
                    }
                    for owner in one.owners
                ],
            }
            for one in ledger.balances
        ],
        "rows": [
            {**row.series.parts, "name": row.name, "now": row.now, "since": [since(one) for one in row.since]}
            for row in ledger.rows
        ],
    }
