"""Machines that run sessions which are kept in an object store."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from object_store import archive_files
from paceline.model import Case, Plan, Record, Settings, Status
from paceline.record import codec
from paceline.record.directory import SessionDir, is_kept
from paceline.record.remote.archive import ARCHIVE
from paceline.record.remote.object_store import ObjectStore
from paceline.record.remote.session import RemoteCopy, keep_copy

Outcomes = Mapping[str, Status]
PASSED, FAILED = Status.PASSED, Status.FAILED
STARTED_AT = "2025-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class Machine:
    """A directory to run in, as each machine has one for an object store."""

    root: Path
    url: str

    def plan(self, *cases: str | Case, session: str = "s") -> Plan:
        made = tuple(case if isinstance(case, Case) else make_case(case) for case in cases)
        return Plan(
            session=session,
            directory=self.root / session,
            cases=made,
            settings=Settings(results_url=self.url),
        )

    @contextmanager
    def session(
        self, plan: Plan, *, resumes: bool = False, rerun_failed: bool = False
    ) -> Iterator[tuple[RemoteCopy, SessionDir]]:
        with keep_copy(plan, resumes=resumes) as kept:
            assert kept is not None
            directory = SessionDir.open(plan.directory) if resumes else SessionDir.create(plan)
            directory.lock()
            try:
                if resumes:
                    kept.catch_up(directory, rerun_failed=rerun_failed)
                names = [{"name": case.name} for case in plan.cases]
                (plan.directory / "plan.json").write_text(json.dumps({"cases": names}))
                kept.start()
                yield kept, directory
            finally:
                directory.unlock()

    def run(
        self, plan: Plan, outcomes: Outcomes, *, resumes: bool = False, rerun_failed: bool = False
    ) -> list[str]:
        """Run what is not kept; the names of what ran."""
        with self.session(plan, resumes=resumes, rerun_failed=rerun_failed) as (kept, directory):
            ran = run_cases(kept, directory, plan, outcomes, by=self.root.name, rerun_failed=rerun_failed)
            assert finish(kept, directory) == ""
        return ran


Machines = Callable[[str], Machine]


def make_case(name: str, **options: object) -> Case:
    return Case(**{"name": name, "entry": name, "key": name, "fingerprint": f"f-{name}", **options})  # type: ignore[arg-type]


def run_cases(
    kept: RemoteCopy,
    directory: SessionDir,
    plan: Plan,
    outcomes: Outcomes,
    *,
    by: str,
    rerun_failed: bool = False,
) -> list[str]:
    ran = []
    for case in plan.cases:
        if case.name not in outcomes or is_kept(directory.read_record(case), case, rerun_failed=rerun_failed):
            continue
        run_case(kept, directory, case, outcomes[case.name], by)
        ran.append(case.name)
    return ran


def run_case(
    kept: RemoteCopy, directory: SessionDir, case: Case, status: Status, by: str, **details: Any
) -> None:
    attempt = directory.next_attempt(case)
    entry = directory.prepare(case)
    (entry / "logs/stdouterr.log").write_text(f"{case.name} attempt {attempt} by {by}\n")
    (entry / f"only-{attempt}.txt").write_text(by)
    record = Record(
        session="s",
        case=case,
        attempt=attempt,
        status=status,
        reason=by,
        details=details,
        started_at=STARTED_AT,
        artifacts=directory.artifacts(case),
    )
    directory.write_record(record)
    directory.append_result_line(case, {"name": case.name, "by": by})
    kept.case_ended(record)


def finish(kept: RemoteCopy, directory: SessionDir) -> str:
    """The end of a session, with its report."""
    records = [record for _, record in directory.stored_records()]
    report = {"records": [codec.to_json(record) for record in records]}
    (directory.path / "report.json").write_bytes(codec.dump(report))
    return kept.finish(ok=all(record.status.ok for record in records))


def stored_record(store: ObjectStore, case: str) -> Record:
    return codec.from_json(codec.load(store.read(f"{case}/record.json") or b""))


def archived(store: ObjectStore, case: str) -> dict[str, str]:
    """What the archive of a case holds."""
    files = archive_files(store.read(f"{case}/{ARCHIVE}"))
    return {name: data.decode() for name, data in files.items()}
