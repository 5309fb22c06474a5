"""Which changes need somebody first, and how many there are: one answer for every list, tile, badge and feed.

An incident weighs more the larger its worst change is beyond the margin, the surer that is, the more series it is
seen in and the more recent it is. Incidents that need somebody come before all others.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from paceline.finding import Finding, SeriesKey
from paceline.history import Store

MARGIN = 0.03
"""A change of this size counts half: less is seldom worth a person's time."""
RECENT_DAYS = 30
_FADING_DAYS = 30
"""A change that is so old weighs half of one of today."""
_PAST = 0.1
"""What the first search of a past found weighs so much of what was found since: it is no news."""
_LARGEST = math.log(20)
"""A change beyond this size is not more urgent: nothing is twice as broken as broken."""
_SURE = {"bisected": 2.0, "confirmed": 1.5, "not_reproduced": 0.1}

CLASSES = ("worse", "question", "stopped", "better", "acknowledged", "ended", "closed")
"""What an incident is, the most urgent first: its most urgent finding tells. Those that ended are of series that get no
results any more: nobody could see them fixed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Findings of one cause; those that need somebody most come first."""

    id: str
    kind: str
    """One of `CLASSES`."""
    findings: tuple[Finding, ...]
    weight: float
    age_days: float
    """From the change to the newest result of the history; of the most recent finding."""

    @property
    def lead(self) -> Finding:
        """The finding that speaks for all."""
        return self.findings[0]

    @property
    def series(self) -> int:
        """In how many series it is seen."""
        return len({one.series for one in self.findings})

    @property
    def culprit(self) -> Mapping[str, Any] | None:
        """What a bisection found to be the cause, if one did."""
        return next((one.culprit for one in self.findings if one.culprit), None)

    @property
    def suspects(self) -> tuple[Mapping[str, Any], ...]:
        """What may be the cause of all: the suspects that its findings share, else those of the lead."""
        if self.culprit:
            return (self.culprit,)
        held = [one.suspects for one in self.findings if one.suspects and one.stage != "not_reproduced"]
        shared = [one for one in held[0] if all(one in others for others in held)] if held else []
        return tuple(shared) if shared else self.lead.suspects

    @property
    def is_recent(self) -> bool:
        return self.age_days <= RECENT_DAYS

    @property
    def is_past(self) -> bool:
        """Whether it was found by the first search of a past: nobody was there to see it."""
        return not any(one.found_in for one in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How many incidents there are of each kind; `open` are the regressions that nobody has answered."""

    open: int = 0
    open_findings: int = 0
    """Findings of those incidents that are worse and new."""
    recent: int = 0
    """Of the open ones, those of the last 30 days."""
    past: int = 0
    """Of the open ones, those that the first search of a past found."""
    question: int = 0
    stopped: int = 0
    better: int = 0
    acknowledged: int = 0
    ended: int = 0
    closed: int = 0

    @property
    def incidents(self) -> int:
        others: int = sum(getattr(self, kind) for kind in CLASSES[1:])
        return self.open + others

    def as_json(self) -> dict[str, int]:
        return {**asdict(self), "incidents": self.incidents}


def rank(findings: Iterable[Finding], newest: str) -> list[Incident]:
    """The incidents of these findings, the most urgent first; `newest` is the date of the history's last result."""
    members: defaultdict[str, list[Finding]] = defaultdict(list)
    for one in findings:
        members[one.incident or one.id].append(one)
    incidents = [_incident(ident, several, newest) for ident, several in members.items()]
    return sorted(
        incidents,
        key=lambda one: (CLASSES.index(one.kind), one.lead.verdict != "worse", -one.weight, one.id),
    )


def count(incidents: Sequence[Incident]) -> Totals:
    """How many there are; lists may be cut, this never is."""
    opened = [one for one in incidents if one.kind == "worse"]
    others = {kind: sum(1 for one in incidents if one.kind == kind) for kind in CLASSES[1:]}
    return Totals(
        open=len(opened),
        open_findings=sum(1 for incident in opened for one in incident.findings if one.fails),
        recent=sum(1 for one in opened if one.is_recent),
        past=sum(1 for one in opened if one.is_past),
        **others,
    )


def kind_of(one: Finding) -> str:
    """To which of the classes a finding belongs."""
    if one.fails and not one.ended:
        return "worse"
    if one.state == "acknowledged":
        return "acknowledged"
    if not one.is_open:
        return "closed"
    if one.ended:
        return "ended"
    return "question" if one.question else "stopped" if one.kind == "stopped" else "better"


def size_of(one: Finding) -> float:
    """How large a change is beyond the margin, as a logarithm: by the end of its interval that is nearer to none."""
    ends = [end for end in (one.low, one.high) if end is not None] or [(one.effect or 0.0) / 2]
    logs = [math.log(max(1 + end, 1e-9)) for end in ends]
    if min(logs) < 0 < max(logs):
        return 0.0
    near = min(_LARGEST, *map(abs, logs))
    return near * near / (near + MARGIN)


def _incident(ident: str, findings: Sequence[Finding], newest: str) -> Incident:
    kinds = {one.id: CLASSES.index(kind_of(one)) for one in findings}
    ordered = sorted(findings, key=lambda one: (kinds[one.id], one.verdict != "worse", -_weight(one), one.id))
    urgent = [one for one in ordered if kinds[one.id] == kinds[ordered[0].id]]
    age_days = min(days_between(one.first_bad.when, newest) for one in urgent)
    seen: set[SeriesKey] = {one.series for one in urgent}
    fading = 1 / (1 + age_days / _FADING_DAYS) * (1.0 if any(one.found_in for one in findings) else _PAST)
    return Incident(
        id=ident,
        kind=CLASSES[kinds[ordered[0].id]],
        findings=tuple(ordered),
        weight=_weight(ordered[0]) * (1 + math.log(len(seen))) * fading,
        age_days=age_days,
    )


def _weight(one: Finding) -> float:
    """The size of a change and how sure it is."""
    return size_of(one) * _SURE.get(one.stage, 1.0) * (1 - (one.p_value or 0.0))


def days_between(earlier: str, later: str) -> float:
    """Days from one time to a later one; 0 if they are not in this order, or no times."""
    moments = [_moment(text) for text in (earlier, later)]
    if moments[0] is None or moments[1] is None:
        return 0.0
    return max(0.0, (moments[1] - moments[0]).total_seconds() / 86400)


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_NEWEST = "SELECT max(CASE WHEN commit_time <> '' THEN commit_time ELSE started_at END) FROM session"


def newest_time(store: Store) -> str:
    """The date of the newest result: ages are counted from there, since a past may be imported years later."""
    with store.database.reading():
        ((newest,),) = store.database.rows(_NEWEST)
    return newest or ""
