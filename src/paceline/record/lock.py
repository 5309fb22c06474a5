"""Who runs a session: its lock, and the marks by which commands are found whose runner was killed."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import ENOLCK, EOPNOTSUPP
from pathlib import Path
from typing import Any

from paceline.errors import SessionError
from paceline.record import below, codec
from paceline.record.events import RUN_ENDED, RUN_STARTED
from paceline.record.files import RUNNER, read_lines
from paceline.record.layout import EVENTS, LOCK

_MAX_LOCK_BYTES = 1 << 16


class SessionLock:
    """Keeps other runners out of a session for as long as this process lives."""

    def __init__(self, session_dir: Path) -> None:
        self._session_dir = session_dir
        self._fd: int | None = None

    def take(self) -> bool:
        """Lock the session and name its owner; False if this object holds it already."""
        if self._fd is not None:
            return False
        fd = _open_lock(self._session_dir)
        if _try_lock(fd) is False:
            os.close(fd)
            raise _locked(self._session_dir)
        owner = codec.dump({"pid": os.getpid(), "host": socket.gethostname(), "runner": RUNNER})
        os.ftruncate(fd, os.pwrite(fd, owner, 0))
        self._fd = fd
        return True

    def release(self) -> None:
        """Let others in, and leave a lock file that says all ended well."""
        if self._fd is not None:
            with suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None


def is_running(session_dir: Path) -> bool:
    """Whether a runner is at work in a session now; asks in a way that keeps no runner out."""
    if not _read_small(session_dir / LOCK):
        return False
    try:
        fd = below.open_below(session_dir, LOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (ENOLCK, EOPNOTSUPP)
    finally:
        os.close(fd)
    return False


def stale_run_ids(session_dir: Path) -> list[str]:
    """The marks of commands that a runner, now dead, had started and did not see end."""
    if not _was_abandoned(session_dir):
        return []
    running: dict[str, None] = {}
    for event in read_lines(session_dir / EVENTS):
        if event.get("event") == RUN_STARTED:
            running[str(event.get("run_id"))] = None
        elif event.get("event") == RUN_ENDED:
            running.pop(str(event.get("run_id")), None)
    return list(running)


def clear_stale(session_dir: Path) -> None:
    """Forget the dead runner, once the processes of `stale_run_ids` are gone; the session does not become newer."""
    if not _was_abandoned(session_dir):
        return
    with unchanged_time(session_dir):
        fd = _open_lock(session_dir)
        if _try_lock(fd):  # Else a runner took the session up just now, and its name must stay.
            os.ftruncate(fd, 0)
        os.close(fd)


@contextmanager
def unchanged_time(session_dir: Path) -> Iterator[None]:
    """Leaves the time of a session's lock as it was: by it the newest session is known."""
    with suppress(OSError):
        status = (session_dir / LOCK).stat()
        try:
            yield
        finally:
            with suppress(OSError):
                os.utime(session_dir / LOCK, ns=(status.st_atime_ns, status.st_mtime_ns))
        return
    yield


def _was_abandoned(session_dir: Path) -> bool:
    """Whether a runner has died in this session: it is named in the lock file and does not hold it."""
    owner = _read_small(session_dir / LOCK)
    if not owner or owner.get("runner") == RUNNER:
        return False
    try:
        fd = os.open(session_dir / LOCK, os.O_RDWR)
    except OSError:  # Somebody else's session that we may only read.
        return False
    try:
        return _try_lock(fd) is True
    finally:
        os.close(fd)


def _open_lock(session_dir: Path) -> int:
    try:
        return os.open(session_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise SessionError(f"cannot lock the session {session_dir}: {error.strerror or error}") from error


def _try_lock(fd: int) -> bool | None:
    """Whether the lock is ours now; None on a file system that has no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return None if error.errno in (ENOLCK, EOPNOTSUPP) else False
    return True


def _locked(session_dir: Path) -> SessionError:
    who = describe(_read_small(session_dir / LOCK))
    return SessionError(f"session {session_dir.name} is being run by {who}: wait for it, or end it first")


def describe(owner: Mapping[str, Any]) -> str:
    """The holder of a lock, in a sentence."""
    return f"process {owner['pid']} on {owner.get('host')}" if "pid" in owner else "another process"


def is_dead(owner: Mapping[str, Any]) -> bool:
    """Whether the holder of a lock that others see, too, ran on this machine and its process is gone."""
    here, pid = owner.get("machine"), owner.get("pid")
    if not here or here != machine() or not isinstance(pid, int):
        return False
    return process_started(pid) != owner.get("process_started")


def machine() -> str:
    """Names this boot of this machine and, in it, the container: where process numbers mean the same."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return ""


def process_started(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty if it is gone or only waits to be collected."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    return ""


def _read_small(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(below.read(path.parent, path.name, _MAX_LOCK_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
