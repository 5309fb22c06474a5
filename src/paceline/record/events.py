"""The journal of a session: one JSON line for each thing that happened, in the order it happened."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paceline.record.codec import plain
from paceline.record.files import JsonLines, read_lines
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
        self._lines = JsonLines(path)
        self._redactor = redactor or Redactor()

    def write(self, kind: str, **fields: Any) -> bool:
        """Append one event; False if the disk did not take it. It takes no lock: a signal handler may call it."""
        event = {"time": utc_now(), "event": kind, **mask_event(plain(fields), self._redactor)}
        try:
            self._lines.append(event)
        except OSError:
            return False
        return True

    def __enter__(self) -> "EventLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()


def first_start(path: Path) -> dict[str, Any]:
    """The event that a session began with: by its time the session is known, wherever its directory is now."""
    return next((event for event in read_lines(path) if event.get("event") == SESSION_STARTED), {})


def session_events(path: Path) -> list[dict[str, Any]]:
    """The events that tell of the session as a whole: each start of it, and each end that was seen."""
    return [event for event in read_lines(path) if str(event.get("event")).startswith("session_")]
