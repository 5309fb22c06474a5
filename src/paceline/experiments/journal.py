"""The files of an experiment's directory: what it decided and saw, in order, and its report.

A later process goes on where the journal ends.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from paceline.errors import SessionError
from paceline.record.codec import dump, load
from paceline.record.events import utc_now
from paceline.record.files import JsonLines, write_atomic

FILE = "journal.jsonl"

Entry = Mapping[str, Any]


class Journal:
    """An append-only file of JSON lines, each on the disk before `append` returns; one process at a time has it.

    A line that was being written when its process was killed is taken away: what it says has not happened. `entries`
    are all lines so far; each has `time` and `kind`.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE
        self._lines = JsonLines(self.path, durable=True, cut=True, alone=True)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self.entries = self._read(self._lines.open())
        except BlockingIOError:
            raise SessionError(
                f"another process works on {directory}: wait for it, end it, or give another --out"
            ) from None
        except OSError as error:
            raise SessionError(
                f"cannot write the experiment's files: {self.path}: {error.strerror or error}"
            ) from error

    def _read(self, fd: int) -> list[Entry]:
        lines = self.path.read_bytes().splitlines(keepends=True)
        entries: list[Entry] = []
        for line in lines:
            try:
                entry = load(line)
            except ValueError:
                entry = None
            if not isinstance(entry, dict) or "kind" not in entry:
                break
            entries.append(entry)
        good = len(b"".join(lines[: len(entries)]))
        if len(lines) > len(entries) + 1:
            raise SessionError(
                f"{self.path} is damaged after byte {good}: repair that line, or begin anew with another --out"
            )
        os.ftruncate(fd, good)
        return entries

    def of(self, kind: str) -> Iterator[Entry]:
        """The lines of one kind."""
        return (entry for entry in self.entries if entry["kind"] == kind)

    def append(self, kind: str, **fields: Any) -> Entry:
        """Add a line and wait until it is on the disk."""
        data = {"time": utc_now(), "kind": kind, **fields}
        self._lines.append(data)
        entry: Entry = load(dump(data))  # as a later process reads it
        self.entries.append(entry)
        return entry

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._lines.close()


def write_report(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of an experiment's report, each whole or not at all."""
    try:
        for name, data in files.items():
            write_atomic(directory / name, data)
    except OSError as error:
        raise SessionError(f"cannot write the report: {directory}: {error.strerror or error}") from error
