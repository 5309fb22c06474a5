"""`python -m paceline` from a process that has loaded it: a process of its own each time, without the loading.

Loading takes most of a second, and tests start hundreds of commands. One process a test process does it once and
forks: what it forks has its own directory, variables, streams and exit code, as if it had been started anew.
"""

import atexit
import functools
import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROGRAM = """
import gc, importlib, json, os, runpy, socket, struct, sys, time
import alembic.command, numpy, sqlalchemy.dialects.sqlite
from paceline.cli import COMMANDS
for name in (*COMMANDS.keys(), *%(modules)r):
    importlib.import_module(name if "." in name else f"paceline.cli.{name}")
link = socket.socket(fileno=int(sys.argv[1]))
gc.freeze()
while True:
    head, fds, _, _ = socket.recv_fds(link, 4, 2)
    if not head:
        sys.exit()
    (size,) = struct.unpack("!I", head)
    words, cwd, environ = json.loads(link.recv(size, socket.MSG_WAITALL))
    child = os.fork()
    if not child:
        break
    for fd in fds:
        os.close(fd)
    link.sendall(struct.pack("!i", child))
    link.sendall(struct.pack("!i", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
link.close()
for number, fd in enumerate(fds, start=1):
    os.dup2(fd, number)
    os.close(fd)
os.chdir(cwd)
os.environ.clear()
os.environ.update(environ)
time.tzset()
sys.path[0] = cwd
sys.argv[1:] = words
runpy.run_module("paceline", run_name="__main__", alter_sys=True)
"""

# What commands load on their way.
_MODULES = (
    "paceline.findings.commits",
    "paceline.findings.detection",
    "paceline.findings.telling",
    "paceline.history.session_files",
    "paceline.session",
    "paceline.sinks.sending",
    "s3fs.core",
)
# What Python itself reads when it starts: whoever sets one of these needs a Python that does.
_EARLY = ("PYTHON", "LC_", "LANG", "LD_")


class WarmStart:
    """The process that forks; one command at a time."""

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair()
        self._turn = threading.Lock()
        self._early = _early(os.environ)
        with theirs:
            program = _PROGRAM % {"modules": _MODULES}
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, str(theirs.fileno())],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # Who has threads should not fork.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def run(
        self, words: Sequence[str], cwd: Path, environ: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str] | None:
        """As `subprocess.run`; None if this command has to be started in the ordinary way."""
        if _early(environ) != self._early or not self._turn.acquire(blocking=False):
            return None
        try:
            return self._run(words, cwd, environ, timeout_s)
        finally:
            self._turn.release()

    def _run(
        self, words: Sequence[str], cwd: Path, environ: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        outputs = [open(os.memfd_create(name), "r+b") for name in ("stdout", "stderr")]  # noqa: PTH123, SIM115
        try:
            request = json.dumps([words, str(cwd), dict(environ)]).encode()
            socket.send_fds(
                self._link, [struct.pack("!I", len(request))], [file.fileno() for file in outputs]
            )
            self._link.sendall(request)
            code = self._wait(self._receive(), words, timeout_s)
            texts = []
            for file in outputs:
                file.seek(0)
                texts.append(io.TextIOWrapper(file).read())
            return subprocess.CompletedProcess(words, code, *texts)
        finally:
            for file in outputs:
                file.close()

    def _wait(self, pid: int, words: Sequence[str], timeout_s: float) -> int:
        self._link.settimeout(timeout_s)
        try:
            return self._receive()
        except TimeoutError:
            self._link.settimeout(None)
            os.kill(pid, signal.SIGKILL)
            self._receive()
            raise subprocess.TimeoutExpired(list(words), timeout_s) from None
        finally:
            self._link.settimeout(None)

    def _receive(self) -> int:
        data = self._link.recv(4, socket.MSG_WAITALL)
        assert data, "the process that starts commands has ended"
        (number,) = struct.unpack("!i", data)
        return int(number)

    def close(self) -> None:
        self._link.close()
        self._process.wait(60)


def _early(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(_EARLY)}


@functools.cache
def warm_start() -> WarmStart:
    """The one of this test process, started on first use."""
    started = WarmStart()
    atexit.register(started.close)
    return started
