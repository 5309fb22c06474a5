"""The process that starts commands for the warden and waits for them; it is apart for the sake of the figures.

Memory: the kernel's peak of a process begins with the size of the one that spawned it, so below that size nothing is
known. This one forks off before the warden has imported anything, and imports next to nothing.

Time: the clock starts right before the spawn and stops when the wait is over, as in a plain loop. It has no precedence,
since what is spawned by one that has waits longer for its first turn on a busy machine. And it is the leader of a
session, whose commands have a process group each: a session for each command would be a new scheduling group each time
(`sched_autogroup`), which has to queue for its first turn behind everything else.
"""

# `socket` and `signal` would bring `enum` and a megabyte with them.
from __future__ import annotations

import _socket
import marshal
import os
import sys
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEAD_BYTES = 8
MOST_BYTES = 1 << 16


def main(descriptor: str, sheltered: str = "") -> None:
    """Become the warden, with a spawner below it; `sheltered`, in a child that outlives this process."""
    runner_fd = int(descriptor)
    if sheltered and (child := os.fork()):
        os.close(runner_fd)
        os.waitpid(child, 0)
        return
    os.chdir("/")
    ours, theirs = _socket.socketpair()
    child = os.fork()
    if child == 0:
        os.close(runner_fd)
        ours.close()
        serve(theirs)
        os._exit(0)
    theirs.close()
    from paceline.run.local import warden

    warden.main(runner_fd, ours.detach(), child)


def serve(link: _socket.socket) -> None:
    """Run what is asked for, one command at a time, until the warden is gone."""
    os.setsid()
    while True:
        data, passed, _flags, _address = link.recvmsg(HEAD_BYTES, _socket.CMSG_SPACE(12))
        if not data:
            return
        length = int.from_bytes(data, "little")
        request = b""
        while len(request) < length:
            request += link.recv(min(length - len(request), MOST_BYTES))
        numbers = passed[0][2]
        fds = [int.from_bytes(numbers[at : at + 4], sys.byteorder) for at in range(0, len(numbers), 4)]
        link.sendall(packed(run(*marshal.loads(request), *fds)))  # noqa: S302 - from the warden
        # Not before: the runner would wake up for the end of a stream while the clock runs.
        for fd in fds:
            os.close(fd)


def packed(message: Any) -> bytes:
    """A message with its length in front."""
    data = marshal.dumps(message)
    return len(data).to_bytes(HEAD_BYTES, "little") + data


def run(
    program: bytes,
    argv: list[bytes],
    env: dict[bytes, bytes],
    cwd: bytes,
    signals: list[int],
    stdout: int,
    stderr: int,
    *stdin: int,
) -> dict[str, Any]:
    """Run a command to its end; `posix_spawn` because it never copies this process."""
    for fd in (stdout, stderr, *stdin):
        os.set_inheritable(fd, False)
    actions = [(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)]
    actions += [(os.POSIX_SPAWN_DUP2, fd, 0) for fd in stdin]
    try:
        os.chdir(cwd)
        started = monotonic()
        child = os.posix_spawn(
            program, argv, env, file_actions=actions, setpgroup=0, setsigmask=[], setsigdef=signals
        )
    except OSError as error:
        return {"errno": error.errno}
    except ValueError as error:
        return {"fault": str(error)}
    if hasattr(os, "waitid"):  # which Python for macOS had not before 3.13
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        ended = monotonic()
        io = read(f"/proc/{child}/io")  # which is gone once it is reaped
        _, status, usage = os.wait4(child, 0)
    else:
        _, status, usage = os.wait4(child, 0)
        ended, io = monotonic(), b""
    os.chdir("/")
    return {
        "started": started,
        "ended": ended,
        "status": status,
        "io": io,
        "usage": tuple(usage),
        "own_status": read("/proc/self/status"),
    }


def read(path: str) -> bytes:
    """A small file of /proc, empty if it is not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, MOST_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)
