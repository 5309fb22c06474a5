"""What is true in a simulated year: the level of every series at every commit, and what else the machines do.

The value of a case at a commit on a night is its level at that commit and with those packages × what its machine does
for some days × the noise of its family. Other runs of the same night share a part of that noise with the night's own
value, its mood, and draw the rest anew: all of it where the noise is of the night, a quarter of its variance otherwise.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from year_parts.holdout import HOLD_OUT
from year_parts.line import Line, make_line
from year_parts.noise import FAMILIES, SPREAD, WANDERING, Family, Floats
from year_parts.tuning import OF_THE_NIGHT, TUNING

MACHINES = ("alpha", "beta")
SECOND_MACHINE = 0.2
"""The share of the series that are a case of the first machine, measured on the second."""
LEARNING = 30
"""Nights before anything happens."""
BRANCH_EFFECT = 0.10
BRANCH_NIGHTS = 4
DRIFT, DRIFT_NIGHTS = 0.10, 200
MOODY = frozenset({"moods", "weekdays", *HOLD_OUT, *OF_THE_NIGHT})
"""Families whose noise is of the night: two runs of one night have it in common."""
_OWN_NOISE = SPREAD / 2
_SHARED = 0.5
_APART = 25
"""Nights between two changes of one series, at least."""
PACKAGES = ("fastlib", "netlib", "textlib")


def drift(rng: np.random.Generator, nights: int) -> Floats:
    """Slower by a tenth over 200 nights, a little every night."""
    begin = int(rng.integers(LEARNING, LEARNING + 60))
    ramp = np.clip((np.arange(nights) - begin) / DRIFT_NIGHTS, 0, 1)
    return np.asarray((1 + DRIFT * ramp) * FAMILIES["normal"](rng, nights))


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One series; `factors` are what its family's noise does each night."""

    number: int
    case: str
    metric: str
    unit: str
    direction: str
    machine: int
    family: str
    base: float
    factors: Floats
    is_automatic: bool = False

    def __str__(self) -> str:
        return f"{self.metric} of {self.case} on {MACHINES[self.machine]} ({self.family})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A true change of the level of some series: by a commit of the line, or by a version of a package.

    `night` is the first that has it; `undone` is the first night without it again, if there is one.
    """

    number: int
    effect: float
    tracks: frozenset[int]
    night: int
    commit: int = -1
    package: str = ""
    version: int = 0
    undoes: int = -1
    undone: int | None = None

    @property
    def is_worse(self) -> bool:
        return self.effect > 0


@dataclass(frozen=True, kw_only=True)
class World:
    """A year. `moves` is what each machine does to all its series, `versions` those of the packages, by night."""

    nights: int
    line: Line
    tracks: tuple[Track, ...]
    events: tuple[Event, ...]
    moves: Floats
    reboots: tuple[tuple[int, int], ...]
    versions: tuple[Mapping[str, int], ...]
    missing: frozenset[tuple[int, int]]
    seed: int

    @cached_property
    def events_of(self) -> Mapping[int, Sequence[Event]]:
        """The changes of each series, by its number."""
        return {
            track.number: [event for event in self.events if track.number in event.tracks]
            for track in self.tracks
        }

    def level(self, track: Track, commit: int, versions: Mapping[str, int]) -> float:
        """The true level of a series at a commit of the line, with these packages."""
        return track.base * math.prod(
            1 + one.effect
            for one in self.events_of[track.number]
            if (one.commit >= 0 and commit >= one.commit)
            or (one.package and versions[one.package] >= one.version)
        )

    def measured(self, track: Track, night: int, level: float) -> float:
        """What the night measures; NaN if it fails."""
        return _turned(track, level * float(track.factors[night] * self.moves[track.machine, night]))

    def measured_again(self, track: Track, night: int, level: float, rng: np.random.Generator) -> float:
        """What another run of the same night measures."""
        tonight = float(track.factors[night])
        tonight = 1.0 if math.isnan(tonight) else tonight
        if track.family in MOODY:
            factor = tonight * math.exp(_OWN_NOISE * rng.standard_normal())
        else:
            known = track.factors[np.isfinite(track.factors)]
            other, middle = float(rng.choice(known)), float(np.median(known))
            shared = middle * (tonight / middle) ** _SHARED
            factor = shared * (other / middle) ** math.sqrt(1 - _SHARED**2)
        return _turned(track, level * factor * float(self.moves[track.machine, night]))


def _turned(track: Track, cost: float) -> float:
    """The value of a metric: the cost itself, or its inverse where more is better."""
    return 1e3 / cost if track.direction == "higher" else cost


def make_world(
    root: Path,
    *,
    nights: int,
    series: int,
    seed: int,
    more: Mapping[str, Family] | None = None,
    tuning: bool = False,
) -> World:
    """The year of a seed; `more` families are used beside those of `noise` and `holdout` or `tuning`."""
    rng = np.random.default_rng(seed)
    families = {**FAMILIES, **(TUNING if tuning else HOLD_OUT), "drift": drift, **(more or {})}
    branches = _branch_nights(rng, nights)
    line = make_line(root, rng, nights, branches)
    tracks = tuple(_tracks(rng, families, nights, series))
    moves, reboots = _moves(rng, nights)
    events, upgrades = _events(rng, line, tracks, nights)
    return World(
        nights=nights,
        line=line,
        tracks=tracks,
        events=tuple(events),
        moves=moves,
        reboots=tuple(reboots),
        versions=tuple(_versions(upgrades, nights)),
        missing=frozenset(_missing(rng, nights)),
        seed=seed,
    )


def _branch_nights(rng: np.random.Generator, nights: int) -> list[tuple[int, ...]]:
    """A branch every month, measured on some nights in a row."""
    begins = range(LEARNING + 5, nights - BRANCH_NIGHTS, 30)
    return [
        tuple(range(begin + shift, begin + shift + BRANCH_NIGHTS))
        for begin in begins
        if begin + (shift := int(rng.integers(0, 15))) + BRANCH_NIGHTS <= nights
    ]


def _tracks(
    rng: np.random.Generator, families: Mapping[str, Family], nights: int, series: int
) -> Iterable[Track]:
    """The series: each family in turn; every fifth case has metrics that are taken of every run as well."""
    names = list(families)
    on_first = max(1, round(series * (1 - SECOND_MACHINE)))
    own: list[Track] = []
    for number in range(series):
        machine = int(number >= on_first)
        like = own[number - on_first] if machine else None
        higher = like.direction == "higher" if like else number % 4 == 3
        family = like.family if like else names[number % len(names)]
        own.append(
            Track(
                number=number,
                case=like.case if like else f"case_{number:03}",
                metric="rows_per_s" if higher else "sort_s",
                unit="rows/s" if higher else "s",
                direction="higher" if higher else "lower",
                machine=machine,
                family=family,
                base=like.base if like else float(rng.uniform(0.5, 50)),
                factors=families[family](rng, nights),
            )
        )
    yield from own
    number = series
    for one in own[:on_first:5]:
        for metric, unit, family, base in (
            ("exec_time_s", "s", "moods", one.base * 1.3),
            ("cpu_user_s", "s", "states" if "states" in families else "shared_runner", one.base * 1.1),
            ("peak_memory_bytes", "bytes", "quantised", 3e8),
        ):
            yield Track(
                number=number,
                case=one.case,
                metric=metric,
                unit=unit,
                direction="lower",
                machine=one.machine,
                family=family,
                base=base,
                factors=families[family](rng, nights),
                is_automatic=True,
            )
            number += 1


def _moves(rng: np.random.Generator, nights: int) -> tuple[Floats, list[tuple[int, int]]]:
    """After a reboot all series of a machine are a little faster or slower for some days."""
    moves = np.ones((len(MACHINES), nights))
    reboots = []
    for machine in range(len(MACHINES)):
        for night in range(LEARNING, nights):
            if rng.random() < 1 / 60:
                moves[machine, night : night + int(rng.integers(2, 6))] *= 1 + rng.choice([-1, 1]) * 0.015
                reboots.append((machine, night))
    return moves, reboots


def _missing(rng: np.random.Generator, nights: int) -> Iterable[tuple[int, int]]:
    """Nights on which a machine did not run at all: one in thirty, and once several in a row."""
    for machine in range(len(MACHINES)):
        gap = int(rng.integers(LEARNING // 2, max(nights - 10, LEARNING)))
        for night in range(nights):
            if rng.random() < 1 / 30 or gap <= night < gap + 5:
                yield machine, night


def _events(
    rng: np.random.Generator, line: Line, tracks: Sequence[Track], nights: int
) -> tuple[list[Event], list[tuple[int, str, int]]]:
    """Steps at commits and by packages; and all upgrades: the night, the package, its version."""
    plan = _Plan(rng, line, tracks, nights)
    upgrades = []
    versions = dict.fromkeys(PACKAGES, 1)
    for night in range(LEARNING, nights - 10, 24):
        package = str(rng.choice(PACKAGES))
        versions[package] += 1
        at = night + int(rng.integers(0, 12))
        upgrades.append((at, package, versions[package]))
        if rng.random() < 0.4:
            plan.add(at, several=int(rng.integers(2, 6)), package=package, version=versions[package])
    own = [one for one in tracks if not one.is_automatic]
    for _ in range(max(1, len(own) * nights // (365 * 20))):
        plan.add(plan.any_night(), several=int(rng.integers(3, 9)))
    for _ in range(max(1, round(len(own) * nights / (365 * 1.5)))):
        plan.add(plan.any_night(), several=1)
    return plan.events, upgrades


class _Plan:
    """Puts changes where the cases they are about have been quiet for long enough."""

    def __init__(self, rng: np.random.Generator, line: Line, tracks: Sequence[Track], nights: int) -> None:
        self._rng, self._line, self._nights = rng, line, nights
        self._series: dict[str, list[int]] = {}
        for one in tracks:
            # A case that drifts does nothing else, and the memory of a run has nothing to do with its time.
            if one.family != "drift" and one.metric != "peak_memory_bytes":
                self._series.setdefault(one.case, []).append(one.number)
        for case in [one.case for one in tracks if one.family == "drift"]:
            self._series.pop(case, None)
        self._busy: dict[str, list[int]] = {case: [] for case in self._series}
        self.events: list[Event] = []

    def any_night(self) -> int:
        return int(self._rng.integers(LEARNING, max(LEARNING + 1, self._nights - 15)))

    def add(self, night: int, *, several: int, package: str = "", version: int = 0) -> None:
        """A change of the level of some series, most of them for the worse; some are taken back later."""
        rng = self._rng
        undone = night + int(rng.integers(5, 60)) if not package and rng.random() < 0.3 else None
        undone = undone if undone is not None and undone < self._nights - 10 else None
        times = [night, *([undone] if undone else [])]
        free = [
            case
            for case, busy in self._busy.items()
            if all(abs(time - at) > _APART for time in times for at in busy)
        ]
        if len(free) < several:
            return
        chosen = [free[int(i)] for i in rng.choice(len(free), several, replace=False)]
        size = math.exp(rng.uniform(math.log(0.02), math.log(0.30)))
        effect = size if rng.random() < 0.85 else 1 / (1 + size) - 1
        tracks = frozenset(number for case in chosen for number in self._series[case])
        for case in chosen:
            self._busy[case] += times
        event = Event(
            number=len(self.events),
            effect=effect,
            tracks=tracks,
            night=night,
            commit=-1 if package else self._commit(night),
            package=package,
            version=version,
            undone=undone,
        )
        self.events.append(event)
        if undone is not None:
            self.events.append(
                Event(
                    number=len(self.events),
                    effect=1 / (1 + effect) - 1,
                    tracks=tracks,
                    night=undone,
                    commit=self._commit(undone),
                    undoes=event.number,
                )
            )

    def _commit(self, night: int) -> int:
        """One of the commits that this night is the first to have."""
        return int(self._rng.integers(self._line.newest[night - 1] + 1, self._line.newest[night] + 1))


def _versions(upgrades: Iterable[tuple[int, str, int]], nights: int) -> Iterator[Mapping[str, int]]:
    """The versions of each night; both machines are upgraded at the same time."""
    now = dict.fromkeys(PACKAGES, 1)
    for night in range(nights):
        now |= {package: version for at, package, version in upgrades if at == night}
        yield dict(now)


def is_quiet_family(family: str) -> bool:
    """Whether its nightly values spread by 2 % around a level that stays."""
    return family in FAMILIES and family not in WANDERING
