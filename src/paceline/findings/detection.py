"""Looks for changes in the series that have new points, and keeps what it finds in the history.

A change that is found again is the finding it was before, though more points may have moved it a little.
"""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from paceline.finding import Finding, Kind, SeriesKey
from paceline.findings.commits import Repository
from paceline.findings.incidents import group
from paceline.findings.order import read_order
from paceline.findings.screening import keep, screen
from paceline.findings.segments import (
    Change,
    Judge,
    Judged,
    describe,
    describe_drift,
    place_of_point,
)
from paceline.findings.stopped import find_stopped
from paceline.findings.suspects import Suspect, commit_suspects, environment_suspects
from paceline.history import Store
from paceline.history.findings import (
    case_heads,
    finding_id,
    read_findings,
    read_marks,
    series_count,
    write_findings,
    write_marks,
)
from paceline.history.places import read_state, write_state
from paceline.judge import Control

_DETECTOR = "5"
"""Changes when the detector does: then every series is looked at again."""

FARTHEST = 5
"""Points by which a change may have moved and still be the same."""
_FOLLOWED = frozenset({"confirmed", "bisected", "undecided"})
_CREDIT = "credit"
_SCREENED = 3e-3
"""The p-value up to which a series of which nothing stands out has no change that would be believed."""
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
    mark = f"{_DETECTOR}:{order.generation}"
    with store.database.reading():
        known = read_marks(store.database)
        heads = case_heads(store.database)
        now = {case: f"{mark}:{head.mark}" for case, head in heads.items()}
    marks = {case: told for case, told in now.items() if known.get(case) != told}
    if not marks:
        return Detected()
    with store.database.reading():
        findings = read_findings(store.database, withdrawn=True)
        control = Control(credit=read_state(store.database).get(_CREDIT, 0.0))
        every = series_count(store.database)
    # What sessions report is placed anew with every point; what is of the past, when the series is read again.
    waited_for = {one.series for one in findings if one.stands and one.is_open and one.found_in}
    only_sure = control.level(len(marks), every) <= _SCREENED
    screened = screen(
        store, order, {case: heads[case] for case in marks}, mark, waited_for if only_sure else None
    )
    stored = _by_series(one for one in findings if screened.is_read(one.series))
    judge = Judge(order)
    found: list[_Found] = []
    tests = screened.quiet
    for series in screened.read(store):
        # What is known is looked at closely, however unsure it has become.
        judged = judge.judge(series, only_sure=only_sure and series.key not in stored)
        screened.judged(judged, order, waited_for=series.key in waited_for)
        tests += 1
        # Of most there is nothing to say, and they are not kept in memory.
        if judged.found or judged.drift or judged.key in stored:
            is_past = _is_past(known.get(series.case_key, ""), now[series.case_key])
            worth = tuple(change for change in describe(judged) if change)
            found.append(_Found(judged=judged, changes=worth, is_past=is_past))
    level = control.level(tests, every)
    # Looking for causes asks git and the history, so it is done before the lock is taken.
    causes = _find_causes(store, repository, found, stored, level)
    silent = [one for one in findings if one.kind == "stopped"]
    stopped = list(find_stopped(store, order, silent, known))
    with store.database.writing():
        before = {one.id: one for one in read_findings(store.database, withdrawn=True)}
        stored = _by_series(one for one in before.values() if screened.is_read(one.series))
        updated = [*_updated(found, stored, causes, level), *stopped]
        standing = [one for one in updated if one.stands]
        written = {one.id for one in updated}
        others = [one for one in before.values() if one.stands and one.id not in written]
        grouped = {one.id: one for one in group([*others, *standing], order.places)}
        moved = [grouped[one.id] for one in others if grouped[one.id].incident != one.incident]
        write_findings(store.database, [*(grouped.get(one.id, one) for one in updated), *moved])
        write_marks(store.database, marks)
        keep(store, screened, mark)
        new = [one for one in standing if one.id not in before]
        past = sum(1 for one in new if not one.found_in)
        # A past that was imported earns nothing.
        discoveries = sum(1 for one in new if one.found_in and one.kind != "stopped")
        after = control.after(tests, every, discoveries)
        write_state(store.database, {_CREDIT: after.credit})
    return Detected(cases=len(marks), series=tests, findings=len(standing), past=past)


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
                suspects = causes.get((one.judged.key, change.index), ())
                yield _finding(one, change, before or _new(one, change, "step", known), suspects)
        drift = describe_drift(one.judged)
        before = next((each for each in known if drift and _is_drift(each, one.judged, drift)), None)
        if drift and (before or drift.p_value <= level):
            yield _finding(one, drift, before or _new(one, drift, "drift", known), ())
        kept = {finding.id for finding in matched.values()} | ({before.id} if before else set())
        for finding in known:
            if finding.id not in kept:
                yield replace(finding, stands=_outlives(finding, one.judged))
    for rest in stored.values():
        yield from (replace(finding, stands=False) for finding in rest)


