"""What an experiment decided and saw, in order: whoever goes on with it begins where the journal ends."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from paceline.errors import SessionError
from paceline.record.atomic import write_all
from paceline.record.codec import dump, load
from paceline.record.events import utc_now

FILE = "journal.jsonl"


class Journal:
    """An append-only file of JSON lines, each on the disk before `append` returns; one process at a time has it.

    A line that was being written when its process was killed is taken away: what it told of has not happened.
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
        self._lock(directory)
        self._entries = self._read()
        _sync_directory(directory)

    @property
    def entries(self) -> tuple[Mapping[str, Any], ...]:
        """All lines so far; each has `time` and `kind`."""
        return tuple(self._entries)

    def of(self, kind: str) -> Iterator[Mapping[str, Any]]:
        """The lines of one kind."""
        return (entry for entry in self._entries if entry["kind"] == kind)

    def append(self, kind: str, **fields: Any) -> Mapping[str, Any]:
        """Add a line and wait until it is on the disk."""
        line = dump({"time": utc_now(), "kind": kind, **fields})
        write_all(self._fd, line + b"\n")
        os.fsync(self._fd)
        entry: Mapping[str, Any] = load(line)
        self._entries.append(entry)
        return entry

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self, directory: Path) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise SessionError(
                f"another process works on {directory}: wait for it, end it, or give another --out"
            ) from None

    def _read(self) -> list[Mapping[str, Any]]:
        entries: list[Mapping[str, Any]] = []
        good = 0
        for line in self.path.read_bytes().splitlines(keepends=True):
            entry = _parse(line)
            if entry is None:
                break
            entries.append(entry)
            good += len(line)
        if self.path.stat().st_size > good:
            self._drop_torn(good)
        return entries

    def _drop_torn(self, good: int) -> None:
        rest = self.path.read_bytes()[good:]
        if b"\n" in rest.rstrip(b"\n"):
            raise SessionError(
                f"{self.path} is damaged after byte {good}: mend that line, or begin anew with another --out"
            )
        os.ftruncate(self._fd, good)


def _parse(line: bytes) -> Mapping[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        entry = load(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and "kind" in entry else None


def _sync_directory(directory: Path) -> None:
    """Make the file's name as lasting as its lines."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
