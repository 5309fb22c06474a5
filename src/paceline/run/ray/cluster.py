"""A Ray cluster of an entry's own: started before it, ended after it, and no other touched."""

import importlib.util
import os
import re
import shlex
import shutil
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic
from typing import Any, Self

from paceline.errors import MissingExtra
from paceline.record.redact import Redactor
from paceline.run.local import tree
from paceline.run.local.process import RUN_ID, Command, Exit, Stream, Warden
from paceline.run.ray.home import ClusterError, Home, knock, sweep_stale
from paceline.run.ray.ports import PURPOSES, daemon_env, reserve, script_env, start_flags

__all__ = ["ClusterError", "RayCluster"]

START_TIMEOUT_S = 120.0
TRIES = 3
FOREVER_S = 1e9
MAX_PROCESSES = 1 << 20
READY = b"Ray runtime started"  # printed when its node is registered, which is when work can be given to it
NO_RAY = 86
# As `-m ray.scripts.scripts`, but a `ray.py` in the current directory is not Ray; `-P` is not known to older Pythons.
START = f"""\
import sys
sys.path[:] = [path for path in sys.path if path]
from importlib.util import find_spec
spec = find_spec("ray")
if spec is None or not spec.origin:
    sys.exit({NO_RAY})
import runpy
runpy.run_module("ray.scripts.scripts", run_name="__main__", alter_sys=True)
"""
TAIL_LINES = 2
TAIL_LINE_CHARS = 300
TAIL_BYTES = 8192
POLL_S = 0.02
LOOK_S = 1.0
END_WAIT_S = 60.0

_STAMP = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+\t[A-Z]+ \S+ -- ")


class RayCluster:
    """While entered, a cluster that a script reaches with `env`; afterwards nothing of it is left but its logs.

    `options` is an entry's `ray:`. With an `address` in it nothing is started: `env` leads to that cluster. `python` is
    the entry's own, which starts the cluster, since its workers run the same.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        directory: Path,
        environ: Mapping[str, str],
        *,
        cwd: str | None = None,
        python: Sequence[str] = (),
        redactor: Redactor | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.options = options
        self.directory = directory
        self.environ = environ
        self.cwd = cwd
        self.python = python
        self.redactor = redactor or Redactor()
        self.stopping = stopping
        self.start_timeout_s = float(options.get("start_timeout_s") or START_TIMEOUT_S)
        self._head: Head | None = None
        self.env: Mapping[str, str] = {}
        self.timings_s: dict[str, float] = {}
        self.warnings: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        begun = monotonic()
        try:
            if self.options.get("address"):
                self._join(str(self.options["address"]))
            else:
                self._start(begun + self.start_timeout_s)
        finally:
            self.timings_s["cluster_start"] = monotonic() - begun
        return self

    def __exit__(self, *_: object) -> None:
        begun = monotonic()
        head, self._head = self._head, None
        if head is not None:
            head.stop(self.directory / "logs")
        self.timings_s["cluster_stop"] = monotonic() - begun

    def _join(self, address: str) -> None:
        """Use a running cluster; `auto` is the one the user's environment names, if it names one."""
        if address == "auto":
            address = self.environ.get("RAY_ADDRESS") or address
        knock(address, hint="check `ray.address`")
        self.env = {"RAY_ADDRESS": address}
        sizes = ("num_cpus", "num_gpus", "object_store_memory", "enable_object_spilling")
        unused = [name for name in sizes if self.options.get(name) is not None]
        if unused:
            self.warnings = (
                f"ray.{', ray.'.join(unused)} had no effect: the cluster at {address} was not ours",
            )

    def _start(self, deadline: float) -> None:
        """Start it, on other ports if somebody was quicker to take one."""
        command = [*self.python, "-u", "-c", START, "start"] if self.python else ray_command(self.environ)
        sweep_stale(self.environ)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"cannot keep Ray's logs: {error.strerror}: {error.filename}") from error
        for number in range(1, TRIES + 1):
            try:
                head = Head(self, command)
            except OSError as error:
                where = f": {error.filename}" if error.filename else ""
                raise ClusterError(f"cannot start a Ray cluster: {error.strerror}{where}") from error
            except ValueError as error:
                raise ClusterError(f"cannot start a Ray cluster: {error}") from error
            share_s = (deadline - monotonic()) / (TRIES + 1 - number)
            try:
                head.start(deadline, share_s)
            except BaseException as error:
                taken = head.stop(self.directory / f"failed-{number}")
                if not isinstance(error, ClusterError) or not taken:
                    raise
                if number == TRIES or monotonic() >= deadline:
                    ports = ", ".join(map(str, taken))
                    raise ClusterError(f"{error} (port {ports} is in use; {number} tries)") from None
            else:
                self._head, self.env = head, head.env
                return


