"""What one sink has got: a line for each call that was delivered, and for each that failed."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.record.atomic import write_all
from paceline.record.codec import dump
from paceline.record.events import end_torn_line, read_events, utc_now
from paceline.sinks.choice import Choice
from paceline.sinks.outbox import JOURNAL, LEDGER, Call, StoredPlan, read_calls


@dataclass(slots=True)
class Ledger:
    """The ledger of a sink in one session; one process at a time writes it."""

    directory: Path
    delivered: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    is_stuck: bool = False
    """Whether its last process hung or crashed: another one most likely will, too."""
    faults: dict[str, str] = field(default_factory=dict)
    """Why calls that are not delivered were not, the latest last; under an empty key what befell the process."""

    @property
    def fault(self) -> str:
        return next(reversed(self.faults.values()), "")

    def read(self) -> "Ledger":
        for line in read_events(self.directory / LEDGER):
            self._take(line)
        return self

    def _take(self, line: dict[str, Any]) -> None:
        key = str(line.get("key"))
        if line.get("delivered"):
            self.delivered.add(key)
        if line.get("delivered") or "fault" in line:
            self.is_stuck = bool(line.get("stuck"))
            self.faults.pop(key, None)
            self.faults.pop("", None)
        if "fault" in line:
            self.faults[key] = str(line["fault"])
        if line.get("refused"):
            self.refused.add(key)

    def note_delivered(self, key: str) -> None:
        self._write(key=key, delivered=True)

    def note_fault(self, key: str, fault: str, *, refused: bool = False, stuck: bool = False) -> None:
        self._write(key=key, fault=fault, refused=refused, stuck=stuck)

    def note_saying(self, text: str) -> None:
        self._write(say=text)

    def _write(self, **fields: Any) -> None:
        line = {"time": utc_now(), **fields}
        fd = os.open(self.directory / LEDGER, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            end_torn_line(fd)
            write_all(fd, dump(line) + b"\n")
        finally:
            os.close(fd)
        self._take(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a sink has come with a session."""

    delivered: int
    waiting: int
    fault: str = ""


def standing(directory: Path, only: tuple[str, ...], stored: StoredPlan) -> Standing:
    """Counts the calls of a session's journal that a sink is to get, and has got."""
    ledger = Ledger(directory).read()
    wanted = list(wanted_calls(read_calls(directory.parent / JOURNAL), only, stored))
    waiting = [call for call in wanted if call.key not in ledger.delivered]
    return Standing(
        delivered=len(wanted) - len(waiting), waiting=len(waiting), fault=ledger.fault if waiting else ""
    )


def wanted_calls(calls: Iterable[Call], only: tuple[str, ...], stored: StoredPlan) -> Iterator[Call]:
    """The calls that a sink is to get; those of a session that is not over are wanted as far as is known."""
    choice = Choice(only, stored.cases.get)
    for call in calls:
        yield from choice.feed(call)
