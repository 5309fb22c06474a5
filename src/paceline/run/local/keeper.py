"""A process between a parent and its worker: when either ends, by whatever means, all below the worker ends too.

What the worker prints goes through it, and is masked before it reaches the log.

The keeper holds one end of a pipe that the parent holds the other end of, and is the sub-reaper of all that the worker
starts. It imports little and forks at once: the worker goes on with a clean interpreter, the keeper only waits.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import select
import signal
import struct
import sys
import termios
import time

from paceline.run.local.tree import descendants, kill_all
from paceline.run.local.warden import become_subreaper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Filter(Protocol):
        """Takes a stream in pieces, and gives back what may be written by now."""

        def feed(self, chunk: bytes) -> bytes: ...
        def flush(self) -> bytes: ...


PR_SET_PDEATHSIG = 1
_LOOK_S = 1.0
_CHUNK_BYTES = 1 << 16
_SETTLE_S = 5.0


def main(target: str, worker_fd: str, life_fd: str, secret_names: str, sheltered: str, *words: str) -> None:
    """A process that keeps a worker: `module:function`, which gets its descriptor, the words, and `Outlet.settle`."""
    from importlib import import_module

    from paceline.record.redact import Redactor, secret_values

    outlet = Outlet(Redactor(secret_values(os.environ, secret_names.split(","))).stream())

    def run() -> int:
        module, _, function = target.partition(":")
        code: int = getattr(import_module(module), function)(int(worker_fd), words, outlet.settle)
        return code

    keep(run, int(life_fd), (int(worker_fd),), outlet=outlet, sheltered=bool(sheltered))


def keep(
    run: Callable[[], int],
    life_fd: int,
    worker_fds: tuple[int, ...],
    *,
    outlet: Outlet,
    sheltered: bool = False,
) -> None:
    """Fork: the child runs `run` and exits with what it gives; this process keeps it, and ends as it ended.

    What the child prints goes through `outlet`. `sheltered`, the keeper is a child that outlives this process: Ray
    kills the children of a worker before it.
    """
    if sheltered and (child := os.fork()):
        outlet.leave()
        for fd in (life_fd, outlet.read_fd, *worker_fds):
            os.close(fd)
        _end_like(os.waitpid(child, 0)[1])
    become_subreaper()
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(life_fd)
        outlet.take()
        _die_with_parent(keeper)
        os._exit(run())
    outlet.leave()
    for fd in worker_fds:
        os.close(fd)
    status = _wait(child, life_fd, outlet)
    _end_all()
    while outlet.pump():  # all who could print are gone
        pass
    _end_like(status)


def _die_with_parent(parent: int) -> None:
    """The kernel ends this process if the keeper dies, which nobody but the kernel's out-of-memory killer does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def _wait(child: int, life_fd: int, outlet: Outlet) -> int:
    """How the child ended; none of its doing if the parent went first or let go of it."""
    wake, wake_end = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_end, False)
    signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent decides, and tells by the pipe
    poll = select.poll()
    poll.register(life_fd, select.POLLIN)
    poll.register(wake, select.POLLIN)
    poll.register(outlet.read_fd, select.POLLIN)
    while True:
        status = _reap(child)
        if status is not None:
            return status
        for fd, _event in poll.poll(_LOOK_S * 1000):
            if fd == life_fd:
                return signal.SIGKILL
            if fd == wake:
                os.read(wake, 4096)
            elif not outlet.pump():
                poll.unregister(fd)


def _reap(child: int) -> int | None:
    """Collect all that has ended; the status of the worker if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def _end_all() -> None:
    while True:
        kill_all(lambda: descendants(os.getpid()))
        try:
            while os.waitpid(-1, 0):
                pass
        except ChildProcessError:
            return


def _end_like(status: int) -> None:
    """Exit the way the worker did, signal and all, for the parent to see."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    os._exit(128 - code)


class Outlet:
    """A pipe from the worker's standard output and error to the keeper's standard output; made before the fork."""

    def __init__(self, mask: Filter) -> None:
        self._mask = mask
        self.read_fd, self._write_fd = os.pipe()
        self._at_work = mmap.mmap(-1, 1)  # both processes see it

    def take(self) -> None:
        """In the worker: print into the pipe from now on."""
        os.dup2(self._write_fd, 1)
        os.dup2(self._write_fd, 2)
        os.close(self._write_fd)
        os.close(self.read_fd)

    def leave(self) -> None:
        """In the keeper: the pipe ends with the worker and what it started."""
        os.close(self._write_fd)

    def pump(self) -> bool:
        """In the keeper: write a part of what was printed, masked; False at its end."""
        self._at_work[0] = 1
        chunk = os.read(self.read_fd, _CHUNK_BYTES)
        _write(self._mask.feed(chunk) if chunk else self._mask.flush())
        self._at_work[0] = 0
        return bool(chunk)

    def settle(self) -> None:
        """In the worker: wait until all that was printed is in the log."""
        until = time.monotonic() + _SETTLE_S
        # In this order: what is no longer in the pipe was taken out by a keeper that is at work until it is written.
        while (_unread_bytes(1) or self._at_work[0]) and time.monotonic() < until:
            time.sleep(0.0005)


def _unread_bytes(fd: int) -> int:
    try:
        found: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
    except OSError:
        return 0
    return found


def _write(data: bytes) -> None:
    """A disk that is full costs lines of the log, never the worker."""
    while data:
        try:
            data = data[os.write(1, data) :]
        except OSError:
            return
