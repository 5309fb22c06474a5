"""What was measured so far, on the disk, until the history has it: nothing is lost when pytest or a worker dies.

A journal lies beside the database (`benchmark.db.<session>.jsonl`). Its first line has the session and where it ran;
each further one has a test that started, one that ended without a record, or a record. A run that ends well removes its
journal. One that is left is taken in by the next run with the same database.
"""

import glob
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError
from paceline.history.urls import parse_target
from paceline.model import Case, Record, Status
from paceline.pytest_plugin.recording import names_of
from paceline.record.codec import dump, from_json
from paceline.record.files import JsonLines, lock_file, read_lines
from paceline.record.redact import mask_urls

FORMAT = "paceline pytest journal"
SUFFIX = ".jsonl"
LOST = "the process ended while the test was running"


class Journal:
    """Lines of one run of pytest, as far as a disk takes them, in a file that is locked by it."""

    def __init__(self, candidates: Iterable[Path], header: Mapping[str, Any]) -> None:
        self.path: Path | None = None
        self._lines: JsonLines | None = None
        for path in candidates:
            with suppress(OSError):
                path.touch(mode=0o644, exist_ok=False)
                self._lines, self.path = JsonLines(path, alone=True), path
                break
        self.write(dump({"format": FORMAT, "schema": 1, **header}))

    def write(self, line: bytes) -> None:
        """Add a line; a full disk ends the file, not the run."""
        if self._lines is not None:
            try:
                self._lines.write(line)
            except OSError:
                self.close()

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    def remove(self) -> None:
        self.close()
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()


def candidates(database: str, directory: Path, session_id: str) -> Iterator[Path]:
    """Where a journal may lie: beside the database, where pytest was started, where temporary files are."""
    for base in _bases(database, directory):
        yield base.with_name(f"{base.name}.{session_id}{SUFFIX}")


def abandoned(database: str, directory: Path) -> Iterator[tuple[Path, dict[str, Any], list[dict[str, Any]]]]:
    """Journals of runs that ended before this database had taken them in: path, header, entries."""
    for base in _bases(database, directory):
        for path in sorted(base.parent.glob(f"{glob.escape(base.name)}.*{SUFFIX}")):
            if not _is_in_use(path):
                with suppress(OSError, ValueError):
                    header, *entries = read_lines(path)
                    if header.get("format") == FORMAT and header.get("database") == shown(database):
                        yield path, header, entries


def shown(database: str) -> str:
    """The database without a password."""
    try:
        return str(parse_target(database))
    except PacelineError:
        return str(mask_urls(database))


def _bases(database: str, directory: Path) -> Iterator[Path]:
    with suppress(PacelineError):
        target = parse_target(database)
        if target.path is not None:
            yield target.path
    yield directory / "benchmark"
    yield Path(tempfile.gettempdir(), f"paceline-{os.getuid()}-benchmark")


def _is_in_use(path: Path) -> bool:
    try:
        fd = lock_file(path, shared=True, optional=True)
    except OSError:
        return True
    try:
        return os.fstat(fd).st_uid != os.getuid()  # What others left where all may write is not ours.
    finally:
        os.close(fd)


def end_of(start: Mapping[str, Any], status: Status, reason: str, error: str) -> dict[str, Any]:
    """The entry for a test that started with that entry, and of which no record will come."""
    name = start["started"]["name"]
    return {"ended": {"name": name, "status": status.value, "reason": reason, "error": error}}


def records(entries: Iterable[Mapping[str, Any] | Record]) -> Iterator[Record]:
    """The records of a journal, numbered by attempt; a test that began and has no end was interrupted.

    They name no session, environment or revision: those are their session's, and the history has them from it.
    """
    attempts: Counter[str] = Counter()
    for record in _unnumbered(entries):
        key = record.case.key
        attempts[key] += 1
        yield record if attempts[key] == 1 else replace(record, attempt=attempts[key])


def _unnumbered(entries: Iterable[Mapping[str, Any] | Record]) -> Iterator[Record]:
    started: dict[str, Any] = {}
    for entry in entries:
        data: Any
        kind, data = ("record", entry) if isinstance(entry, Record) else _content(entry)
        if kind == "started":
            started[data["name"]] = data
        elif kind == "ended" and data["name"] in started:
            start = started.pop(data["name"])
            yield _unfinished(start, Status(data["status"]), data["reason"], data["error"])
        elif kind == "record":
            started.pop(data.case.name, None)
            yield data
    for start in started.values():
        yield _unfinished(start, Status.INTERRUPTED, LOST)


def _content(entry: Mapping[str, Any]) -> tuple[str, Any]:
    """What an entry is and holds; one of another shape is nothing."""
    if len(entry) != 1:
        return "", None
    ((kind, data),) = entry.items()
    return kind, from_json(data) if kind == "record" else data


def _unfinished(data: Mapping[str, Any], status: Status, reason: str, error: str = "") -> Record:
    case = Case(
        name=data["name"],
        entry=data["entry"],
        key=data["key"],
        params=data["params"],
        variant=data.get("variant"),
    )
    details = {**names_of(case, data["test_name"]), "setup_outcome": data["setup_outcome"], "error": error}
    return Record(
        session="",
        case=case,
        attempt=1,
        status=status,
        reason=reason,
        started_at=data["started_at"],
        details={name: value for name, value in details.items() if value},
    )
