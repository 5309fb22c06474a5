"""What waits, on disk: a session's journal of calls, which of them a sink wants, and which it has got.

SESSION/.outbox/session.json      the session's id and its plan, without secrets
SESSION/.outbox/journal.jsonl     a line for each call, in order; records are where they always are
SESSION/.outbox/SINK/             spec.json, ledger.jsonl, state/, output.log
RESULTS/.outbox/SESSION           an empty file for as long as something of the session may be waiting

Journals and ledgers are append-only: a crash can only make them shorter by their last line. All of it is data: of a
session that somebody else made it says what is sent, never where to.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from secrets import token_hex
from typing import Any

from pydantic import TypeAdapter

from paceline.errors import SessionError
from paceline.model import Case, Plan, Record, Report, Status, is_case
from paceline.record import below, codec
from paceline.record.directory import SessionDir
from paceline.record.events import utc_now
from paceline.record.files import JsonLines, append_line, read_lines
from paceline.record.layout import OUTBOX, RECORD, entry_name, safe_name
from paceline.report.format import visible

SESSION, JOURNAL, LEDGER = f"{OUTBOX}/session.json", f"{OUTBOX}/journal.jsonl", "ledger.jsonl"
FAILURES, REGRESSIONS, _TAG = "failures", "regressions", "tag:"
_LONGEST_TEXT = 500
_KEY = re.compile(r"[A-Za-z0-9-]{1,100}")
"""Of an id or a call's key, which services are asked for."""
_STATUSES = [status.value for status in Status]
_PLAN = TypeAdapter(Plan)


def sink_dir(name: str) -> str:
    """The directory of a sink, below its session's."""
    return f"{OUTBOX}/{safe_name(name)}"


