"""Looks for changes in the series that have new points, and keeps what it finds in the history.

A change that is found again is the finding it was before, though more points may have moved it a little. Findings whose
brackets all share a stretch of history have one cause: they are an incident.
"""

import bisect
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from paceline.finding import Finding, Kind, Place, SeriesKey
from paceline.findings.commits import Repository
from paceline.findings.order import read_order
from paceline.findings.segments import (
    Change,
    Judge,
    Judged,
    column_key,
    describe,
    describe_drift,
    place_of_point,
)
from paceline.findings.stopped import find_stopped
from paceline.findings.suspects import Suspect, commit_suspects, environment_suspects
from paceline.findings.watched import watched
from paceline.history import Store
from paceline.history.findings import (
    case_marks,
    finding_id,
    read_findings,
    read_marks,
    series_count,
    write_findings,
    write_marks,
)
from paceline.history.places import read_state, write_state
from paceline.judge import Control

_DETECTOR = "4"
"""Changes when the detector does: then every series is looked at again."""

Moment = tuple[int, int | str]
"""A place in the order of commits, or in time; the two are not comparable."""
Bracket = tuple[Moment, Moment]

FARTHEST = 5
"""Points by which a change may have moved and still be the same."""
_CREDIT = "credit"
_MANY_AT_ONCE = 10
"""Records of a case from which on they are a past that was imported, if they are most of what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """What a search did; `past` is how many of the findings are new and of a past that nobody had searched."""

    cases: int = 0
    series: int = 0
    findings: int = 0
    past: int = 0


Cause = tuple[SeriesKey, int]
"""Which change of which series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The changes of a series that are worth a word; `is_past`: of a past that nobody had searched."""

    judged: Judged
    changes: tuple[Change, ...]
    is_past: bool


def detect(store: Store, repository: Repository | None = None) -> Detected:
    """Search what is new in the history; series without new points are not read."""
    order = read_order(store, repository, searches=True)
    with store.database.reading():
        known = read_marks(store.database)
        mark = f"{_DETECTOR}:{order.generation}"
        now = {case: f"{mark}:{told}" for case, told in case_marks(store.database).items()}
    marks = {case: told for case, told in now.items() if known.get(case) != told}
    if not marks:
        return Detected()
    with store.database.reading():
        stored = _by_series(read_findings(store.database, cases=tuple(marks), withdrawn=True))
        control, every = (
            Control(credit=read_state(store.database).get(_CREDIT, 0.0)),
            series_count(store.database),
        )
    judge = Judge(order)
    found: list[_Found] = []
    for column in watched(store, store.iter_columns(cases=tuple(marks))):
        judged = judge.judge(column, keep_points=column_key(column) in stored)
        is_past = _is_past(known.get(column.case_key, ""), now[column.case_key])
        worth = tuple(change for change in describe(judged) if change)
        found.append(_Found(judged=judged, changes=worth, is_past=is_past))
    level = control.level(len(found), every)
    # Looking for causes asks git and the history, so it is done before the lock is taken.
    causes = _find_causes(store, repository, found, stored, level)
    silent = [one for one in store.findings(withdrawn=True) if one.kind == "stopped"]
    stopped = list(find_stopped(store, order, silent, known))
    with store.database.writing():
        before = {one.id: one for one in read_findings(store.database, withdrawn=True)}
        stored = _by_series(one for one in before.values() if one.case in marks)
        updated = [*_updated(found, stored, causes, level), *stopped]
        standing = [one for one in updated if one.stands]
        written = {one.id for one in updated}
        others = (one for one in before.values() if one.stands and one.id not in written)
        grouped = {one.id: one for one in group([*others, *standing], order.places)}
        write_findings(store.database, [grouped.get(one.id, one) for one in updated])
        write_marks(store.database, marks)
        new = [one for one in standing if one.id not in before]
        past = sum(1 for one in new if not one.found_in)
        # A past that was imported earns nothing.
        discoveries = sum(1 for one in new if one.found_in and one.kind != "stopped")
        after = control.after(len(found), every, discoveries)
        write_state(store.database, {_CREDIT: after.credit})
    return Detected(cases=len(marks), series=len(found), findings=len(standing), past=past)


def _is_past(before: str, now: str) -> bool:
    """Whether a case was never searched by this detector, or most of its records came at once since it was."""
    if not before.startswith(f"{_DETECTOR}:"):
        return True
    old, new = (int(mark.rpartition("-")[2]) if "-" in mark else 0 for mark in (before, now))
    return new - old >= _MANY_AT_ONCE and new > 2 * old


def _by_series(findings: Iterable[Finding]) -> dict[SeriesKey, list[Finding]]:
    grouped: defaultdict[SeriesKey, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.kind != "stopped":
            grouped[finding.series].append(finding)
    return grouped


def _find_causes(
    store: Store,
    repository: Repository | None,
    found: Sequence[_Found],
    stored: Mapping[SeriesKey, Sequence[Finding]],
    level: float,
) -> dict[Cause, tuple[Suspect, ...]]:
    """What may have caused each change that is known, or new and believed."""
    suspects = _Suspects(store, repository)
    causes: dict[Cause, tuple[Suspect, ...]] = {}
    for one in found:
        matched = match(stored.get(one.judged.key, ()), one.judged, one.changes)
        for change in one.changes:
            before = matched.get(change.index)
            if before or change.p_value <= level:
                causes[one.judged.key, change.index] = suspects.of(one.judged, change, before)
    return causes


def _updated(
    found: Sequence[_Found],
    stored: dict[SeriesKey, list[Finding]],
    causes: Mapping[Cause, tuple[Suspect, ...]],
    level: float,
) -> Iterator[Finding]:
    """All findings of the series as they are now: new ones, known ones placed anew, and those that stand no more."""
    for one in found:
        known = stored.pop(one.judged.key, [])
        matched = match(known, one.judged, one.changes)
        for change in one.changes:
            before = matched.get(change.index)
            if before or change.p_value <= level:
                yield _finding(one, change, before, causes.get((one.judged.key, change.index), ()))
        drift = describe_drift(one.judged)
        drifted = (each for each in known if each.kind == "drift" and drift and each.verdict == drift.verdict)
        before = next(drifted, None)
        if drift and (before or drift.p_value <= level):
            yield _finding(one, drift, before, (), kind="drift")
        kept = {finding.id for finding in matched.values()} | ({before.id} if before else set())
        for finding in known:
            if finding.id not in kept:
                yield replace(finding, stands=_outlives(finding, one.judged))
    for rest in stored.values():
        yield from (replace(finding, stands=False) for finding in rest)


def _outlives(finding: Finding, judged: Judged) -> bool:
    """Whether the points that the finding rests on were pruned, so that nothing speaks against it."""
    is_gone = bool(judged.points) and finding.at_time < min(point.time for point in judged.points)
    return finding.stands and finding.epoch == judged.epoch and is_gone


def _finding(
    found: _Found,
    change: Change,
    before: Finding | None,
    suspects: tuple[Suspect, ...],
    kind: Kind = "step",
) -> Finding:
    judged = found.judged
    at, newest = judged.points[change.index], max(judged.points, key=lambda point: point.time)
    undone = change.verdict == "worse" and change.undone_at is not None
    known = before or Finding(
        id=finding_id(judged.key, change.verdict if kind == "step" else kind, at.record_id),
        kind=kind,
        **judged.key.parts,
        verdict=change.verdict,
        found_at=newest.time,
        found_in="" if found.is_past else newest.session_id,
        found_after=len(judged.points) - change.index,
    )
    return replace(
        known,
        epoch=judged.epoch,
        effect=change.effect,
        low=change.low,
        high=change.high,
        p_value=change.p_value,
        last_good=place_of_point(judged.points[change.last_good]),
        first_bad=place_of_point(judged.points[change.first_bad]),
        at_record=at.record_id,
        at_time=at.time,
        suspects=suspects,
        own_state="fixed" if undone else "new",
        fixed_at=judged.points[change.undone_at].time if undone and change.undone_at is not None else None,
        stands=True,
    )


class _Suspects:
    """Looks for the causes of changes; environments are read once."""

    def __init__(self, store: Store, repository: Repository | None) -> None:
        self._repository = repository
        self._environment = lru_cache(maxsize=256)(store.environment)

    def of(self, judged: Judged, change: Change, before: Finding | None) -> tuple[Suspect, ...]:
        good, bad = judged.points[change.last_good], judged.points[change.first_bad]
        bracket = place_of_point(good), place_of_point(bad)
        if before and self._repository is None and (before.last_good, before.first_bad) == bracket:
            return before.suspects  # perhaps found with a repository at hand, which knew the commits
        found = list(commit_suspects(self._repository, *bracket))
        if good.environment_id != bad.environment_id:
            environments = self._environment(good.environment_id), self._environment(bad.environment_id)
            found += environment_suspects(*environments)
        if good.source_hash != bad.source_hash and good.source_hash:
            found.append({"kind": "source", "before": good.source_hash, "after": bad.source_hash})
        return tuple(found)


def group(findings: Iterable[Finding], places: Mapping[str, int]) -> Iterator[Finding]:
    """The findings with their incidents; one that has an incident keeps it, the others join or begin one."""
    shared: dict[str, Bracket] = {}
    waiting: list[tuple[Bracket, Finding]] = []
    for finding in findings:
        bracket = _bracket(finding, places)
        if not finding.incident:
            waiting.append((bracket, finding))
            continue
        known = shared.get(finding.incident, bracket)
        # Members that were moved apart since: the incident is where the most recent one lies.
        shared[finding.incident] = _shared(known, bracket) or bracket
        yield finding
    # The narrowest first: a case that runs once a week must not tie together what happened on different days.
    for bracket, finding in sorted(waiting, key=lambda one: (_width(one[0]), one[0][1], one[1].id)):
        incident = _joined(shared, bracket) or _new_incident(finding)
        shared[incident] = _shared(shared.get(incident, bracket), bracket) or bracket
        yield replace(finding, incident=incident)


def _bracket(finding: Finding, places: Mapping[str, int]) -> Bracket:
    good, bad = finding.last_good, finding.first_bad
    if good.revision in places and bad.revision in places and good.revision != bad.revision:
        return (0, places[good.revision]), (0, places[bad.revision])
    return _in_time(good), _in_time(bad)


def _in_time(place: Place) -> Moment:
    return 1, place.time


def _width(bracket: Bracket) -> int:
    (kind, begin), (_, end) = bracket
    return int(end) - int(begin) if kind == 0 else 0


def _shared(one: Bracket, other: Bracket) -> Bracket | None:
    """The stretch that two brackets share: after the later of the last good points, up to the earlier first bad."""
    if one[0][0] != other[0][0]:
        return None
    begin, end = max(one[0], other[0]), min(one[1], other[1])
    return (begin, end) if begin < end else None


def _joined(shared: dict[str, Bracket], bracket: Bracket) -> str | None:
    return next((name for name, known in shared.items() if _shared(known, bracket)), None)


def _new_incident(finding: Finding) -> str:
    return f"i{hashlib.sha256(finding.id.encode()).hexdigest()[:8]}"


def match(known: Sequence[Finding], judged: Judged, changes: Sequence[Change]) -> dict[int, Finding]:
    """The known finding that each change is, by the change's index; the nearest ones find each other first."""
    positions = {point.record_id: position for position, point in enumerate(judged.points)}
    pairs = sorted(
        (
            (
                abs(change.index - position),
                not finding.said,
                not finding.stands,
                finding.id,
                change.index,
                finding,
            )
            for finding in known
            if finding.kind == "step"
            and finding.epoch == judged.epoch
            and (position := _position(finding, positions, judged)) is not None
            for change in changes
            if change.verdict == finding.verdict and abs(change.index - position) <= FARTHEST
        ),
        key=lambda pair: pair[:-1],
    )
    matched: dict[int, Finding] = {}
    taken: set[str] = set()
    for *_, ident, index, finding in pairs:
        if ident not in taken and index not in matched:
            matched[index] = finding
            taken.add(ident)
    return matched


def _position(finding: Finding, positions: dict[str, int], judged: Judged) -> int | None:
    """Where the finding lies among the points now; by its time if its record is gone."""
    if finding.at_record in positions:
        return positions[finding.at_record]
    times = [point.time for point in judged.points]
    is_ordered = all(a <= b for a, b in itertools.pairwise(times))
    if not is_ordered or not times or finding.at_time < times[0]:
        return None
    return bisect.bisect_left(times, finding.at_time)
