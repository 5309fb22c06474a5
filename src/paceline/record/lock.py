"""Who runs a session: its lock, and the marks by which commands are found whose runner was killed."""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from paceline.errors import SessionError
from paceline.record import below, codec
from paceline.record.below import RUNNER
from paceline.record.events import RUN_ENDED, RUN_STARTED
from paceline.record.files import lock_file, read_lines
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
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "runner": RUNNER, "machine": machine()}
        fd = None
        try:
            fd = lock_file(self._session_dir / LOCK, optional=True)
            os.ftruncate(fd, os.pwrite(fd, codec.dump({**owner, "file": _file_id(os.fstat(fd))}), 0))
        except BlockingIOError:
            who = describe(_read_owner(self._session_dir))
            raise SessionError(
                f"session {self._session_dir.name} is being run by {who}: wait for it, or end it first"
            ) from None
        except OSError as error:
            if fd is not None:
                os.close(fd)
            raise SessionError(
                f"cannot lock the session {self._session_dir}: {error.strerror or error}"
            ) from error
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
    if not _read_owner(session_dir):
        return False
    try:
        os.close(lock_file(session_dir / LOCK, shared=True))
    except BlockingIOError:
        return True
    except OSError:  # Not there any more, not ours to read, or on a file system that has no locks.
        return False
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
    with unchanged_time(session_dir), suppress(BlockingIOError):
        # If a runner took the session up just now, its name must stay.
        fd = lock_file(session_dir / LOCK)
        os.ftruncate(fd, 0)
        os.close(fd)


@contextmanager
def unchanged_time(session_dir: Path) -> Iterator[None]:
    """Leaves the time of a session's lock as it was: by it the newest session is known."""
    try:
        status = (session_dir / LOCK).lstat()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            times = (status.st_atime_ns, status.st_mtime_ns)
            os.utime(session_dir / LOCK, ns=times, follow_symlinks=False)


def _was_abandoned(session_dir: Path) -> bool:
    """Whether a runner has died in this session on this machine: the lock file names it, and it does not hold it.

    A copy of a session's directory names a runner, too, which may be at work in the one that was copied.
    """
    owner = _read_owner(session_dir)
    if not owner or owner.get("runner") == RUNNER or not _ran_here(owner):
        return False
    try:
        fd = lock_file(session_dir / LOCK)
    except OSError:  # It runs, or is somebody else's that we may only read, or nothing can be locked there.
        return False
    is_copy = owner.get("file", _file_id(os.fstat(fd))) != _file_id(os.fstat(fd))
    os.close(fd)
    return not is_copy


def _ran_here(owner: Mapping[str, Any]) -> bool:
    """Whether a lock's holder ran on this machine: by its name if an older release, which wrote no more, took it."""
    host = socket.gethostname()
    return bool(owner["machine"] == machine() if owner.get("machine") else owner.get("host", host) == host)


def _file_id(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino]


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


def _read_owner(session_dir: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(below.read(session_dir, LOCK, _MAX_LOCK_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
