"""What a year's reports said, held against what was true."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from year_parts.world import Event, Track, World

NEAR = 5
"""Nights by which a report may be off the place of a change and still be about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A finding when it first reached a person; it lies after the night `after` and not after `until`."""

    id: str
    night: int
    track: Track
    after: int
    until: int
    kind: str = "step"
    why: str = ""
    is_from_branch: bool = False
    event: Event | None = None


@dataclass(slots=True, kw_only=True)
class Inquiry:
    """What following up a suspicion cost and said; `truth` are the names of the culprit, none if nothing changed."""

    track: Track
    night: int
    truth: frozenset[str]
    changed: bool
    runs: int = 0
    confirmed: bool = False
    culprit: str = ""

    @property
    def is_right(self) -> bool:
        return self.culprit in self.truth


@dataclass(slots=True, kw_only=True)
class Book:
    """The alarms of a year, when each change was first reported in each series, and what was inquired."""

    world: World
    alarms: list[Alarm] = field(default_factory=list)
    repeats: int = 0
    reported: dict[tuple[int, int], int] = field(default_factory=dict)
    inquiries: dict[str, Inquiry] = field(default_factory=dict)
    red_nights: int = 0
    sessions: int = 0
    trials: int = 0
    branch_reports: int = 0
    together: int = 0
    causes: int = 0
    incident_count: int = 0
    of_one_cause: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _known: set[str] = field(default_factory=set)

    def event_at(self, track: Track, after: int, until: int, *, worse: bool = True) -> Event | None:
        """The true change that a report about this stretch of nights is about."""
        near = [
            one
            for one in self.world.events_of[track.number]
            if one.is_worse == worse and after + 1 - NEAR <= one.night <= until + NEAR
        ]
        return min(near, key=lambda one: abs(2 * one.night - after - 1 - until), default=None)

    def alarm(self, alarm: Alarm, also: Iterable[Track] = ()) -> Alarm | None:
        """Write down a `worse` of a report; the alarm if it is the first time."""
        event = self.event_at(alarm.track, alarm.after, alarm.until)
        for track in (alarm.track, *also):
            found = event if track is alarm.track else self.event_at(track, alarm.after, alarm.until)
            if found is not None:
                self.reported.setdefault((found.number, track.number), alarm.night)
        if alarm.id in self._known:
            return None
        self._known.add(alarm.id)
        known = [one for one in self.alarms if one.track is alarm.track and event and one.event is event]
        self.repeats += bool(known)
        fields = {name: getattr(alarm, name) for name in alarm.__slots__}
        new = Alarm(**{**fields, "event": event})
        self.alarms.append(new)
        return new

    def inquiry(self, ident: str, asked: Inquiry) -> None:
        """Write down what came of a suspicion; one that is followed up for several nights is one."""
        known = self.inquiries.get(ident)
        if known is not None:
            asked.runs += known.runs
            asked.confirmed |= known.confirmed
            asked.culprit = known.culprit or asked.culprit
            if known.culprit:
                asked.truth, asked.changed, asked.runs = known.truth, known.changed, known.runs
        self.inquiries[ident] = asked

    def incidents(self, findings: Iterable[tuple[Track, int, int, str]]) -> None:
        """Which changes of several series are one incident: series, bracket and incident of every finding."""
        several: defaultdict[int, dict[int, set[str]]] = defaultdict(dict)
        events: defaultdict[str, set[int]] = defaultdict(set)
        for track, after, until, incident in findings:
            event = self.event_at(track, after, until)
            if event is not None:
                several[event.number].setdefault(track.number, set()).add(incident)
                events[incident].add(event.number)
        self.incident_count = len(events)
        self.of_one_cause = sum(len(found) == 1 for found in events.values())
        shared = [list(found.values()) for found in several.values() if len(found) > 1]
        self.causes = len(shared)
        self.together = sum(bool(set.intersection(*found)) for found in shared)


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    hits: int = 0
    count: int = 0

    @property
    def value(self) -> float | None:
        return self.hits / self.count if self.count else None

    def __add__(self, other: "Share") -> "Share":
        return Share(self.hits + other.hits, self.count + other.count)

    def __str__(self) -> str:
        return (
            f"{self.hits / self.count:.1%} ({self.hits} of {self.count})" if self.count else "none to be seen"
        )


def reported_within(book: Book, smallest: float, nights: int, families: Iterable[str]) -> Share:
    """Of the steps of this size in own metrics of these families, the share reported in time.

    Steps that were taken back before, or that the year is too short for, are not counted.
    """
    world, wanted = book.world, set(families)
    hits = count = 0
    for event in world.events:
        if event.effect < smallest:
            continue
        for number in event.tracks:
            track = world.tracks[number]
            first = first_measured(world, track, event.night)
            is_cut = event.undone is not None and event.undone < first + nights
            if track.is_automatic or track.family not in wanted or is_cut or first + nights > world.nights:
                continue
            count += 1
            at = book.reported.get((event.number, number))
            hits += at is not None and at < first + nights
    return Share(hits, count)


def first_measured(world: World, track: Track, night: int) -> int:
    """The first night from this one on that the series has a value of."""
    while night < world.nights and (
        (track.machine, night) in world.missing or track.factors[night] != track.factors[night]
    ):
        night += 1
    return night


def false_alarms(book: Book) -> list[Alarm]:
    """What reached a person and is not true; of series that drift, nothing is."""
    return [one for one in book.alarms if one.event is None and one.track.family != "drift"]


def kind_of(track: Track) -> str:
    return "automatic metrics" if track.is_automatic else track.family


def per_month(book: Book, alarms: int, series: int) -> float:
    """Alarms a month for 1,000 series."""
    return 1000 * alarms / max(series, 1) / (book.world.nights / 30.4)


def culprits(book: Book) -> Mapping[str, Any]:
    """How often the culprit was right, at what cost, and what was named where nothing changed."""
    asked = [one for one in book.inquiries.values() if one.track.family != "drift"]
    named = [one for one in asked if one.culprit]
    nothing = [one for one in asked if not one.changed]
    runs = sorted(one.runs for one in named)
    return {
        "right": Share(sum(one.is_right for one in named), len(named)),
        "runs_median": runs[len(runs) // 2] if runs else 0,
        "runs_most": runs[-1] if runs else 0,
        "not_named": Share(sum(not one.culprit for one in nothing), len(nothing)),
        "not_confirmed": Share(sum(not one.confirmed for one in nothing), len(nothing)),
    }
