"""What sinks are to be told, kept on disk: the session's journal of calls, and for each sink what it has got of them.

SESSION/.outbox/session.json      the session's id and its plan, without secrets
SESSION/.outbox/journal.jsonl     a line for each call, in order; records are where they always are
SESSION/.outbox/SINK/             spec.json, ledger.jsonl, state/, output.log
RESULTS/.outbox/SESSION           an empty file for as long as something of the session may be waiting
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from pydantic import TypeAdapter

from paceline.model import Case, Finding, Plan, Record, Report, SinkSpec, Status
from paceline.record import codec
from paceline.record.directory import SessionDir
from paceline.record.files import JsonLines, read_lines, write_atomic
from paceline.record.layout import OUTBOX, RECORD, entry_path, names_in, safe_name

SESSION, JOURNAL, LEDGER, SPEC = "session.json", "journal.jsonl", "ledger.jsonl", "spec.json"
_PLAN = TypeAdapter(Plan)
_FINDINGS = TypeAdapter(tuple[Finding, ...])

ALL_DELIVERED, GAVE_UP, OFF, BUSY, NO_MEMORY = 0, 3, 4, 5, 6
ENDS = frozenset({ALL_DELIVERED, GAVE_UP, OFF, BUSY, NO_MEMORY})
"""How a courier ends; any other way is a crash."""


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
        self.path = session_dir / OUTBOX
        self._lines = JsonLines(self.path / JOURNAL)
        self._keys: set[str] = set()
        self._run = 0

    @property
    def exists(self) -> bool:
        return (self.path / SESSION).is_file()

    def begin(self, plan: Plan) -> None:
        """The session starts, or goes on: keep its plan and note what an earlier run of it left out."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._mark()
        self.keep_plan(plan)
        self._load()
        self._run += 1
        self._append("start", f"start-{self._run}", {})
        self._append("open", "open", {})
        self.catch_up()

    def resume(self) -> None:
        """Take up the journal of a session that is over."""
        self._mark()
        self._load()

    def keep_plan(self, plan: Plan) -> None:
        """Keep a plan that holds no secrets."""
        data = {
            "id": self._kept("id") or token_hex(8),
            "cwd": self._kept("cwd") or str(Path.cwd()),
            "plan": _PLAN.dump_python(plan, mode="json"),
        }
        write_atomic(self.path / SESSION, codec.dump(data), durable=False)

    def add_record(self, record: Record) -> None:
        entry = entry_path(self.session_dir, record.case).relative_to(self.session_dir).as_posix()
        digest = hashlib.sha256(os.fsencode(entry)).hexdigest()[:16]
        data = {"dir": entry, "case": record.case.name, "attempt": record.attempt, "status": record.status}
        self._append("record", f"record-{digest}-{record.attempt}", data)

    def add_close(self, report: Report) -> None:
        data = {
            "counts": {status.value: count for status, count in report.counts.items()},
            "interrupted": report.interrupted,
            "unfinished": report.unfinished,
            "findings": [codec.encode(finding) for finding in report.findings],
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
            self._marker.unlink()

    @property
    def _marker(self) -> Path:
        return self.session_dir.parent / OUTBOX / self.session_dir.name

    def _mark(self) -> None:
        self._marker.parent.mkdir(exist_ok=True)
        self._marker.touch()

    def _kept(self, name: str) -> str:
        try:
            return str(codec.load((self.path / SESSION).read_bytes())[name])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _load(self) -> None:
        calls = list(read_calls(self.path / JOURNAL))
        self._keys = {call.key for call in calls}
        self._run = sum(call.kind == "start" for call in calls)

    def _append(self, kind: str, key: str, data: Mapping[str, Any]) -> None:
        if key in self._keys:
            return
        self._lines.append({"kind": kind, "key": key, **data})
        self._keys.add(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """The plan of a session as sinks see it, read back."""

    id: str
    cwd: str
    plan: Plan
    cases: Mapping[str, Case]

    def report(self, session_dir: Path, data: Mapping[str, Any]) -> Report:
        """The report of a `close` call; its records are read from disk one by one."""
        known = (*self.plan.setups, *self.plan.cases)
        return Report(
            plan=self.plan,
            records=SessionDir.open(session_dir).records(known),
            findings=_FINDINGS.validate_python(data.get("findings", ())),
            counts={Status(name): count for name, count in data.get("counts", {}).items()},
            interrupted=bool(data.get("interrupted")),
            unfinished=str(data.get("unfinished", "")),
        )

    def record(self, session_dir: Path, data: Mapping[str, Any]) -> Record | None:
        """The record of a `record` call; None if its file is gone."""
        entry, attempt = session_dir / data["dir"], data["attempt"]
        for file in (entry / RECORD, entry / f"attempts/attempt-{attempt}" / RECORD):
            record = codec.read_record(file)
            if record is not None and record.attempt == attempt:
                return self._with_case(record)
        return None

    def _with_case(self, record: Record) -> Record:
        """What the plan knows of the case and its file does not: `sink_data`, requirements, tags."""
        case = self.cases.get(record.case.name)
        return record if case is None else replace(record, case=replace(case, params=record.case.params))


def read_plan(outbox: Path) -> StoredPlan:
    """The plan that an outbox keeps; OSError or ValueError if it cannot be read."""
    data = json.loads((outbox / SESSION).read_bytes())
    plan = _PLAN.validate_python(data["plan"])
    cases = {case.name: case for case in (*plan.setups, *plan.cases)}
    return StoredPlan(id=str(data["id"]), cwd=str(data["cwd"]), plan=plan, cases=cases)


def read_calls(journal: Path) -> Iterator[Call]:
    """The calls of a journal in order; torn lines are left out."""
    for line in read_lines(journal):
        if isinstance(line.get("kind"), str) and isinstance(line.get("key"), str):
            yield Call(kind=line["kind"], key=line["key"], data=line)


def sink_dir(session_dir: Path, name: str) -> Path:
    return session_dir / OUTBOX / safe_name(name)


def sink_names(session_dir: Path) -> list[str]:
    """The sinks that a session has, by their directories."""
    return sorted(
        name for name in names_in(session_dir / OUTBOX) if (session_dir / OUTBOX / name / SPEC).is_file()
    )


def waiting_sessions(results_dir: Path) -> list[Path]:
    """The sessions of which something may be waiting, the oldest first."""
    marks = results_dir / OUTBOX
    found: Sequence[str] = names_in(marks)
    return sorted(
        (results_dir / name for name in found if (results_dir / name / OUTBOX / SESSION).is_file()),
        key=lambda path: ((marks / path.name).stat().st_mtime, path.name),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """Which sink of which session, the values to mask, and how long the session's end will wait."""

    session_dir: Path
    spec: SinkSpec
    secrets: Sequence[str]
    wait_s: float
    is_beside_run: bool
    sys_path: Sequence[str]

    @property
    def directory(self) -> Path:
        return sink_dir(self.session_dir, self.spec.name)

    def pack(self) -> bytes:
        return _LETTER.dump_json(self)

    @classmethod
    def unpack(cls, data: bytes) -> "Letter":
        return _LETTER.validate_python(json.loads(data))


_LETTER = TypeAdapter(Letter)
