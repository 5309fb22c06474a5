"""Where an execution writes down what happens: in a session of its own, or in one that it is a part of."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paceline.evals.configs import BenchmarkStub
from paceline.evals.execution import new_plan, plan_json
from paceline.model import Record
from paceline.record.atomic import write_atomic
from paceline.record.codec import dump
from paceline.record.directory import SessionDir
from paceline.record.environment import Environment, capture
from paceline.record.events import SESSION_FINISHED, SESSION_STARTED, EventLog
from paceline.record.redact import Redactor, secret_values


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """A session as an execution sees it.

    `keep` takes the record of each stub that ended; False if no further one should begin. `recorded` are the keys of
    stubs that have their record. `secret_names` are variables that hold secrets though their names do not tell.
    `last_event` is what the execution ends with in `events`.
    """

    session: str
    directory: Path
    environment: Environment
    events: EventLog
    redactor: Redactor
    keep: Callable[[Record], bool]
    recorded: Collection[str] = ()
    secret_names: tuple[str, ...] = ()
    last_event: str = "execution_finished"


@contextmanager
def open_books(
    root: Path, stubs: Sequence[BenchmarkStub], on_record: Callable[[Record], None] | None
) -> Iterator[Books]:
    """A new session for one execution, kept from others for as long as it is open."""
    plan, environment = new_plan(root, stubs), capture()
    redactor = Redactor(secret_values(os.environ))
    directory = SessionDir.create(plan, redactor)
    directory.lock()
    try:
        write_atomic(directory.path / "plan.json", dump(plan_json(plan), pretty=True), durable=False)
        data = dump(environment.data, pretty=True)
        write_atomic(directory.path / "environment.json", data, durable=False)
        with EventLog(directory.path / "events.jsonl", redactor) as events:

            def keep(record: Record) -> bool:
                directory.write_record(record)
                events.write(
                    "case_finished", case=record.case.name, status=record.status, reason=record.reason
                )
                if on_record is not None:
                    on_record(record)
                return True

            events.write(SESSION_STARTED, session=plan.session, total=len(stubs))
            yield Books(
                session=plan.session,
                directory=directory.path,
                environment=environment,
                events=events,
                redactor=redactor,
                keep=keep,
                last_event=SESSION_FINISHED,
            )
    finally:
        directory.unlock()
