"""A Ray cluster of an entry's own: started before it, ended after it, and no other touched."""

import importlib.util
import os
import shutil
import socket
import sys
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any, Self

from paceline.errors import MissingExtra
from paceline.record.redact import Redactor
from paceline.run.local.process import RUN_ID, Command, Usage
from paceline.run.ray.head import ClusterError, Head, Log
from paceline.run.ray.home import Home, sweep_stale
from paceline.run.ray.options import PURPOSES, daemon_env, script_env, start_flags
from paceline.run.ray.ports import reserve

__all__ = ["ClusterError", "RayCluster", "sweep_stale"]

START_TIMEOUT_S = 120.0
TRIES = 3
FOREVER_S = 1e9
MAX_PROCESSES = 1 << 20
CONNECT_TIMEOUT_S = 5.0


class RayCluster:
    """While entered, a cluster that a script reaches with `env`; afterwards nothing of it is left but its logs.

    `options` is an entry's `ray:`. With an `address` in it nothing is started: `env` leads to that cluster.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        directory: Path,
        environ: Mapping[str, str],
        *,
        cwd: str | None = None,
        redactor: Redactor | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._options = options
        self._directory = directory
        self._environ = environ
        self._cwd = cwd
        self._redactor = redactor or Redactor()
        self._stopping = stopping
        self._start_timeout_s = float(options.get("start_timeout_s") or START_TIMEOUT_S)
        self._head: Head | None = None
        self.env: Mapping[str, str] = {}
        self.timings_s: dict[str, float] = {}
        self.warnings: tuple[str, ...] = ()
        self.usage: Usage | None = None

    def __enter__(self) -> Self:
        begun = monotonic()
        try:
            if self._options.get("address"):
                self._join(str(self._options["address"]))
            else:
                self._start(begun + self._start_timeout_s)
        finally:
            self.timings_s["cluster_start"] = monotonic() - begun
        return self

    def __exit__(self, *_: object) -> None:
        begun = monotonic()
        head, self._head = self._head, None
        if head is not None:
            self._end(head, self._directory / "logs")
        self.timings_s["cluster_stop"] = monotonic() - begun

    def _join(self, address: str) -> None:
        """Use a running cluster; `auto` is the one the user's environment names, if it names one."""
        if address == "auto":
            address = self._environ.get("RAY_ADDRESS") or address
        host, colon, port = address.rpartition("://")[2].rpartition(":")
        if colon and port.isdecimal():
            try:
                socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
            except OSError as error:
                why = error.strerror or str(error)
                raise ClusterError(
                    f"no Ray cluster answers at {address}: {why}; check `ray.address`"
                ) from error
        self.env = {"RAY_ADDRESS": address}
        sizes = ("num_cpus", "num_gpus", "object_store_memory", "enable_object_spilling")
        unused = [name for name in sizes if self._options.get(name) is not None]
        if unused:
            self.warnings = (
                f"ray.{', ray.'.join(unused)} had no effect: the cluster at {address} was not ours",
            )

    def _start(self, deadline: float) -> None:
        """Start it, on other ports if somebody was quicker to take one."""
        command = ray_command(self._environ)
        sweep_stale(self._environ)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"cannot keep Ray's logs: {error.strerror}: {error.filename}") from error
        for number in range(1, TRIES + 1):
            head = self._prepared(command)
            share_s = (deadline - monotonic()) / (TRIES + 1 - number)
            try:
                head.start(deadline, self._stopping, share_s=share_s)
            except BaseException as error:
                taken = self._end(head, self._directory / f"failed-{number}")
                if not isinstance(error, ClusterError):
                    raise
                if not taken or number == TRIES or monotonic() >= deadline:
                    raise ClusterError(_explained(str(error), taken, number)) from None
            else:
                self._head, self.env = head, head.env
                return

    def _prepared(self, command: list[str]) -> Head:
        """All that a start needs, or none of it and why not."""
        try:
            with ExitStack() as undo:
                head = self._assembled(command, undo)
                undo.pop_all()
                return head
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise ClusterError(f"cannot start a Ray cluster: {error.strerror}{where}") from error
        except ValueError as error:
            raise ClusterError(f"cannot start a Ray cluster: {error}") from error

    def _assembled(self, command: list[str], undo: ExitStack) -> Head:
        run_id = uuid.uuid4().hex
        log = Log(self._directory / "ray_start.log", self._redactor)
        undo.callback(log.close)
        home = self._new_home(run_id)
        undo.callback(home.remove)
        ports = reserve(PURPOSES)
        undo.callback(ports.release)
        env = script_env(self._environ, home, ports, dashboard=bool(self._options.get("dashboard")))
        daemons = daemon_env(self._environ, env, ports, start_timeout_s=self._start_timeout_s)
        start = Command(
            argv=(*command, *start_flags(self._options, ports, home.ray_dir)),
            env={**daemons, RUN_ID: run_id},
            cwd=self._cwd,
            timeout_s=FOREVER_S,
            max_processes=MAX_PROCESSES,
        )
        return Head(start, home, ports, env, log)

    def _new_home(self, run_id: str) -> Home:
        try:
            return Home.create(self._environ, run_id)
        except OSError as error:
            raise ClusterError(
                f"cannot make a temporary directory for Ray: {error.strerror}: {error.filename}; "
                "set TMPDIR to a directory that you can write to"
            ) from error

    def _end(self, head: Head, logs: Path) -> list[int]:
        """End it, keep its logs, and make sure of the rest; the ports that others listen on."""
        notes, taken = head.stop(logs, self._redactor)
        self.usage = head.usage
        self.warnings = (*self.warnings, *notes)
        return taken


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


def _explained(message: str, taken: list[int], tries: int) -> str:
    """The message with what we know better than the log."""
    if not taken:
        return message
    ports = ", ".join(map(str, taken))
    return f"{message} (port {ports} is in use; {tries} tries)"