def one_line(text: str) -> str:
    """What a service or a sink said, short, and safe to show."""
    return visible(" ".join(text.split()))[:_LONGEST_TEXT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One line of the journal; `data` is what the sink's argument is made of."""

    kind: str
    key: str
    data: Mapping[str, Any]


class Outbox:
    """The journal of one session."""

    def __init__(self, session_dir: Path) -> None:
        self.session_dir = session_dir
        self._lines = JsonLines(session_dir / JOURNAL, root=session_dir, mode=0o600)
        self._keys: set[str] = set()
        self._run = 0

    @property
    def exists(self) -> bool:
        return below.is_file(self.session_dir, SESSION)

    def begin(self, plan: Plan) -> str:
        """The session starts, or goes on: keep its plan and note what an earlier run of it left out; its id."""
        below.make_private_dir(self.session_dir, OUTBOX)
        session_id = self.keep_plan(plan)
        self.resume()
        self._run += 1
        self._append("start", f"start-{self._run}", {})
        self._append("open", "open", {})
        self.catch_up()
        return session_id

    def resume(self) -> None:
        """Take up the journal that is there."""
        below.write(self.session_dir.parent, self._marker, b"", durable=False)
        calls = list(read_calls(self.session_dir))
        self._keys = {call.key for call in calls}
        self._run = sum(call.kind == "start" for call in calls)

    def keep_plan(self, plan: Plan) -> str:
        """Keep a plan that holds no secrets; the session's id."""
        try:
            session_id = read_plan(self.session_dir).id
        except SessionError:
            session_id = token_hex(8)
        data = {"id": session_id, "plan": _PLAN.dump_python(plan, mode="json")}
        below.write(self.session_dir, SESSION, codec.dump(data), durable=False, mode=0o600)
        return session_id

    def add_record(self, record: Record) -> None:
        entry = entry_name(record.case)
        digest = hashlib.sha256(os.fsencode(entry)).hexdigest()[:16]
        data = {"dir": entry, "case": record.case.name, "attempt": record.attempt, "status": record.status}
        self._append("record", f"record-{digest}-{record.attempt}", data)

    def add_close(self, report: Report) -> None:
        data = {
            "counts": {status.value: count for status, count in report.counts.items()},
            "interrupted": report.interrupted,
            "unfinished": report.unfinished,
            "findings": [codec.finding_json(finding) for finding in report.findings],
        }
        self._append("close", f"close-{self._run}", data)

    def catch_up(self) -> None:
        """Note the records that are on disk and not in the journal: the runner was killed between the two."""
        for _, record in SessionDir.open(self.session_dir).stored_records():
            self.add_record(record)

    @property
    def is_closed(self) -> bool:
        """Whether the last run of the session came to its end."""
        return not self._run or f"close-{self._run}" in self._keys

    def close(self) -> None:
        self._lines.close()

    def forget(self) -> None:
        """Nothing is waiting any more."""
        with suppress(OSError):
            below.remove(self.session_dir.parent, self._marker)

    @property
    def _marker(self) -> str:
        return f"{OUTBOX}/{self.session_dir.name}"

    def _append(self, kind: str, key: str, data: Mapping[str, Any]) -> None:
        if key not in self._keys:
            self._lines.append({"kind": kind, "key": key, **data})
            self._keys.add(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """The plan of a session as sinks see it, read back."""

    id: str
    plan: Plan
    cases: Mapping[str, Case]

    def report(self, session_dir: Path, data: Mapping[str, Any]) -> Report:
        """The report of a `close` call; its records are read from disk one by one."""
        known = (*self.plan.setups, *self.plan.cases)
        return Report(
            plan=self.plan,
            records=SessionDir.open(session_dir).records(known),
            findings=tuple(map(codec.read_finding, data.get("findings", ()))),
            counts={Status(name): count for name, count in data.get("counts", {}).items()},
            interrupted=bool(data.get("interrupted")),
            unfinished=str(data.get("unfinished", "")),
        )

    def record(self, session_dir: Path, data: Mapping[str, Any]) -> Record | None:
        """The record of a `record` call, with what the plan knows of its case; None if its file is gone."""
        entry, attempt = session_dir / str(data["dir"]), data["attempt"]
        for file in (entry / RECORD, entry / f"attempts/attempt-{attempt}" / RECORD):
            record = codec.read_record(file, session_dir)
            if record is not None and record.attempt == attempt:
                case = self.cases.get(record.case.name)
                return (
                    record if case is None else replace(record, case=replace(case, params=record.case.params))
                )
        return None


def read_plan(session_dir: Path) -> StoredPlan:
    """The plan that an outbox keeps; SessionError if it cannot be read."""
    try:
        data = codec.load(below.read(session_dir, SESSION))
        plan = _PLAN.validate_python(data["plan"])
        session_id = str(data["id"])
        if not _KEY.fullmatch(session_id):
            raise ValueError("its id is none")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise SessionError(f"{session_dir / SESSION} cannot be read: {one_line(str(error))}") from error
    cases = {case.name: case for case in (*plan.setups, *plan.cases)}
    return StoredPlan(id=session_id, plan=plan, cases=cases)


def read_calls(session_dir: Path) -> Iterator[Call]:
    """The calls of a journal in order; torn lines are left out."""
    for line in read_lines(session_dir / JOURNAL, session_dir):
        call = as_call(line)
        if call is not None:
            yield call


def as_call(line: Mapping[str, Any]) -> Call | None:
    """The call that a line of a journal stands for; None if a part of it is missing or of another type."""
    texts, findings = ["kind"], line.get("findings", [])
    if line.get("kind") == "record":
        texts += ["dir", "case", "status"]
        if type(line.get("attempt")) is not int or line.get("status") not in _STATUSES:
            return None
    if not all(isinstance(line.get(name), str) for name in texts) or not _KEY.fullmatch(str(line.get("key"))):
        return None
    if not isinstance(findings, list) or not all(isinstance(one, dict) for one in findings):
        return None
    return Call(kind=line["kind"], key=line["key"], data=line)


def waiting_sessions(results_dir: Path) -> list[Path]:
    """The sessions of which something may be waiting, the oldest first."""
    marks = {name: below.status(results_dir, f"{OUTBOX}/{name}") for name in below.names(results_dir, OUTBOX)}
    found = [
        (mark.st_mtime, name)
        for name, mark in marks.items()
        if mark is not None and below.is_file(results_dir, f"{name}/{SESSION}")
    ]
    return [results_dir / name for _, name in sorted(found)]


class CallFilter:
    """Picks from a journal, call by call; where `only` is given and nothing fits it, a sink gets nothing at all."""

    def __init__(self, only: Sequence[str], find_case: Callable[[str], Case | None]) -> None:
        self._only = tuple(only)
        self._find_case = find_case
        self._worse: frozenset[str] = frozenset()
        self._open: list[Call] = []
        self._held: list[Call] = []

    def feed(self, call: Call) -> list[Call]:
        """What a sink is to get now that this call is in the journal."""
        chosen: list[Call] = []
        if call.kind == "open":
            self._open.append(call)
        elif call.kind == "record":
            self._held.append(call)
            # Findings come after the last record.
            chosen = [] if REGRESSIONS in self._only else self._fitting()
        elif call.kind == "close":
            findings = call.data.get("findings", ())
            self._worse = frozenset(str(one.get("case")) for one in findings if one.get("verdict") == "worse")
            chosen = self._fitting()
            if chosen or not self._open or self._wants_end(call.data):
                chosen = [*chosen, call]
        if call.kind == "start" or (self._only and not chosen):
            return []
        # The session's opening is held back until there is something else.
        opening, self._open = self._open, []
        return [*opening, *chosen]

    def _fitting(self) -> list[Call]:
        chosen = [
            call
            for call in self._held
            if not self._only or any(self._fits(one, call.data) for one in self._only)
        ]
        is_final = REGRESSIONS not in self._only
        self._held = [] if is_final else [call for call in self._held if call not in chosen]
        return chosen

    def _wants_end(self, data: Mapping[str, Any]) -> bool:
        """Whether the session's end alone, without any record that fits, is of interest."""
        is_cut_short = bool(data.get("interrupted") or data.get("unfinished"))
        wanted = {FAILURES: is_cut_short, REGRESSIONS: bool(self._worse)}
        return not self._only or any(wanted.get(one) for one in self._only)

    def _fits(self, one: str, data: Mapping[str, Any]) -> bool:
        name = str(data["case"])
        case = self._find_case(name)
        if one == FAILURES:
            return not Status(data["status"]).ok
        if one == REGRESSIONS:
            return name in self._worse or (case is not None and case.key in self._worse)
        if one.startswith(_TAG):
            return case is not None and one.removeprefix(_TAG) in case.tags
        return fnmatchcase(name, one) or is_case(one, name) or (case is not None and case.entry == one)


@dataclass(slots=True)
class Ledger:
    """What a sink has got of a session, and what went wrong; one process at a time writes it."""

    session_dir: Path
    sink: str
    delivered: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    is_stuck: bool = False
    """Whether its last process hung or crashed: another one most likely will, too."""
    faults: dict[str, str] = field(default_factory=dict)
    """Why calls that are not delivered were not, the latest last; under an empty key what befell the process."""

    @property
    def fault(self) -> str:
        return next(reversed(self.faults.values()), "")

    @property
    def path(self) -> Path:
        return self.session_dir / sink_dir(self.sink) / LEDGER

    def read(self) -> "Ledger":
        for line in read_lines(self.path, self.session_dir):
            self._take(line)
        return self

    def _take(self, line: dict[str, Any]) -> None:
        key = str(line.get("key"))
        if line.get("delivered"):
            self.delivered.add(key)
        if line.get("again"):
            self.delivered.discard(key)
        if line.get("delivered") or "fault" in line:
            self.is_stuck = bool(line.get("stuck"))
            self.faults.pop(key, None)
            self.faults.pop("", None)
        if "fault" in line:
            self.faults[key] = one_line(str(line["fault"]))
        if line.get("refused"):
            self.refused.add(key)

    def note(self, **fields: Any) -> None:
        """Add a line: `key` with `delivered`, `again`, or `fault` with `refused` and `stuck`; or what is to `say`."""
        line = {"time": utc_now(), **fields}
        append_line(self.path, line, root=self.session_dir, mode=0o600)
        self._take(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a sink has come with a session."""

    delivered: int
    waiting: int
    fault: str = ""
    is_worth_trying: bool = False
    """Whether something waits that was not refused for good, and the last process did not hang."""


def standing(session_dir: Path, name: str, only: Sequence[str], stored: StoredPlan) -> Standing:
    """Counts the calls of a session's journal that a sink is to get, as far as is known, and has got."""
    ledger = Ledger(session_dir, name).read()
    choose = CallFilter(only, stored.cases.get)
    wanted = [chosen.key for call in read_calls(session_dir) for chosen in choose.feed(call)]
    waiting = [key for key in wanted if key not in ledger.delivered]
    return Standing(
        delivered=len(wanted) - len(waiting),
        waiting=len(waiting),
        fault=ledger.fault if waiting else "",
        is_worth_trying=not ledger.is_stuck and not ledger.refused.issuperset(waiting),
    )
