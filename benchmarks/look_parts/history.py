"""A history of the shape of a real one: years of commits, machines that came and went, cases with parameters."""

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from paceline.findings.detection import detect
from paceline.history import SessionInfo, Store, open_store
from paceline.history.places import CommitPlace, Tag, write_places
from paceline.model import Case, Measurement, Record, Status

NAMESPACE = UUID(int=19)
FIRST = datetime(2019, 3, 4, 2, tzinfo=UTC)
PYTHONS = ("3.8", "3.9", "3.11", "3.12")
"""One after the other, each for a part of the commits; two overlap at each change."""
SUITES = ("analysis", "reading", "writing", "selections", "topology")
WORDS = ("distances", "contacts", "matrix", "frames", "unique", "segments", "bonds", "strides", "traverse")
REASON = "asv has no result: the benchmark failed or took too long"


def make_history(path: Path, cases: int, commits: int, seed: int = 19) -> None:
    """Write it, and search it for changes."""
    world = World(cases, commits, seed)
    with open_store(path) as store:
        for place in range(commits):
            for python in world.pythons_at(place):
                world.add(store, place, python)
        with store.database.writing():
            write_places(store.database, dict(world.places()))
        detect(store)


class World:
    """What is true of each case at each commit."""

    def __init__(self, cases: int, commits: int, seed: int) -> None:
        chance = random.Random(seed)
        self._chance = chance
        self._commits = commits
        self.names = [self._name(number) for number in range(cases)]
        self._level_s = [10 ** chance.uniform(-6.5, -0.5) for _ in range(cases)]
        self._noise = [chance.choice([0.004, 0.008, 0.015, 0.03, 0.08]) for _ in range(cases)]
        # Some commits change many cases at once, for the worse more often.
        self._steps = [
            (
                int(commits * chance.uniform(0.05, 0.97)),
                chance.choice([1.06, 1.1, 1.25, 1.6, 0.85, 0.7]),
                set(chance.sample(range(cases), max(1, cases // chance.choice([6, 12, 24])))),
            )
            for _ in range(max(6, commits // 40))
        ]
        self._steps.append((commits - 12, 1.4, set(range(0, cases, 7))))

    @staticmethod
    def _name(number: int) -> str:
        word = WORDS[number // 4 % len(WORDS)]
        stem = f"{SUITES[number // 36 % len(SUITES)]}.{word.title()}{number // 36}Bench.time_{word}"
        return f"{stem}[num_atoms={10 ** (1 + number % 4)}]"

    def pythons_at(self, place: int) -> list[str]:
        at = place / self._commits * len(PYTHONS)
        now = [int(at)]
        if at % 1 > 0.85 and now[0] + 1 < len(PYTHONS):
            now.append(now[0] + 1)
        return [PYTHONS[one] for one in now]

    def _value_s(self, case: int, place: int, python: str) -> float:
        steps = (size for at, size, of in self._steps if place >= at and case in of)
        level_s = self._level_s[case] * (1 - 0.04 * PYTHONS.index(python)) * math.prod(steps)
        return level_s * math.exp(self._chance.gauss(0, self._noise[case]))

    def _time(self, place: int) -> datetime:
        return FIRST + timedelta(days=place * 2500 / self._commits)

    def add(self, store: Store, place: int, python: str) -> None:
        """The session of a commit on a machine."""
        committed = self._time(place)
        started = _text(committed + timedelta(hours=9))
        name = f"nightly-{committed:%Y%m%d}-py{python}"
        info = SessionInfo(
            id=uuid5(NAMESPACE, f"{place} {python}").hex,
            **{"name": name, "started_at": started, "revision": revision(place), "branch": "main"},
            **{"commit_time": _text(committed), "tool": "look"},
        )
        environment = {
            **{"id": f"env-{python}", "class_id": f"class-{python}", "hostname": "bench-1"},
            **{"platform": "Linux-6.1-x86_64", "python": {"version": python}},
            "packages": [f"numpy=={PYTHONS.index(python) + 1}.26"],
        }
        store.add(info, environment, list(self._records(name, started, place, python)))

    def _records(self, session: str, started: str, place: int, python: str) -> Iterator[Record]:
        for number, key in enumerate(self.names):
            fails = number % 11 == 3 and place > self._commits - 20
            value_s = self._value_s(number, place, python)
            told: dict[str, Any] = {"status": Status.PASSED, "metrics": {"duration": _measured(value_s)}}
            if fails:
                told = {"status": Status.FAILED, "reason": REASON, "metrics": {}}
            case = Case(name=key, entry=key.partition("[")[0], key=key, version="1")
            yield Record(
                **{"session": session, "case": case, "attempt": 1, "started_at": started},
                **{"exec_time_s": value_s, "environment": f"env-{python}", "revision": revision(place)},
                **told,
            )

    def places(self) -> Iterator[tuple[str, CommitPlace]]:
        """Where the commits lie, and a release every now and then."""
        every = max(1, self._commits // 9)
        for place in range(self._commits):
            time = _text(self._time(place))
            number = place // every
            tags = (Tag(f"v{1 + number // 4}.{number % 4}", time),) if place % every == every - 1 else ()
            yield (
                revision(place),
                CommitPlace(repository="look", place=place, is_main=True, commit_time=time, tags=tags),
            )


def revision(place: int) -> str:
    return uuid5(NAMESPACE, f"commit {place}").hex + "0" * 8


def _measured(value_s: float) -> Measurement:
    return Measurement(value=value_s, unit="s", direction="lower", samples=(value_s,))


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S}.000Z"
