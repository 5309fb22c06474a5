"""Records and reports as short as tests of what is printed need them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.model import Case, Check, Plan, Record, Report, Status

MISSED = Check(metric="windows", kind="min_value", bound=100, actual=50, margin=-50, ok=False)


def make_case(name: str, **fields: Any) -> Case:
    return Case(name=name, entry=name, key=name, **fields)


def make_record(name: str, status: Status = Status.PASSED, **fields: Any) -> Record:
    return Record(**{"session": "s", "case": make_case(name), "attempt": 1, "status": status, **fields})


def make_report(records: Sequence[Record], *, interrupted: bool = False) -> Report:
    counts = Counter(record.status for record in records)
    plan = Plan(session="s", directory=Path("/results/s"), cases=tuple(record.case for record in records))
    return Report(plan=plan, records=records, counts=counts, interrupted=interrupted)


def make_timed(name: str = "bench", status: Status = Status.PASSED, **fields: Any) -> Record:
    return make_record(name, status, **{"exec_time_s": 1.5, **fields})
