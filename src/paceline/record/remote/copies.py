"""The copies on this machine of sessions that an object store keeps; old ones make room."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from paceline.errors import SessionError
from paceline.record.atomic import is_temporary
from paceline.record.directory import sessions
from paceline.record.layout import OUTBOX, names_in
from paceline.record.lock import SessionLock
from paceline.record.remote.ledger import Ledger

KEPT_COPIES = 5


def remove_old_copies(results_dir: Path, keep: int = KEPT_COPIES) -> list[Path]:
    """Remove all but the latest copies.

    One that has a file which the store has not, that is in use, or of which something waits for a sink, stays.
    """
    waiting = {*names_in(results_dir / OUTBOX)}
    return [path for path in sessions(results_dir)[keep:] if path.name not in waiting and _remove(path)]


def _remove(session_dir: Path) -> bool:
    # Looked at before it is locked, too: a lock that is taken makes a session the latest.
    if not _is_all_stored(session_dir):
        return False
    lock = SessionLock(session_dir)
    try:
        lock.take()
    except SessionError:
        return False
    try:
        if _is_all_stored(session_dir):
            shutil.rmtree(session_dir, ignore_errors=True)
    finally:
        lock.release()
    return not session_dir.exists()


def _is_all_stored(session_dir: Path) -> bool:
    ledger = Ledger(session_dir)
    try:
        return all(ledger.has(name, path.stat()) for name, path in _files(session_dir))
    except OSError:
        return False


def _files(session_dir: Path) -> Iterator[tuple[str, Path]]:
    """Every file but our own hidden ones: scratch data too, which no store has."""
    for directory, inner, names in os.walk(session_dir):
        inner[:] = [name for name in inner if name != OUTBOX]
        for name in names:
            path = Path(directory, name)
            is_own = is_temporary(name) or (name.startswith(".") and path.parent == session_dir)
            if not is_own and not path.is_symlink():
                yield path.relative_to(session_dir).as_posix(), path
