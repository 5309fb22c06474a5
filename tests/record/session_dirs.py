"""Small plans, cases and records, and a look at what is on disk."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.model import Case, Plan, Record, Status


def make_plan(tmp_path: Path, session: str = "s1", **changes: Any) -> Plan:
    return Plan(session=session, directory=tmp_path / "results" / session, **changes)


def make_case(name: str = "bench", **changes: Any) -> Case:
    return Case(name=name, entry=name, key=name, argv=("script",), **changes)


def make_record(case: Case, attempt: int = 1, **changes: Any) -> Record:
    return replace(Record(session="s1", case=case, attempt=attempt, status=Status.PASSED), **changes)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
