"""Worker processes on this machine: each with its keeper, its log, its own environment, and one socket to the parent.

Messages are JSON lines, so that nothing a worker says is ever executed.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from paceline.plugins import boot_code, python_command
from paceline.record.codec import dump_plain, load

_BOOT = boot_code("paceline.run.local.keeper:main")
_TAIL_BYTES = 4000
_READ_BYTES = 1 << 16


class Wire:
    """Messages over a stream socket."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._buffer = b""
        self.closed = False

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Mapping[str, Any]) -> bool:
        """Hand a message of plain data over; False if the other side is gone."""
        try:
            self.socket.sendall(dump_plain(message) + b"\n")
        except OSError:
            self.closed = True
            return False
        return True

    def receive(self) -> list[dict[str, Any]]:
        """All whole messages that are there; waits for some if the socket blocks. `closed` is set at the end."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.closed = True
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        messages = [load(line) for line in lines if line]
        return [message for message in messages if isinstance(message, dict)]

    def close(self) -> None:
        self.closed = True
        self.socket.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Berth:
    """What a new worker is to have: its environment, and its share of a GPU (0 for none)."""

    environment: Mapping[str, str]
    gpu_share: float = 0.0


class WorkerProcess(Protocol):
    """A worker as its launcher made it; the supervisor knows no more of it than this."""

    wire: Wire

    @property
    def is_waiting(self) -> bool:
        """Whether it still waits for a place to run, which is never its fault."""

    def returncode(self, timeout_s: float) -> int | None:
        """How it ended, once its wire is closed; a negative number is a signal."""

    def end(self) -> None:
        """End it with all that it started, at once; returns before it is gone."""

    def end_hard(self) -> None:
        """The same by other means, when `end` did not help."""

    def mark_log(self) -> None:
        """What is logged from now on belongs to the next attempt."""

    def log_tail(self) -> str:
        """The last lines of the current attempt."""

    def close(self) -> None:
        """Forget it; it is gone."""


class Launcher(Protocol):
    """Starts workers: here, or on other machines."""

    def start(self, number: int, berth: Berth) -> WorkerProcess:
        """A new worker; raises OSError if none can be started."""

    def close(self) -> None: ...


class LocalLauncher:
    """Starts workers on this machine."""

    def __init__(self, log_dir: Path, secret_names: Sequence[str] = ()) -> None:
        self._log_dir = log_dir
        self._secret_names = secret_names
        log_dir.mkdir(parents=True, exist_ok=True)

    def start(self, number: int, berth: Berth) -> "LocalWorker":
        log = self._log_dir / f"worker-{number}.log"
        return LocalWorker(log, berth.environment, self._secret_names)

    def close(self) -> None:
        """Nothing is shared between workers here."""


def start_process(
    log: Path,
    environment: Mapping[str, str],
    wire_fd: int,
    life_fd: int,
    *,
    paths: Sequence[str],
    secret_names: Sequence[str],
    sheltered: bool = False,
) -> "subprocess.Popen[bytes]":
    """A keeper with its worker, which talks over `wire_fd` and lives no longer than the pipe at `life_fd`.

    Values of variables with the name of a secret, and of `secret_names`, are masked in the log.
    """
    fds = (str(wire_fd), str(life_fd))
    words = (*fds, ",".join(secret_names), "sheltered" if sheltered else "", *filter(None, paths))
    with log.open("ab") as output:
        return subprocess.Popen(
            python_command(_BOOT, "paceline.evals.worker:main", *words, flags=()),
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[wire_fd, life_fd],
            start_new_session=True,
        )


class WorkerLog:
    """What a worker printed; the last of it belongs to the current attempt."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marked = 0

    def mark(self) -> None:
        self._marked = self._path.stat().st_size if self._path.exists() else 0

    def tail(self) -> str:
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._marked, size - _TAIL_BYTES))
                return file.read(_TAIL_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


class LocalWorker:
    """A keeper process, the worker below it, and both ends of what connects them with us."""

    is_waiting = False

    def __init__(self, log: Path, environment: Mapping[str, str], secret_names: Sequence[str]) -> None:
        self._log = WorkerLog(log)
        ours, theirs = socket.socketpair()
        life_theirs, self._life = os.pipe()
        try:
            fds = theirs.fileno(), life_theirs
            self._process = start_process(log, environment, *fds, paths=sys.path, secret_names=secret_names)
        except BaseException:
            ours.close()
            os.close(self._life)
            raise
        finally:
            theirs.close()
            os.close(life_theirs)
        self.wire = Wire(ours)

    def returncode(self, timeout_s: float) -> int | None:
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        if self._life >= 0:
            os.close(self._life)
            self._life = -1

    def end_hard(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def mark_log(self) -> None:
        self._log.mark()

    def log_tail(self) -> str:
        return self._log.tail()

    def close(self) -> None:
        self.end()
        self.wire.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.0)
