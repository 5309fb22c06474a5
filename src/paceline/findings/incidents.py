"""Findings of one cause: those whose brackets all share a stretch of history."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from paceline.history.findings import Place, StoredFinding

Moment = tuple[int, int | str]
"""A place in the order of commits, or in time; the two are not comparable."""
Bracket = tuple[Moment, Moment]


def group(findings: Iterable[StoredFinding], places: dict[str, int]) -> Iterator[StoredFinding]:
    """The findings with their incidents; one that has an incident keeps it, the others join or begin one."""
    shared: dict[str, Bracket] = {}
    waiting: list[tuple[Bracket, StoredFinding]] = []
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


def _bracket(finding: StoredFinding, places: dict[str, int]) -> Bracket:
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


def _new_incident(finding: StoredFinding) -> str:
    return f"i{hashlib.sha256(finding.id.encode()).hexdigest()[:8]}"
