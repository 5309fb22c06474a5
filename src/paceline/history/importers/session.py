"""Paceline's own session directories, from which a lost history can be rebuilt."""

from collections.abc import Iterator
from pathlib import Path

from paceline.errors import HistoryError, PacelineError
from paceline.history.importers.batch import OnProblem
from paceline.history.session_files import read_session
from paceline.history.session_info import Batch
from paceline.model import Record
from paceline.record import below, layout

FORMAT = "session"


def found(directory: Path) -> bool:
    """Whether a directory is a session of ours."""
    return any(below.is_file(directory, name) for name in (layout.LOCK, "plan.json"))


def batches(directory: Path, on_problem: OnProblem) -> Iterator[Batch]:
    """The session; its records are read when they are asked for, since there may be many."""
    try:
        files = read_session(directory)
    except PacelineError as error:
        raise HistoryError(str(error)) from error
    records = _readable(files.records, on_problem)
    yield Batch(session=files.session, environment=files.environment, records=records, others=files.others)


def _readable(records: Iterator[Record], on_problem: OnProblem) -> Iterator[Record]:
    """The records up to one that a later version has written, which is said."""
    try:
        yield from records
    except PacelineError as error:
        on_problem(HistoryError(str(error)))
