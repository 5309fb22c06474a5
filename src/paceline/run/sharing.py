"""Cases that share a process, as tests of one entry may: the first that runs brings the others' results, too.

Each run of a case has a label, such as `repeat-2`. The process that runs for a label runs all cases that wait for one
of that label, and leaves what each wrote in a directory of its own, where the case finds it when its turn comes. What a
process did not come to, because it died, runs in the next one.
"""

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from paceline.model import Case
from paceline.record.layout import SHARED, safe_name
from paceline.run.conditions import Conditions
from paceline.run.local.process import Exit


class Ran(NamedTuple):
    """A process that has ended, and what was seen around it."""

    exit: Exit
    collected: Mapping[str, float]
    warnings: tuple[str, ...]
    conditions: Conditions
    tail: tuple[str, ...]


class SharedProcess:
    """The cases of one process, and the runs of it that some of them have still to take."""

    def __init__(self, cases: Iterable[Case] = (), directory: Path = Path()) -> None:
        self._cases = {case.name: case for case in cases}
        self._directory = directory
        self._left: dict[tuple[str, str], Ran] = {}
        self._began: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator["SharedProcess"]:
        """One at a time: who comes later finds its results made."""
        with self._lock:
            yield self

    def words(self, case: Case, label: str | None) -> tuple[str, ...]:
        """What adds the others that have not run for this label to a case's command."""
        own = str(label)
        self._began.add((own, case.name))
        words: list[str] = []
        for other in self._waiting(own):
            self._place(own, other).mkdir(parents=True, exist_ok=True)
            words += [other.at(word, self._place(own, other)) for word in other.joins]
        return tuple(words)

    def timeout_s(self, case: Case, label: str | None) -> float:
        """How long the process may take: what all of its cases may."""
        return case.timeout_s + sum(other.timeout_s for other in self._waiting(str(label)))

    def keep(self, label: str | None, ran: Ran) -> Ran:
        """Note that a process has run for all who waited; what it took as a whole says nothing of one of them."""
        ran = ran._replace(collected={}) if self._cases else ran
        for other in self._waiting(str(label)):
            self._began.add((str(label), other.name))
            self._left[str(label), other.name] = ran
        return ran

    def take(self, case: Case, label: str | None, results_path: Path) -> Ran | None:
        """What a process has left for a case; None if none has run for it, or it died before."""
        ran = self._left.pop((str(label), case.name), None)
        files = [*self._place(str(label), case).glob("*.json")] if ran is not None else []
        for file in files:
            file.replace(results_path / file.name)
        return ran if files else None

    def _waiting(self, label: str) -> list[Case]:
        return [case for name, case in self._cases.items() if (label, name) not in self._began]

    def _place(self, label: str, case: Case) -> Path:
        return self._directory / label / safe_name(case.name)


def blamed(ran: Ran, *, has_told: bool) -> Exit:
    """How a case of a shared process ended: one that has told what came of it is not to blame for the rest."""
    return replace(ran.exit, returncode=0, reason="exited") if has_told else ran.exit


def shared_processes(cases: Iterable[Case], session_dir: Path) -> dict[str, SharedProcess]:
    """The processes that cases share, by the name that they have in common."""
    groups: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.process:
            groups[case.process].append(case)
    return {
        name: SharedProcess(group, session_dir / SHARED / hashlib.sha256(name.encode()).hexdigest()[:16])
        for name, group in groups.items()
    }
