"""The files of an experiment's directory: what it decided and saw, in order, and its report.

A later process goes on where the journal ends.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from paceline.errors import SessionError
from paceline.record.atomic import write_all, write_atomic
from paceline.record.codec import dump, load
from paceline.record.events import utc_now

FILE = "journal.jsonl"

Entry = Mapping[str, Any]


class Journal:
    """An append-only file of JSON lines, each on the disk before `append` returns; one process at a time has it.

    A line that was being written when its process was killed is taken away: what it says has not happened.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise SessionError(
                f"cannot write the experiment's files: {self.path}: {error.strerror or error}"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise SessionError(
                f"another process works on {directory}: wait for it, end it, or give another --out"
            ) from None
        self._entries, good = read_entries(self.path)
        rest = self.path.read_bytes()[good:]
        if b"\n" in rest.rstrip(b"\n"):
            raise SessionError(
                f"{self.path} is damaged after byte {good}: repair that line, or begin anew with another --out"
            )
        os.ftruncate(self._fd, good)
        # The file's name is to last as long as its lines.
        parent = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All lines so far; each has `time` and `kind`."""
        return tuple(self._entries)

    def of(self, kind: str) -> Iterator[Entry]:
        """The lines of one kind."""
        return (entry for entry in self._entries if entry["kind"] == kind)

    def append(self, kind: str, **fields: Any) -> Entry:
        """Add a line and wait until it is on the disk."""
        line = dump({"time": utc_now(), "kind": kind, **fields})
        write_all(self._fd, line + b"\n")
        os.fsync(self._fd)
        entry: Entry = load(line)
        self._entries.append(entry)
        return entry

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)


def read_entries(path: Path) -> tuple[list[Entry], int]:
    """The lines of a journal up to the first that is not whole, and how many bytes they are."""
    entries: list[Entry] = []
    good = 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            entry = load(line)
        except ValueError:
            break
        if not line.endswith(b"\n") or not isinstance(entry, dict) or "kind" not in entry:
            break
        entries.append(entry)
        good += len(line)
    return entries, good


def write_report(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of an experiment's report, each whole or not at all."""
    try:
        for name, data in files.items():
            write_atomic(directory / name, data)
    except OSError as error:
        raise SessionError(f"cannot write the report: {directory}: {error.strerror or error}") from error
