"""A session with sinks, told record by record, without running anything."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.model import Case, Finding, Measurement, Plan, Record, Report, Scalar, SinkSpec, Status
from paceline.record.directory import SessionDir
from paceline.record.layout import OUTBOX, safe_name
from paceline.record.masking import mask_plan, mask_record
from paceline.record.redact import Redactor
from paceline.sinks.dispatch import Dispatcher, Sent, send

STARTED_AT = "2026-01-02T03:04:05.678Z"


class SinkBench:
    """Writes records as a runner does, and hands them to the sinks of a session."""

    def __init__(
        self,
        path: Path,
        *sinks: SinkSpec,
        session: str = "s",
        cases: Sequence[Case] = (),
        secrets: tuple[str, ...] = (),
    ) -> None:
        self.redactor = Redactor(secrets)
        self.plan = Plan(
            session=session,
            directory=path / "results" / session,
            cases=tuple(cases) or tuple(make_case(name) for name in "abc"),
            sinks=sinks,
            secret_values=secrets,
        )
        self.directory = self.plan.directory
        self.notes: list[str] = []

    def run(
        self,
        *records: Record,
        finish: bool = True,
        findings: tuple[Finding, ...] = (),
        between: Callable[[], None] = lambda: None,
    ) -> tuple[str, ...]:
        """A whole session of these records, or one whose runner is gone before its end."""
        if self.directory.exists():
            kept = SessionDir.open(self.directory, redactor=self.redactor)
        else:
            kept = SessionDir.create(self.plan, self.redactor)
            (self.directory / "environment.json").write_text(json.dumps({"hostname": "here", "id": "env-1"}))
        masked = mask_plan(self.plan, self.redactor)
        with Dispatcher(self.plan, self.redactor, self.notes.append) as sinks:
            sinks.open(masked)
            for record in records:
                kept.write_record(record)
                sinks.record(mask_record(record, self.redactor))
            between()
            if not finish:
                return ()
            counts = dict.fromkeys(Status, 0)
            for record in records:
                counts[record.status] += 1
            report = Report(plan=masked, records=records, counts=counts, findings=findings)
            return sinks.close(report)

    def send(self, *names: str) -> list[Sent]:
        return send(self.directory, self.notes.append, sinks=names)

    def sink_dir(self, name: str) -> Path:
        return self.directory / OUTBOX / safe_name(name)

    def ledger(self, name: str) -> list[dict[str, Any]]:
        path = self.sink_dir(name) / "ledger.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def delivered(self, name: str) -> list[str]:
        return [line["key"] for line in self.ledger(name) if line.get("delivered")]

    def forget_last(self, name: str, count: int) -> None:
        """As if the courier had been killed `count` times between a call's effect and its note."""
        kept = self.ledger(name)
        done = [line for line in kept if line.get("delivered")]
        text = "".join(json.dumps(line) + "\n" for line in kept if line not in done[-count:])
        (self.sink_dir(name) / "ledger.jsonl").write_text(text)

    @property
    def is_waiting(self) -> bool:
        return (self.directory.parent / OUTBOX / self.directory.name).exists()


def make_case(name: str, **fields: Any) -> Case:
    return Case(name=name, entry=name, key=name, **fields)


def make_record(
    name: str, *, status: Status = Status.PASSED, attempt: int = 1, **metrics: Scalar | tuple[Scalar, ...]
) -> Record:
    measured = {
        key: Measurement(value=value[0], samples=value)
        if isinstance(value, tuple)
        else Measurement(value=value, unit="s", direction="lower", samples=(value,))
        for key, value in (metrics or {"time_s": 1.5}).items()
    }
    return Record(
        session="s",
        case=make_case(name),
        attempt=attempt,
        status=status,
        reason="" if status.ok else "it broke",
        started_at=STARTED_AT,
        exec_time_s=0.25,
        metrics=measured,
        params={"rows": 10},
        revision="0123abcd",
    )


def spec(kind: str, name: str = "", **fields: Any) -> SinkSpec:
    """A sink with its options; fields of the sink itself are told by their names."""
    own = {
        key: fields.pop(key)
        for key in list(fields)
        if key in SinkSpec.__dataclass_fields__ and key != "options"
    }
    # A busy machine may keep a courier, which is modest, for longer than the usual half a minute.
    return replace(SinkSpec(type=kind, name=name or kind, options=fields, wait_s=120.0), **own)
