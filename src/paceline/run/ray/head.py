"""The one node of an entry's Ray cluster: `ray start` and all that it starts, under a warden of its own."""

import math
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic

from paceline.errors import PacelineError
from paceline.record.redact import Redactor
from paceline.run.local import leftovers
from paceline.run.local.process import RUN_ID, Command, Exit, Stream, Usage, Warden
from paceline.run.ray.home import Home
from paceline.run.ray.ports import Ports

READY = b"Ray runtime started"  # printed when its node is registered, which is when work can be given to it
TAIL_LINES = 2
TAIL_LINE_CHARS = 300
TAIL_BYTES = 8192
POLL_S = 0.02
LOOK_S = 1.0
END_WAIT_S = 60.0

_STAMP = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+\t[A-Z]+ \S+ -- ")


class ClusterError(PacelineError):
    """The cluster could not be had; the entry was not run."""


class Log:
    """The output of `ray start`, written with secrets masked, its end also kept."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._file = path.open("ab", buffering=0)
        self._streams = {"stdout": redactor.stream(), "stderr": redactor.stream()}
        self._end = b""

    def write(self, stream: Stream, chunk: bytes) -> None:
        data = self._streams[stream].feed(chunk)
        self._end = (self._end + data)[-TAIL_BYTES:]
        with suppress(OSError, ValueError):  # a full disk, or closed: nobody could be told more than this
            self._file.write(data)

    def tail(self) -> str:
        """Its last lines without the inside of tracebacks, and without chatter if there is anything else."""
        lines = [line for line in self._end.decode("utf-8", "replace").splitlines() if line.strip(" -")]
        outer = [line for line in lines if not line.startswith((" ", "Traceback"))]
        telling = [line for line in outer if "\tINFO " not in line] or outer
        return " | ".join(_STAMP.sub("", line)[:TAIL_LINE_CHARS] for line in telling[-TAIL_LINES:])

    def close(self) -> None:
        for stream in self._streams.values():
            with suppress(OSError):
                self._file.write(stream.flush())
        self._file.close()


class Head:
    """The one node of a cluster: `ray start` and all that it starts, under a warden of its own."""

    def __init__(self, command: Command, home: Home, ports: Ports, env: Mapping[str, str], log: Log) -> None:
        self._command = command
        self._home = home
        self._ports = ports
        self.env = env
        self._log = log
        self._warden = Warden()
        self._thread = threading.Thread(target=self._run, name="ray-cluster", daemon=True)
        self._ready = False
        self._stopped = False
        self._seen = b""
        self._exit: Exit | None = None

    @property
    def usage(self) -> Usage | None:
        return self._exit.usage if self._exit else None

    def start(self, deadline: float, stopping: Callable[[], bool], *, share_s: float = math.inf) -> None:
        """Start it and wait until work can be given to it.

        A start that is not up after its share of the time is given up as soon as one of its ports turns out to be
        somebody else's: Ray may wait for ever for a process of its own that could not have the port.
        """
        begun = monotonic()
        look_at = begun + share_s
        self._thread.start()
        while not self._ready:
            if self._exit is not None:
                raise ClusterError(f"Ray did not start: {self._exit.message or 'it ended'}{self._said()}")
            if self._home.names_taken_port():
                raise ClusterError("Ray did not start: another program was quicker to take its port")
            if monotonic() >= look_at:
                look_at = monotonic() + LOOK_S
                if self._ports.held_by_others(leftovers.marked_by(self._command.env[RUN_ID])):
                    raise ClusterError("Ray did not start: another program was quicker to take its port")
            if stopping():
                raise ClusterError("stopped while its Ray cluster was starting")
            if monotonic() >= deadline:
                waited_s = monotonic() - begun
                raise ClusterError(
                    f"Ray did not start within {waited_s:.0f} s (`start_timeout_s`){self._said()}"
                )
            self._thread.join(POLL_S)

    def stop(self, logs: Path, redactor: Redactor) -> tuple[list[str], list[int]]:
        """End every process, keep the logs, remove the rest; what is to be noted, and the ports others listen on."""
        notes = []
        if self._ready and self._exit is not None:
            notes.append(f"the Ray cluster ended before the script did: {self._exit.message}{self._said()}")
        self._stopped = True
        self._warden.stop(now=True)
        if self._thread.ident is not None:
            self._thread.join(END_WAIT_S)
        with suppress(OSError):
            self._warden.close()
        notes += self._survivors()
        taken = self._ports.taken()
        if taken and self._ready:
            notes.append(f"still in use after the Ray cluster ended: port {', '.join(map(str, taken))}")
        self._home.remove_semaphores()
        try:
            self._home.keep_logs(logs, redactor)
        except OSError as error:
            notes.append(f"Ray's logs could not be kept: {error}")
        left = self._home.remove()
        if left:
            notes.append(f"could not be removed after the Ray cluster ended: {left}")
        self._ports.release()
        self._log.close()
        return notes, taken

    def _survivors(self) -> list[str]:
        """Those the warden could not end, and those that got away from it."""
        ended = self._exit
        unended = ended.leftovers if ended is not None and ended.reason == "stopped" else ()
        strays = leftovers.sweep([self._command.env[RUN_ID]])
        notes = [f"a process of the Ray cluster is left: {text}" for text in unended]
        if strays:
            notes.append(
                f"processes of the Ray cluster had got away and were ended: {', '.join(map(str, strays))}"
            )
        return notes

    def _run(self) -> None:
        try:
            self._exit = self._warden.run(self._command, self._on_output, cancelled=lambda: self._stopped)
        except OSError as error:
            self._exit = Exit(returncode=None, reason="launch_error", message=str(error))

    def _on_output(self, stream: Stream, chunk: bytes) -> None:
        self._log.write(stream, chunk)
        if not self._ready:
            self._seen = (self._seen + chunk)[-TAIL_BYTES:]
            self._ready = READY in self._seen

    def _said(self) -> str:
        tail = self._log.tail()
        return f"; its log ends: {tail}" if tail else ""
