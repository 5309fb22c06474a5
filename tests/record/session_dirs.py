"""Small plans, cases and records, and a look at what is on disk."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.model import RUN_DIR, Case, Plan, Record, Status


def make_plan(tmp_path: Path, session: str = "s1", **changes: Any) -> Plan:
    return Plan(session=session, directory=tmp_path / "results" / session, **changes)


def make_case(name: str = "bench", **changes: Any) -> Case:
    """A case whose command is told of its directory, so that it gets scratch room."""
    argv = ("script", f"--out={RUN_DIR}/scratch", f"{RUN_DIR}/benchmark_results")
    return Case(**{"name": name, "entry": name, "key": name, "argv": argv, **changes})


def make_record(case: Case, attempt: int = 1, **changes: Any) -> Record:
    return replace(Record(session="s1", case=case, attempt=attempt, status=Status.PASSED), **changes)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
