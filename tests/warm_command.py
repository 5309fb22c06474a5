"""`paceline` as a fork of a process that has the libraries loaded: the same program, without its seconds of imports.

A page of documentation calls it twenty times, tests some hundred times. `WarmCommand` starts the process, and a
directory with a `paceline` for the PATH: a small client that hands over its words, its variables, its directory and its
three streams, and ends as the fork ends. The one thing that a process makes of itself when it is loaded, the
runner's id, is made anew.
"""

import atexit
import functools
import marshal
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from secrets import token_hex

_LENGTH = struct.Struct("<I")
# It runs for each call, so it imports little.
_CLIENT = """
import marshal, os, signal, socket, sys

def tell(number, _):
    os.kill(worker, number)

def read(length):
    data = b""
    while len(data) < length:
        data += line.recv(length - len(data)) or sys.exit("the process behind it has gone")
    return data

line = socket.socket(socket.AF_UNIX)
line.connect(ADDRESS)
request = marshal.dumps(([os.fsencode(word) for word in sys.argv[1:]], os.getcwdb(), dict(os.environb)))
socket.send_fds(line, [len(request).to_bytes(4, "little")], [0, 1, 2])
line.sendall(request)
worker = int.from_bytes(read(4), "little")
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, tell)
os._exit(read(1)[0])
"""
# What they import comes along.
_LOADED = (
    *(
        "numpy",
        "psutil",
        "pydantic",
        "rich.live",
        "rich.table",
        "yaml",
    ),
    *(
        "paceline.session.session",
        "paceline.plan.plan",
        "paceline.history.store.store",
        "paceline.history.store.migrate",
    ),
    *("paceline.findings.detection", "paceline.findings.comparing", "paceline.judge.bisection"),
    *(
        "paceline.dashboard.build",
        "paceline.report.terminal",
        "paceline.cli.schema",
        "paceline.sinks.dispatch",
    ),
    *(
        "paceline.cli.plan",
        "paceline.cli.run",
        "paceline.cli.history",
        "paceline.cli.regressions",
        "s3fs.core",
    ),
)
# What Python itself reads when it starts: who sets one of these wants a Python that does.
_READ_BY_PYTHON = ("PYTHON", "LC_", "LANG", "LD_")


class WarmCommand:
    """The process, and `bin`, the directory for the PATH."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory / "bin"
        self.bin.mkdir()
        address = directory / "socket"
        client = directory / "client.py"
        client.write_text(_CLIENT.replace("ADDRESS", repr(str(address))))
        command = self.bin / "paceline"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{client}" "$@"\n')
        command.chmod(0o755)
        words = [sys.executable, "-P", __file__, str(address)]
        self._read_by_python = _read_by_python(os.environ)
        environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # who has threads should not fork
        self._server = subprocess.Popen(words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == b"ready\n"

    def serves(self, variables: Mapping[str, str]) -> bool:
        """Whether a command with these variables would be the same if Python started for it."""
        return _read_by_python(variables) == self._read_by_python

    def close(self) -> None:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(timeout=60)
        self._server.stdout.close()


def _read_by_python(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_READ_BY_PYTHON)}


@functools.cache
def warm_command() -> WarmCommand:
    """The one that the tests of this process share."""
    directory = tempfile.TemporaryDirectory(prefix="pl-")
    atexit.register(directory.cleanup)
    made = WarmCommand(Path(directory.name))
    atexit.register(made.close)
    return made


def serve(address: str) -> None:
    """Fork for each client until standard input ends; returns in the forks, to be the command."""
    for name in _LOADED:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        print("ready", flush=True)
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            line, _ = listener.accept()
            with line:
                if os.fork() == 0:
                    listener.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    return _become(line)
        os._exit(0)


def _become(line: socket.socket) -> None:
    """Read what to be, and be it; the process between looks after the fork and tells how it ended."""
    length, streams, _, _ = socket.recv_fds(line, _LENGTH.size, 3)
    words, directory, variables = marshal.loads(_read(line, *_LENGTH.unpack(length)))
    worker = os.fork()
    if worker:
        for stream in (0, 1, 2, *streams):
            os.close(stream)
        _look_after(worker, line)
    line.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(directory)
    os.environb.clear()
    os.environb.update(variables)
    sys.path[:0] = [
        str(Path(part).absolute()) for part in os.environ.get("PYTHONPATH", "").split(":") if part
    ]
    time.tzset()
    _make_runner_anew()
    sys.argv = [f"{Path(sys.executable).parent}/paceline", *map(os.fsdecode, words)]
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")


def _make_runner_anew() -> None:
    """Locks and leftovers are told apart by this id; it is looked up where it is, and where it was imported to."""
    shared, own = sys.modules["paceline.record.lock"].RUNNER, token_hex(8)
    for module in list(sys.modules.values()):
        if getattr(module, "RUNNER", None) is shared:
            module.RUNNER = own  # type: ignore[attr-defined]


def _look_after(worker: int, line: socket.socket) -> None:
    line.sendall(_LENGTH.pack(worker))
    ended = os.pidfd_open(worker)
    if ended not in select.select([ended, line], [], [])[0]:
        _tell(worker, signal.SIGKILL)  # the client was killed
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    with suppress(OSError):
        line.sendall(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def _tell(worker: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(worker, number)


def _read(line: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        data += line.recv(length - len(data)) or sys.exit("the client has gone")
    return data


def _run() -> int:
    from paceline.cli import main

    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else bool(end.code)
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])
    code = _run()
    # As Python ends a program, but for taking apart what was loaded, which takes longer than many a command.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
