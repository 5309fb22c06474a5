"""Sinks built as a session builds them, and sessions for them to tell of."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from paceline.model import Case, Check, Finding, Measurement, Plan, Record, Report, Status
from paceline.sinks import Sink, SinkContext, TryLater

S = TypeVar("S", bound=Sink)


def build(
    kind: type[S],
    place: Path,
    options: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    **context: Any,
) -> S:
    """A sink of the session at `place`; built again it goes on from what it noted there."""
    session_dir = place / "night"
    session_dir.mkdir(parents=True, exist_ok=True)
    assert kind.Options is not None
    given: dict[str, Any] = {
        "name": "sink",
        "session": "night",
        "session_id": "id-of-night",
        "session_dir": session_dir,
        "state_dir": session_dir / ".outbox" / "sink" / "state",
        "environ": environ or {},
        "key": "id-of-night-close-1",
        **context,
    }
    return kind(kind.Options(**options), SinkContext(**given))


def patiently(call: Callable[[], None], most: int = 20) -> int:
    """Make a call as the outbox does, as often as it asks for; how often it was made."""
    for number in range(1, most + 1):
        try:
            call()
        except TryLater as later:
            time.sleep(min(later.after_s or 0.0, 0.2))
        else:
            return number
    raise AssertionError(f"not delivered in {most} tries")


def make_record(name: str = "sort", status: Status = Status.PASSED, **fields: Any) -> Record:
    case = fields.pop("case", None) or Case(name=name, entry=name, key=name)
    given: dict[str, Any] = {
        "session": "night",
        "case": case,
        "attempt": 1,
        "status": status,
        "started_at": "2026-11-01T00:00:00.000Z",
        "exec_time_s": 1.5,
        "metrics": {
            "docs_per_sec": Measurement(value=93.0, unit="docs/s", direction="higher", samples=(92.0, 94.0)),
            "num_documents": Measurement(value=1000),
        },
        **fields,
    }
    return Record(**given)


def too_slow(name: str = "join", **fields: Any) -> Record:
    check = Check(metric="docs_per_sec", kind="min_value", bound=100, actual=93.0, margin=-0.07, ok=False)
    reason = "docs_per_sec is 93.0, must be at least 100"
    return make_record(name, Status.REQUIREMENT_FAILED, requirements=(check,), reason=reason, **fields)


REGRESSION = Finding(
    judge="changes",
    case="sort",
    metric="docs_per_sec",
    verdict="worse",
    effect=-0.125,
    low=-0.16,
    high=-0.09,
    values=(100.0, 101.0, 99.5, 100.2, 88.0, 87.5),
    index=4,
    message="since 1a2b3c4",
)


def make_plan(records: Sequence[Record]) -> Plan:
    return Plan(session="night", directory=Path("night"), cases=tuple(record.case for record in records))


def make_report(records: Sequence[Record], findings: Sequence[Finding] = (), **fields: Any) -> Report:
    counts = Counter(record.status for record in records)
    return Report(plan=make_plan(records), records=records, findings=tuple(findings), counts=counts, **fields)


def run_session(sink: Sink, records: Sequence[Record], findings: Sequence[Finding] = ()) -> None:
    """All calls of a session, each as often as it asks for."""
    plan = make_plan(records)
    patiently(lambda: sink.open(plan))
    for record in records:
        patiently(lambda record=record: sink.record(record))  # type: ignore[misc]
    patiently(lambda: sink.close(make_report(records, findings)))