class Head:
    """The one node of a cluster: `ray start` and all that it starts, under a warden of its own."""

    def __init__(self, cluster: RayCluster, program: list[str]) -> None:
        """All that a start needs, or none of it and why not."""
        self._cluster = cluster
        self._streams = {"stdout": cluster.redactor.stream(), "stderr": cluster.redactor.stream()}
        self._log_end = b""
        self._seen = b""
        self._ready = False
        self._stopped = False
        self._exit: Exit | None = None
        self._run_id = uuid.uuid4().hex
        with ExitStack() as undo:
            self._home = Home.create(cluster.environ, self._run_id)
            undo.callback(self._home.remove)
            self._ports = reserve(PURPOSES)
            undo.callback(self._ports.release)
            dashboard = cluster.options.get("dashboard") is not False
            self.env = script_env(cluster.environ, self._home, self._ports, dashboard=dashboard)
            timeout_s = cluster.start_timeout_s
            daemons = daemon_env(cluster.environ, self.env, self._ports, start_timeout_s=timeout_s)
            self._command = Command(
                argv=(*program, *start_flags(cluster.options, self._ports, self._home.ray_dir)),
                # What its processes have in temporary directories, as the dashboard does, goes with the home.
                env={**daemons, RUN_ID: self._run_id, "TMPDIR": str(self._home.path)},
                cwd=cluster.cwd,
                timeout_s=FOREVER_S,
                max_processes=MAX_PROCESSES,
            )
            self._log = (cluster.directory / "ray_start.log").open("ab", buffering=0)
            undo.pop_all()
        self._warden = Warden()
        self._thread = threading.Thread(target=self._run, name="ray-cluster", daemon=True)

    def start(self, deadline: float, share_s: float) -> None:
        """Start it and wait until work can be given to it.

        A start that is not up after its share of the time is given up as soon as one of its ports turns out to be
        somebody else's: Ray may wait for ever for a process of its own that could not have the port.
        """
        begun = monotonic()
        look_at = begun + share_s
        self._thread.start()
        while not self._ready:
            if self._exit is not None:
                if self._exit.returncode == NO_RAY and self._cluster.python:
                    python = shlex.join(self._cluster.python)
                    raise ClusterError(
                        f"the entry's interpreter has no Ray: {python}; install it there: {python} -m pip install ray"
                    )
                raise ClusterError(f"Ray did not start: {self._exit.message or 'it ended'}{self._log_tail()}")
            is_taken = self._home.names_taken_port()
            if monotonic() >= look_at:
                look_at = monotonic() + LOOK_S
                ours = tree.marked_by(self._run_id)
                is_taken = is_taken or bool(self._ports.held_by_others(ours))
            if is_taken:
                raise ClusterError("Ray did not start: another program was quicker to take its port")
            if self._cluster.stopping():
                raise ClusterError("stopped while its Ray cluster was starting")
            if monotonic() >= deadline:
                waited_s = monotonic() - begun
                raise ClusterError(
                    f"Ray did not start within {waited_s:.0f} s (`start_timeout_s`){self._log_tail()}"
                )
            self._thread.join(POLL_S)

    def stop(self, logs: Path) -> list[int]:
        """End every process, keep the logs, remove the rest, and warn of what is left; the ports others listen on."""
        notes = []
        if self._ready and self._exit is not None:
            notes.append(
                f"the Ray cluster ended before the script did: {self._exit.message}{self._log_tail()}"
            )
        self._stopped = True
        self._warden.stop(now=True)
        if self._thread.ident is not None:
            self._thread.join(END_WAIT_S)
        with suppress(OSError):
            self._warden.close()
        if self._exit is not None and self._exit.reason == "stopped":
            notes += [f"a process of the Ray cluster is left: {text}" for text in self._exit.leftovers]
        if strays := tree.sweep([self._run_id]):
            pids = ", ".join(map(str, strays))
            notes.append(f"processes of the Ray cluster had got away and were ended: {pids}")
        taken = self._ports.taken()
        if taken and self._ready:
            notes.append(f"still in use after the Ray cluster ended: port {', '.join(map(str, taken))}")
        self._home.remove_semaphores()
        try:
            self._home.keep_logs(logs, self._cluster.redactor)
        except OSError as error:
            notes.append(f"Ray's logs could not be kept: {error}")
        if left := self._home.remove():
            notes.append(f"could not be removed after the Ray cluster ended: {left}")
        self._ports.release()
        for stream in self._streams.values():
            with suppress(OSError):
                self._log.write(stream.flush())
        self._log.close()
        self._cluster.warnings += tuple(notes)
        return taken

    def _run(self) -> None:
        try:
            self._exit = self._warden.run(self._command, self._on_output, cancelled=lambda: self._stopped)
        except OSError as error:
            self._exit = Exit(returncode=None, reason="launch_error", message=str(error))

    def _on_output(self, stream: Stream, chunk: bytes) -> None:
        """Keep what `ray start` prints, with secrets masked; as it came, it says when the cluster is ready."""
        data = self._streams[stream].feed(chunk)
        self._log_end = (self._log_end + data)[-TAIL_BYTES:]
        with suppress(OSError, ValueError):  # a full disk, or closed: nobody could be told more than this
            self._log.write(data)
        if not self._ready:
            self._seen = (self._seen + chunk)[-TAIL_BYTES:]
            self._ready = READY in self._seen

    def _log_tail(self) -> str:
        """The log's last lines without the inside of tracebacks, and without chatter if there is anything else."""
        lines = [line for line in self._log_end.decode("utf-8", "replace").splitlines() if line.strip(" -")]
        outer = [line for line in lines if not line.startswith((" ", "Traceback"))]
        telling = [line for line in outer if "\tINFO " not in line] or outer
        tail = " | ".join(_STAMP.sub("", line)[:TAIL_LINE_CHARS] for line in telling[-TAIL_LINES:])
        return f"; its log ends: {tail}" if tail else ""


def ray_command(environ: Mapping[str, str]) -> list[str]:
    """How to run `ray start`: from our own environment if Ray is there, else from the user's PATH."""
    found = importlib.util.find_spec("ray")
    if found is not None and found.origin:  # a mere directory named `ray` has none
        # -P: a `ray.py` in the current directory is not Ray. -u: the line that says it is ready must not wait.
        return [sys.executable, "-u", "-P", "-m", "ray.scripts.scripts", "start"]
    program = shutil.which("ray", path=environ.get("PATH", os.defpath))
    if program is None:
        raise ClusterError(str(MissingExtra("an entry with `ray:`", "ray")))
    return [program, "start"]
