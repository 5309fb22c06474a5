"""Importers: what other tools measured, as sessions and records; reading the same thing twice gives the same."""

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from paceline.errors import HistoryError
from paceline.history.importers.batch import OnProblem
from paceline.history.importers.document import complain
from paceline.history.importers.recognition import DATABASE, FORMATS, force, is_database, look, places
from paceline.history.session_info import Batch

__all__ = ["DATABASE", "FORMATS", "Batch", "OnProblem", "is_database", "read", "recognise"]

log = logging.getLogger(__name__)


def recognise(path: Path) -> str | None:
    """The name of the format that a file or directory has; of a directory of many, of the first that is known.

    `"paceline"` is a database of our own, which is merged rather than imported.
    """
    for place in places(path, lambda _: None):
        try:
            found = look(place)
        except HistoryError:
            continue
        if found is not None:
            return found.format
    return None


def check(path: Path, format: str = "auto") -> None:
    """Raise what can be known to be wrong before anything is read."""
    if format not in ("auto", *FORMATS):
        raise HistoryError(f"unknown format {format!r}; choose auto, {', '.join(FORMATS)}")
    if not os.access(path, os.F_OK):
        raise complain(path, "does not exist", "check the path")


def read(
    path: Path, format: str = "auto", *, revision: str = "", on_problem: OnProblem | None = None
) -> Iterator[Batch]:
    """All sessions in a file or under a directory.

    A fault in a file of its own is raised; in a directory it goes to `on_problem` (by default: to the log), and the
    rest is read. `revision` is what was measured, for tools that do not say.
    """
    check(path, format)
    say = on_problem or (lambda problem: log.warning("%s", problem))
    found = _read_one(path, format, say) if _is_one(path, format) else _read_many(path, format, say)
    for batch in found:
        yield _of_revision(batch, revision) if revision and not batch.session.revision else batch


def _is_one(path: Path, format: str) -> bool:
    """Whether a path is a file or a session, and no directory of many."""
    if not path.is_dir():
        return True
    found = look(path)
    return found is not None and format in ("auto", found.format)


def _read_one(path: Path, format: str, say: OnProblem) -> Iterator[Batch]:
    found = look(path) if format == "auto" else force(path, format)
    if found is None:
        raise complain(path, "is of no format that can be imported", f"known are {', '.join(FORMATS)}")
    yield from found.batches(say)


def _read_many(path: Path, format: str, say: OnProblem) -> Iterator[Batch]:
    good = bad = 0
    for place in places(path, say):
        try:
            found = look(place)
            if found is None or format not in ("auto", found.format) or found.format == DATABASE:
                continue
            for batch in found.batches(say):
                yield batch
                good += 1
        except HistoryError as problem:
            bad += 1
            say(problem)
    if not good:
        wanted = "can be imported" if format == "auto" else f"is of the format {format}"
        what = f"nothing in it {wanted}" + (f", and {bad} of its files are damaged" if bad else "")
        raise complain(path, what, f"known formats are {', '.join(FORMATS)}")


def _of_revision(batch: Batch, revision: str) -> Batch:
    records = (record if record.revision else replace(record, revision=revision) for record in batch.records)
    return replace(batch, session=replace(batch.session, revision=revision), records=tuple(records))
