"""Looks for changes in the series that have new points, and keeps what it finds in the history."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from paceline.findings.commits import Repository
from paceline.findings.incidents import group
from paceline.findings.matching import match
from paceline.findings.segments import Change, Judge, Judged, column_key, describe, place_of_point
from paceline.findings.suspects import Suspect, commit_suspects, environment_suspects
from paceline.history import Store
from paceline.history.findings import (
    SeriesKey,
    StoredFinding,
    finding_id,
    read_findings,
    read_marks,
    write_findings,
    write_marks,
)
from paceline.history.marks import case_marks
from paceline.judge import select_discoveries

FALSE_DISCOVERIES = 0.05
"""Of all changes that are reported, the share that may be chance."""

_DETECTOR = "1"
"""Changes when the detector does: then every series is looked at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """What a search did."""

    cases: int
    series: int
    findings: int


Cause = tuple[SeriesKey, int]
"""Which change of which series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The changes of a series that are worth a word; whether each is believed if it was not known before."""

    judged: Judged
    changes: tuple[Change, ...]
    believed: tuple[bool, ...]


def detect(store: Store, repository: Repository | None = None) -> Detected:
    """Search what is new in the history; series without new points are not read."""
    places = known_places(store, repository)
    marks = _new_marks(store, places)
    if not marks:
        return Detected(cases=0, series=0, findings=0)
    with store.database.reading():
        stored = _by_series(read_findings(store.database, cases=tuple(marks), withdrawn=True))
    judge = Judge(places)
    columns = store.iter_columns(cases=tuple(marks))
    judged = [judge.judge(column, keep_points=column_key(column) in stored) for column in columns]
    found = _believed(judged)
    # Looking for causes asks git and the history, so it is done before the lock is taken.
    causes = _find_causes(store, repository, found, stored)
    with store.database.writing():
        stored = _by_series(read_findings(store.database, cases=tuple(marks), withdrawn=True))
        updated = list(_updated(found, stored, causes))
        standing = [one for one in updated if one.stands]
        others = (one for one in read_findings(store.database) if one.series.case not in marks and one.stands)
        grouped = {one.id: one for one in group([*others, *standing], places)}
        write_findings(store.database, [grouped.get(one.id, one) for one in updated])
        write_marks(store.database, marks)
    return Detected(cases=len(marks), series=len(judged), findings=len(standing))


def known_places(store: Store, repository: Repository | None) -> dict[str, int]:
    """The order of the history's revisions, as far as a repository knows them."""
    if repository is None:
        return {}
    select = "SELECT DISTINCT revision FROM session UNION SELECT DISTINCT revision FROM record WHERE revision <> ''"
    with store.database.reading():
        revisions = [revision for (revision,) in store.database.rows(select) if revision]
    return repository.order(revisions)


def _new_marks(store: Store, places: dict[str, int]) -> dict[str, str]:
    """The cases whose series look different from how they looked at the last search."""
    order = "commits" if places else "time"
    with store.database.reading():
        now = {case: f"{_DETECTOR}:{order}:{mark}" for case, mark in case_marks(store.database).items()}
        known = read_marks(store.database)
    changed = {case: mark for case, mark in now.items() if known.get(case) != mark}
    if places:
        return changed
    # Searched before with a repository at hand, and nothing new since: its order was the better one.
    return {
        case: mark for case, mark in changed.items() if known.get(case) != mark.replace(":time:", ":commits:")
    }


def _believed(judged: Sequence[Judged]) -> list[_Found]:
    """The changes that a search of so many series may be believed."""
    changes = [describe(one) for one in judged]
    tests = [change.p_value for several in changes for change in several if change]
    silent = sum(1 for several in changes if not any(several))
    chosen = iter(select_discoveries([*tests, *[1.0] * silent], FALSE_DISCOVERIES))
    found = []
    for one, several in zip(judged, changes, strict=True):
        worth = tuple(change for change in several if change)
        believed = tuple(next(chosen) for _ in worth)
        found.append(_Found(judged=one, changes=worth, believed=believed))
    return found


