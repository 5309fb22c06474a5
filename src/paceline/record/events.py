"""The journal of a session: one JSON line for each thing that happened, in the order it happened."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paceline.record.codec import dump_plain, load, plain
from paceline.record.masking import mask_event
from paceline.record.redact import Redactor

SESSION_STARTED, SESSION_FINISHED = "session_started", "session_finished"
RUN_STARTED, RUN_ENDED = "run_started", "run_ended"
"""Around every command, with the mark that its processes carry: what a killed runner left is found by these."""


def utc_now() -> str:
    """The time as all our files have it: UTC, ISO 8601, milliseconds."""
    return iso_time(datetime.now(UTC))


def iso_time(moment: datetime) -> str:
    """A moment of UTC as all our files have it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class EventLog:
    """Appends events to a file; a full disk or a lost one costs events, never the run."""

    def __init__(self, path: Path, redactor: Redactor | None = None) -> None:
        self._path = path
        self._redactor = redactor or Redactor()
        self._fd: int | None = None
        self._torn = False

    def write(self, kind: str, **fields: Any) -> bool:
        """Append one event by a single system call; False if the disk did not take it."""
        event = {"time": utc_now(), "event": kind, **mask_event(plain(fields), self._redactor)}
        line = dump_plain(event) + b"\n"
        if self._torn:
            line = b"\n" + line
        try:
            fd = self._fd if self._fd is not None else self._open()
            self._torn = os.write(fd, line) != len(line)
        except OSError:
            return False
        return not self._torn

    def _open(self) -> int:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        self._fd = fd
        end_torn_line(fd)
        return fd

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> "EventLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def end_torn_line(fd: int) -> None:
    """Begin a new line if the file ends within one: a runner was killed while it wrote."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        os.write(fd, b"\n")


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a journal; torn lines are left out."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            try:
                event = load(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def first_start(path: Path) -> dict[str, Any]:
    """The event that a session began with: by its time the session is known, wherever its directory is now."""
    return next((event for event in read_events(path) if event.get("event") == SESSION_STARTED), {})


def session_events(path: Path) -> list[dict[str, Any]]:
    """The events that tell of the session as a whole: each start of it, and each end that was seen."""
    return [event for event in read_events(path) if str(event.get("event")).startswith("session_")]
