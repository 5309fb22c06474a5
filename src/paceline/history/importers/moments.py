"""Times as other tools write them, made the one form all our files have: UTC, ISO 8601, milliseconds."""

from datetime import UTC, datetime
from pathlib import Path


def from_text(text: str) -> str:
    """The time in an ISO 8601 text, taken as UTC if it names no zone; empty if it is none."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return _written(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return ""


def from_epoch(seconds: float) -> str:
    """The time so many seconds after 1970; empty if there is no such time."""
    try:
        return _written(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def of_file(path: Path) -> str:
    """When a file was last changed: the best that is known where a tool writes no time."""
    try:
        return from_epoch(path.stat().st_mtime)
    except OSError:
        return ""


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
