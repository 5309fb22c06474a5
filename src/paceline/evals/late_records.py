"""Records that a killed runner did not come to write: the next one does, into the session that did the work.

A stub is done by its marker, and recorded a moment later by the parent. What lies between belongs to the session that
the marker names, with its environment and its revision; under that session's lock it is written once, whoever comes.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.errors import SessionError
from paceline.evals.books import Books
from paceline.evals.execution import read_environment, stub_case, stub_record
from paceline.evals.jobs import Job, Maker, maker_of
from paceline.model import Record
from paceline.record.codec import result_data
from paceline.record.directory import SessionDir
from paceline.record.environment import Environment
from paceline.record.events import SESSION_FINISHED, EventLog, first_start, session_events
from paceline.record.layout import EVENTS
from paceline.record.lock import stale_run_ids, unchanged_time
from paceline.run.local.leftovers import sweep

ADDED = "session_records_added"


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRecords:
    """Sessions whose runner was killed, and the records that were written for it."""

    sessions: tuple[Path, ...] = ()
    records: tuple[Record, ...] = ()


def write_late_records(done: Iterable[Job], books: Books) -> LateRecords:
    """Give each stub that an earlier session finished its record, if that session was killed before."""
    makers: dict[Maker, list[Job]] = {}
    for job in done:
        if job.outcome is not None and not job.maker.made(job.outcome.facts):
            makers.setdefault(maker_of(job.outcome.facts), []).append(job)
    sessions: list[Path] = []
    records: list[Record] = []
    for maker, jobs in makers.items():
        place = _killed_session(maker, books.directory.parent)
        if place is None:
            continue
        try:
            records += _add_missing(place, jobs, books)
            sessions.append(place)
        except (SessionError, OSError) as error:  # it runs, or is not ours to write into
            books.events.write("late_records_left", session=maker.session, reason=str(error))
    return LateRecords(sessions=tuple(sessions), records=tuple(records))


def _killed_session(maker: Maker, results_dir: Path) -> Path | None:
    """The directory of a session that has not been seen to end; None if it has, or is not to be found."""
    if not maker.started_at:
        return None
    # Beside us first: what was copied elsewhere goes on where it is now.
    for place in (results_dir / maker.session, Path(maker.directory)):
        if first_start(place / EVENTS).get("time") == maker.started_at:
            ends = (event["event"] for event in session_events(place / EVENTS)[::-1])
            return None if next(ends) == SESSION_FINISHED else place
    return None


@contextmanager
def _taken(place: Path, books: Books) -> Iterator[SessionDir]:
    """A session that nobody runs, kept from others; what its runner left running is ended first."""
    directory = SessionDir.open(place, redactor=books.redactor)
    with unchanged_time(place):
        sweep(stale_run_ids(place))
        directory.lock()
        try:
            yield directory
        finally:
            directory.unlock()


def _add_missing(place: Path, jobs: Sequence[Job], books: Books) -> list[Record]:
    with _taken(place, books) as directory, EventLog(place / EVENTS, books.redactor) as events:
        known = {record.case.fingerprint for _, record in directory.stored_records() if record.status.ok}
        environment = read_environment(place)
        added = [_add(directory, job, environment) for job in jobs if job.stub.key not in known]
        for record in added:
            events.write("case_finished", case=record.case.name, status=record.status, attempt=record.attempt)
        if added:
            events.write(ADDED, count=len(added), by=books.session)
    return added


def _add(directory: SessionDir, job: Job, environment: Environment) -> Record:
    assert job.outcome is not None
    session = maker_of(job.outcome.facts).session
    record = stub_record(session, job, replace(job.outcome, state="completed"), environment)
    attempt = max(record.attempt, directory.next_attempt(stub_case(job.stub)))
    record = replace(record, attempt=attempt)
    directory.write_record(record)
    directory.append_result_line(record.case, result_data(record, directory.entry_dir(record.case), ()))
    return record