def _by_series(findings: Iterable[StoredFinding]) -> dict[SeriesKey, list[StoredFinding]]:
    grouped: defaultdict[SeriesKey, list[StoredFinding]] = defaultdict(list)
    for finding in findings:
        grouped[finding.series].append(finding)
    return grouped


def _find_causes(
    store: Store,
    repository: Repository | None,
    found: Sequence[_Found],
    stored: Mapping[SeriesKey, Sequence[StoredFinding]],
) -> dict[Cause, tuple[Suspect, ...]]:
    """What may have caused each change that will be told of."""
    suspects = _Suspects(store, repository)
    causes: dict[Cause, tuple[Suspect, ...]] = {}
    for one in found:
        matched = match(stored.get(one.judged.key, ()), one.judged, one.changes)
        for change, believed in zip(one.changes, one.believed, strict=True):
            before = matched.get(change.index)
            if before or believed:
                causes[one.judged.key, change.index] = suspects.of(one.judged, change, before)
    return causes


def _updated(
    found: Sequence[_Found],
    stored: dict[SeriesKey, list[StoredFinding]],
    causes: Mapping[Cause, tuple[Suspect, ...]],
) -> Iterator[StoredFinding]:
    """All findings of the series as they are now: new ones, known ones placed anew, and those that stand no more."""
    for one in found:
        known = stored.pop(one.judged.key, [])
        matched = match(known, one.judged, one.changes)
        for change, believed in zip(one.changes, one.believed, strict=True):
            before = matched.get(change.index)
            if before or believed:
                yield _finding(one.judged, change, before, causes.get((one.judged.key, change.index), ()))
        kept = {finding.id for finding in matched.values()}
        for finding in known:
            if finding.id not in kept:
                yield replace(finding, stands=_outlives(finding, one.judged))
    for rest in stored.values():
        yield from (replace(finding, stands=False) for finding in rest)


def _outlives(finding: StoredFinding, judged: Judged) -> bool:
    """Whether the points that the finding rests on were pruned, so that nothing speaks against it."""
    is_gone = bool(judged.points) and finding.at_time < min(point.time for point in judged.points)
    return finding.stands and finding.epoch == judged.epoch and is_gone


def _finding(
    judged: Judged, change: Change, before: StoredFinding | None, suspects: tuple[Suspect, ...]
) -> StoredFinding:
    at, newest = judged.points[change.index], max(judged.points, key=lambda point: point.time)
    undone = change.verdict == "worse" and change.undone_at is not None
    return StoredFinding(
        id=before.id if before else finding_id(judged.key, change.verdict, at.record_id),
        incident=before.incident if before else "",
        series=judged.key,
        epoch=judged.epoch,
        verdict=change.verdict,
        effect=change.effect,
        low=change.low,
        high=change.high,
        p_value=change.p_value,
        last_good=place_of_point(judged.points[change.last_good]),
        first_bad=place_of_point(judged.points[change.first_bad]),
        at_record=at.record_id,
        at_time=at.time,
        found_at=before.found_at if before else newest.time,
        found_in=before.found_in if before else newest.session_id,
        suspects=suspects,
        own_state="fixed" if undone else "new",
        fixed_at=judged.points[change.undone_at].time if undone and change.undone_at is not None else "",
        found_after=before.found_after if before else len(judged.points) - change.index,
        said=before.said if before else None,
    )


class _Suspects:
    """Looks for the causes of changes; environments are read once."""

    def __init__(self, store: Store, repository: Repository | None) -> None:
        self._repository = repository
        self._environment = lru_cache(maxsize=256)(store.environment)

    def of(self, judged: Judged, change: Change, before: StoredFinding | None) -> tuple[Suspect, ...]:
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
