"""What one sink is to get and has got: the records it wants, a line for each call that was made, and its notes.

The files are append-only: a crash can only make them shorter by their last line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from paceline.model import Case, Status
from paceline.record.events import utc_now
from paceline.record.files import JsonLines, append_line, read_lines
from paceline.sinks.outbox import JOURNAL, LEDGER, Call, StoredPlan, read_calls

FAILURES, REGRESSIONS = "failures", "regressions"
_TAG = "tag:"

NOTEBOOK = "notebook.jsonl"


class Choice:
    """Picks from a journal, call by call; where `only` is given and nothing fits it, a sink hears nothing at all."""

    def __init__(self, only: Sequence[str], find_case: Callable[[str], Case | None]) -> None:
        self._only = tuple(only)
        self._find_case = find_case
        self._worse: frozenset[str] = frozenset()
        self._open: list[Call] = []
        self._held: list[Call] = []

    def feed(self, call: Call) -> list[Call]:
        """What a sink is to get now that this call is in the journal."""
        if call.kind == "open":
            self._open.append(call)
            return [] if self._only else self._opened([])
        if call.kind == "record":
            self._held.append(call)
            # Findings come after the last record.
            return [] if REGRESSIONS in self._only else self._opened(self._fitting())
        return self._closed(call) if call.kind == "close" else []

    def _closed(self, call: Call) -> list[Call]:
        findings = call.data.get("findings", ())
        self._worse = frozenset(str(one.get("case")) for one in findings if one.get("verdict") == "worse")
        records = self._fitting()
        is_told = records or not self._open or self._wants_end(call.data)
        return self._opened([*records, call]) if is_told else []

    def _opened(self, calls: list[Call]) -> list[Call]:
        """The calls, after the session's opening if that was held back."""
        if not calls and self._only:
            return []
        opening, self._open = self._open, []
        return [*opening, *calls]

    def _fitting(self) -> list[Call]:
        chosen = [call for call in self._held if self._wants(call.data)]
        is_final = REGRESSIONS not in self._only
        self._held = [] if is_final else [call for call in self._held if call not in chosen]
        return chosen

    def _wants(self, data: Mapping[str, Any]) -> bool:
        return not self._only or any(self._fits(one, data) for one in self._only)

    def _wants_end(self, data: Mapping[str, Any]) -> bool:
        """Whether the session's end alone, without any record that fits, is to be told."""
        if not self._only:
            return True
        if FAILURES in self._only and (data.get("interrupted") or data.get("unfinished")):
            return True
        return REGRESSIONS in self._only and bool(self._worse)

    def _fits(self, one: str, data: Mapping[str, Any]) -> bool:
        name = str(data["case"])
        case = self._find_case(name)
        if one == FAILURES:
            return not Status(data["status"]).ok
        if one == REGRESSIONS:
            return name in self._worse or (case is not None and case.key in self._worse)
        if one.startswith(_TAG):
            return case is not None and one.removeprefix(_TAG) in case.tags
        return name == one or fnmatchcase(name, one) or (case is not None and case.entry == one)


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
        for line in read_lines(self.directory / LEDGER):
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
        append_line(self.directory / LEDGER, line)
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


class Notebook:
    """Facts by key; each is on the disk when `put` returns, and the last one counts."""

    def __init__(self, state_dir: Path) -> None:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = state_dir / NOTEBOOK
        self._facts = {str(fact["key"]): fact for fact in read_lines(self._path) if "key" in fact}

    def get(self, key: str) -> dict[str, Any] | None:
        """The fact noted last under this key."""
        return self._facts.get(key)

    def put(self, key: str, **fact: Any) -> dict[str, Any]:
        """Note a fact in place of the earlier one."""
        noted = {**fact, "key": key}
        # For the owner's eyes: the address of an upload under way lets its holder write to it.
        with JsonLines(self._path, durable=True, mode=0o600) as log:
            log.append(noted)
        self._facts[key] = noted
        return noted

    def under(self, prefix: str) -> Mapping[str, dict[str, Any]]:
        """All facts whose key begins so, by the rest of it."""
        return {key[len(prefix) :]: fact for key, fact in self._facts.items() if key.startswith(prefix)}