def _is_drift(finding: Finding, judged: Judged, drift: Change) -> bool:
    """Whether a finding is this drift: it goes the same way, and had not ended when this began."""
    began = judged.points[drift.last_good].time
    return (finding.kind, finding.verdict) == ("drift", drift.verdict) and finding.first_bad.time >= began


def _outlives(finding: Finding, judged: Judged) -> bool:
    """Whether the points that the finding rests on were pruned, so that nothing speaks against it."""
    is_gone = bool(judged.points) and finding.at_time < min(judged.points.times)
    return finding.stands and finding.epoch == judged.epoch and is_gone


def _new(found: _Found, change: Change, kind: Kind, known: Iterable[Finding]) -> Finding:
    """A finding that is found for the first time."""
    judged = found.judged
    times = judged.points.times
    record, newest = judged.points[change.index].record_id, judged.points[times.index(max(times))]
    taken = {one.id for one in known}
    # One that has moved away since may have begun at the same record.
    while (ident := finding_id(judged.key, change.verdict if kind == "step" else kind, record)) in taken:
        record += "+"
    return Finding(
        id=ident,
        kind=kind,
        **judged.key.parts,
        verdict=change.verdict,
        found_at=newest.time,
        found_in="" if found.is_past else newest.session_id,
        found_after=len(judged.points) - change.index,
    )


def _finding(found: _Found, change: Change, known: Finding, suspects: tuple[Suspect, ...]) -> Finding:
    """A finding as it is now."""
    if known.stage == "not_reproduced":
        return replace(known, stands=True)  # Where it is and how large it is says what was refuted.
    judged = found.judged
    at = judged.points[change.index]
    undone = change.verdict == "worse" and change.undone_at is not None
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


def match(known: Sequence[Finding], judged: Judged, changes: Sequence[Change]) -> dict[int, Finding]:
    """The known finding that each change is, by the change's index; the nearest ones find each other first.

    A change may have moved a little; one that runs have confirmed may lie anywhere in the bracket they were made for.
    """
    if not known or not changes:
        return {}
    times = judged.points.times
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
            and (position := _position(finding, judged)) is not None
            for change in changes
            if change.verdict == finding.verdict
            and not (finding.stage == "not_reproduced" and _is_other(finding, judged, change))
            and (
                abs(change.index - position) <= FARTHEST
                or (
                    finding.stage in _FOLLOWED
                    and finding.last_good.time < times[change.index] <= finding.first_bad.time
                )
            )
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


def _is_other(refuted: Finding, judged: Judged, change: Change) -> bool:
    """Whether a change is not what runs have refuted: it is much larger, or lies elsewhere."""
    times, known = judged.points.times, abs(refuted.effect or 0.0)
    is_apart = (
        times[change.first_bad] <= refuted.last_good.time or times[change.last_good] >= refuted.first_bad.time
    )
    return is_apart or abs(change.effect) > 2 * known


def _position(finding: Finding, judged: Judged) -> int | None:
    """Where the finding lies among the points now; by its time if its record is gone."""
    position = judged.points.position(finding.at_record)
    if position is not None:
        return position
    times = judged.points.times
    is_ordered = all(a <= b for a, b in itertools.pairwise(times))
    if not is_ordered or not times or finding.at_time < times[0]:
        return None
    return bisect.bisect_left(times, finding.at_time)
