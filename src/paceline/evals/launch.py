"""Worker processes on this machine: each with its keeper, its socket, its log and its own environment."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import paceline
from paceline.evals.wire import Wire

_BOOT = """
import sys
sys.path.append(sys.argv[1])
from paceline.run.keeper import keep
def run():
    from paceline.evals.worker import main
    return main(int(sys.argv[2]), sys.argv[4:])
keep(run, int(sys.argv[3]), (int(sys.argv[2]),))
"""
_TAIL_BYTES = 4000


class WorkerProcess(Protocol):
    """A worker as its launcher made it; the supervisor knows no more of it than this."""

    wire: Wire

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

    def start(self, number: int, environment: Mapping[str, str]) -> WorkerProcess:
        """A new worker that sees this environment; raises OSError if none can be started."""

    def close(self) -> None: ...


class LocalLauncher:
    """Starts workers on this machine."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        log_dir.mkdir(parents=True, exist_ok=True)

    def start(self, number: int, environment: Mapping[str, str]) -> "LocalWorker":
        return LocalWorker(self._log_dir / f"worker-{number}.log", environment)

    def close(self) -> None:
        """Nothing is shared between workers here."""


class LocalWorker:
    """A keeper process, the worker below it, and both ends of what connects them with us."""

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        self._marked = 0
        ours, theirs = socket.socketpair()
        life_theirs, self._life = os.pipe()
        home = str(Path(paceline.__file__).parents[1])
        arguments = [home, str(theirs.fileno()), str(life_theirs), *(path for path in sys.path if path)]
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _BOOT, *arguments],
                    env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[theirs.fileno(), life_theirs],
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            os.close(self._life)
            raise
        finally:
            theirs.close()
            os.close(life_theirs)
        ours.setblocking(True)
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
        self._marked = self._log.stat().st_size

    def log_tail(self) -> str:
        with self._log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._marked, size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode("utf-8", "replace")

    def close(self) -> None:
        self.end()
        self.wire.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.0)
