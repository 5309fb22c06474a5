"""Which findings have one cause: those are an incident.

Where bisections found causes, these say so: findings of one culprit belong together, those of two never do. Else steps
whose brackets share a stretch of history are one incident.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from paceline.finding import Finding, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """A part of the history: after `begin`, up to `end`, among commits or in time, which cannot be compared."""

    is_time: bool
    begin: float
    end: float

    def shared(self, other: "_Stretch") -> "_Stretch | None":
        begin, end = max(self.begin, other.begin), min(self.end, other.end)
        is_shared = self.is_time == other.is_time and begin < end
        return replace(self, begin=begin, end=end) if is_shared else None

    def distance(self, other: "_Stretch") -> float:
        return abs(self.begin + self.end - other.begin - other.end)


@dataclass(slots=True, kw_only=True)
class _Incident:
    """What is known of an incident from the findings that it has so far; all their brackets share the stretch."""

    name: str
    kind: str
    culprit: str
    stretch: _Stretch
    cases: set[str]


def group(findings: Iterable[Finding], places: Mapping[str, int]) -> Iterator[Finding]:
    """The findings with their incidents; of several that one may belong to, it stays in its own."""
    known: dict[str, _Incident] = {}
    for finding in sorted(findings, key=lambda one: _rank(one, places)):
        incident = _find(known.values(), finding, _stretch(finding, places))
        if incident is None:
            name = finding.incident if finding.incident not in known else ""
            incident = _Incident(
                name=name or f"i{hashlib.sha256(finding.id.encode()).hexdigest()[:8]}",
                kind=finding.kind,
                culprit=_culprit(finding),
                stretch=_stretch(finding, places),
                cases=set(),
            )
            known[incident.name] = incident
        incident.cases.add(finding.case)
        incident.stretch = incident.stretch.shared(_stretch(finding, places)) or incident.stretch
        yield replace(finding, incident=incident.name)


def _find(known: Iterable[_Incident], finding: Finding, stretch: _Stretch) -> _Incident | None:
    """The incident that a finding belongs to: its case has part in it, or many others have."""
    if finding.kind == "drift":  # It has no place that it could share.
        return None
    culprit = _culprit(finding)
    able = [
        one
        for one in known
        if one.kind == finding.kind and not (culprit and one.culprit and culprit != one.culprit)
    ]
    same = [one for one in able if culprit and one.culprit == culprit]
    return max(
        same or [one for one in able if one.stretch.shared(stretch)],
        key=lambda one: (
            finding.case in one.cases,
            len(one.cases),
            one.name == finding.incident,
            -one.stretch.distance(stretch),
        ),
        default=None,
    )


def _rank(finding: Finding, places: Mapping[str, int]) -> tuple[bool, bool, float, str, str]:
    """Those whose cause is known first, then the narrowest: a case that runs once a week must not tie together what
    happened on different days."""
    stretch = _stretch(finding, places)
    return not _culprit(finding), stretch.is_time, stretch.end - stretch.begin, finding.at_time, finding.id


def _culprit(finding: Finding) -> str:
    culprit = finding.culprit or {}
    return str(culprit.get("revision") or culprit.get("name") or "") if finding.stage == "bisected" else ""


def _stretch(finding: Finding, places: Mapping[str, int]) -> _Stretch:
    """Where the change of a finding lies: where its culprit does, else within its bracket."""
    good, bad = finding.last_good, finding.first_bad
    culprit = places.get(_culprit(finding))
    if culprit is not None:
        return _Stretch(is_time=False, begin=culprit - 1, end=culprit)
    if good.revision in places and bad.revision in places and good.revision != bad.revision:
        return _Stretch(is_time=False, begin=places[good.revision], end=places[bad.revision])
    return _Stretch(is_time=True, begin=_seconds(good), end=_seconds(bad))


def _seconds(place: Place) -> float:
    try:
        return datetime.fromisoformat(place.time).timestamp()
    except ValueError:
        return 0.0
