"""The process that runs commands for the runner: it starts one at a time, watches its tree, and ends all of it.

It is a process of its own so that it outlives the runner: when its socket closes, even because the runner was
killed, it kills the tree and goes. Being the sub-reaper, it inherits every descendant whose parent died, so none can
leave the tree, `setsid` or not. It imports little and stays small: what it spawns starts out with its size (see
`Watch.peak_bytes`), and starting it should cost no more than starting Python.
"""

# pathlib would take longer to load than all of this module.
# ruff: noqa: PTH110, PTH112, PTH113, PTH118
from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from time import monotonic, process_time

from paceline.run.local.tree import Watch, descendants, kill_all, read_proc, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

# Helpers that end with their parent (resource trackers, `tee`) get this long to do so by themselves.
SETTLE_S = 0.5
# An uninterruptible process (a hung mount) cannot be ended; waiting for it can.
KILL_WAIT_S = 10.0
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Inherit orphaned descendants; where the system cannot (macOS), trees are ended as far as they can be seen."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def take_precedence() -> None:
    """Run before ordinary processes, where we may, lest a fork bomb starve who watches it; children are ordinary."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def hand_on_niceness(child: int) -> None:
    """What `nice paceline run` asks for is meant for benchmarks; the kernel forgets it where precedence is reset."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, child, niceness)


class LaunchError(Exception):
    """The command could not be started; the message is for the user."""


def find_program(name: bytes, search: bytes) -> bytes:
    """The file that `name` runs, looked up on the command's own PATH."""
    if b"/" in name:
        return name
    places = [os.path.join(place or b".", name) for place in search.split(b":")]
    files = [place for place in places if os.path.isfile(place)]
    for file in files:
        if os.access(file, os.X_OK):
            return file
    if files:
        return files[0]
    raise LaunchError(f"cannot run {os.fsdecode(name)!r}: no such program on PATH")


def explain(error: OSError, program: bytes) -> str:
    """Why a program did not start, and what to do."""
    why = error.strerror or str(error)
    if error.errno == errno.ENOENT:
        missing = not os.path.exists(program)
        why = "no such file" if missing else "its interpreter (the '#!' line, or the loader) does not exist"
    elif error.errno == errno.EACCES:
        why = (
            "is a directory"
            if os.path.isdir(program)
            else "is not executable; chmod +x it or name an interpreter"
        )
    elif error.errno == errno.ENOEXEC:
        why = "neither a program for this machine nor a script with a '#!' line"
    return f"cannot run {os.fsdecode(program)!r}: {why}"


def launch(request: dict[str, Any], stdout_fd: int, stderr_fd: int) -> int:
    """Start the command in a session of its own; `posix_spawn` because it never copies this process."""
    argv = request["argv"].encode("latin-1").split(b"\0")
    pairs = [pair.partition(b"=") for pair in request["env"].encode("latin-1").split(b"\0")]
    env = {name: value for name, _, value in pairs}
    cwd = request["cwd"].encode("latin-1")
    try:
        os.chdir(cwd)
    except OSError as error:
        raise LaunchError(f"cannot start in {os.fsdecode(cwd)!r}: {error.strerror}") from error
    try:
        program = find_program(argv[0], env.get(b"PATH", os.fsencode(os.defpath)))
        try:
            child = os.posix_spawn(
                program,
                argv,
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, stdout_fd, 1), (os.POSIX_SPAWN_DUP2, stderr_fd, 2)],
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores, and other programs need
            )
            hand_on_niceness(child)
            return child
        except OSError as error:
            raise LaunchError(explain(error, program)) from error
        except ValueError as error:
            raise LaunchError(f"cannot run {os.fsdecode(program)!r}: {error}") from error
    finally:
        os.chdir("/")


class Link:
    """The socket to the runner and the wake-up for ended children, waited on together."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        self._buffer = b""
        self._wake, wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_end, False)
        signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self.closed = False
        self.requests: list[dict[str, Any]] = []
        self.fds: list[int] = []

    def wait(self, timeout_s: float | None) -> None:
        """Until a request came, a child ended, or the time is over."""
        timeout_ms = None if timeout_s is None else max(0.0, min(timeout_s, 3600.0)) * 1000
        for fd, _event in self._poll.poll(timeout_ms):
            if fd == self._wake:
                os.read(self._wake, 4096)
            else:
                self._receive()

    def _receive(self) -> None:
        try:
            data, fds, _flags, _address = socket.recv_fds(self._socket, 65536, 2)
        except ConnectionError:
            data, fds = b"", []
        for fd in fds:
            os.set_inheritable(fd, False)
        self.fds += fds
        if not data:
            self.closed = True
            self._poll.unregister(self._socket)  # or every later wait would end at once
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self.requests += [json.loads(line) for line in lines]

    def reply(self, report: dict[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(report).encode() + b"\n")
        except ConnectionError:
            self.closed = True


class Run:
    """One command, from its start to the end of its last descendant."""

    def __init__(self, request: dict[str, Any], link: Link) -> None:
        self._request = request
        self._link = link
        self._reason = "exited"
        self._message = ""
        self._status: int | None = None
        self._ended = 0.0
        self._leftovers: list[str] = []

    def go(self) -> dict[str, Any]:
        """Run it to the end and say how it went."""
        fds, self._link.fds = self._link.fds, []
        started = monotonic()
        try:
            self._main = launch(self._request, *fds)
        except LaunchError as error:
            return {"reason": "launch_error", "message": str(error)}
        finally:
            for fd in fds:
                os.close(fd)
        self._watch = Watch(started)
        self._wait_for_main()
        survivors = self._end_the_rest()
        return {
            "reason": self._reason,
            "message": self._message,
            "returncode": None if self._status is None else os.waitstatus_to_exitcode(self._status),
            "leftovers": self._leftovers,
            "survivors": survivors,
            **self._watch.report((self._ended or monotonic()) - started),
        }

    def _wait_for_main(self) -> None:
        """Until the main process has ended, or has to be."""
        deadline = self._watch.started + self._request["timeout_s"]
        while self._reap() and self._status is None:
            now = monotonic()
            if now >= deadline:
                self._reason = "timeout"
                self._message = f"timed out after {self._request['timeout_s']:g} s"
            elif self._asked():
                self._reason, self._message = "stopped", "stopped"
            elif now >= self._watch.next_at:
                self._check(self._sample())
            if self._reason != "exited":
                return
            self._link.wait(min(deadline, self._watch.next_at) - monotonic())

    def _sample(self) -> tuple[int, int]:
        request = self._request
        # Of our own time: on a busy machine a look takes long, and costs no more.
        begun = process_time()
        tree = []
        for process in descendants(os.getpid()):
            tree.append(process)
            if len(tree) > request["max_processes"]:
                break
        memory, count = self._watch.sample(tree)
        max_memory, max_count = request["max_memory_bytes"], request["max_processes"]
        near = 2 * count > max_count or (max_memory and 2 * memory > max_memory)
        self._watch.schedule(process_time() - begun, soon=bool(near))
        return memory, count

    def _check(self, used: tuple[int, int]) -> None:
        """End a tree that is larger than it may be: no limit of the kernel binds root, or counts a tree alone."""
        memory, count = used
        max_memory, max_count = self._request["max_memory_bytes"], self._request["max_processes"]
        if count > max_count:
            self._reason = "limit"
            self._message = f"had more than {max_count} processes at once, which is the limit"
        elif max_memory and memory > max_memory:
            self._reason = "limit"
            self._message = (
                f"used {memory >> 20} MiB of memory in {count} processes, the limit is {max_memory >> 20} MiB"
            )

    def _asked(self) -> str:
        """What the runner wants by now: `kill` (or it is gone), `stop`, or nothing."""
        if self._link.closed:
            return "kill"
        mine = [request for request in self._link.requests if request.get("id") == self._request["id"]]
        wants = {request["do"] for request in mine}
        return "kill" if "kill" in wants else "stop" if "stop" in wants else ""

    def _end_the_rest(self) -> list[str]:
        """End what still lives, gently if there is time; hands back what could not be ended."""
        if self._reason == "exited" and self._reap():
            self._wait_gone(monotonic() + min(SETTLE_S, self._request["grace_s"]))
            self._leftovers = [str(process) for process in descendants(os.getpid()) if process.alive]
        if not self._reap():
            return []
        if self._reason != "limit" and self._asked() != "kill":
            self._terminate()
        return self._kill()

    def _terminate(self) -> None:
        """SIGTERM to all, and the grace time for them to go."""
        for process in list(descendants(os.getpid())):
            send(signal.SIGTERM, process.pid)
            send(signal.SIGCONT, process.pid)  # a stopped one would not see it
        if not self._wait_gone(monotonic() + self._request["grace_s"]) and self._status is None:
            self._message += f"; did not end on SIGTERM within {self._request['grace_s']:g} s and was killed"

    def _wait_gone(self, until: float) -> bool:
        """Wait for all to be gone; a `kill` request cuts it short."""
        while self._reap():
            left_s = until - monotonic()
            if left_s <= 0 or self._asked() == "kill":
                return False
            self._link.wait(left_s)
        return True

    def _kill(self) -> list[str]:
        """SIGKILL until nothing is left."""
        until = monotonic() + KILL_WAIT_S
        while self._reap() and monotonic() < until:
            kill_all(lambda: descendants(os.getpid()))
            if self._reap():
                self._link.wait(0.05)
        return [str(process) for process in descendants(os.getpid())] if self._reap() else []

    def _reap(self) -> bool:
        """Collect what has ended, with what it used; says whether there is any child left."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if ended is None:
                return True
            now = monotonic()
            io = read_proc(f"/proc/{ended.si_pid}/io")
            _, status, usage = os.wait4(ended.si_pid, 0)
            self._watch.add_ended(io, usage)
            if ended.si_pid == self._main:
                self._status, self._ended = status, now


def tell_of_crash(link: Link) -> None:
    """A bug in here must not vanish with us: the runner gets its last words."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f" (line {trace.tb_lineno})" if trace is not None else ""
        link.reply({"crash": f"{kind.__name__}: {error}{where}"})

    sys.excepthook = hook


def main(descriptor: str, sheltered: str = "") -> None:
    """Serve the runner until its end of the socket closes; `sheltered`, from a child that outlives this process."""
    fd = int(descriptor)
    if sheltered and (child := os.fork()):
        os.close(fd)
        os.waitpid(child, 0)
        return
    os.chdir("/")
    become_subreaper()
    take_precedence()
    link = Link(fd)
    tell_of_crash(link)
    while not link.closed:
        link.wait(None)
        while link.requests:
            request = link.requests.pop(0)
            # A `stop` found here is for a run that has ended meanwhile.
            if request["do"] == "run":
                link.reply({"id": request["id"], **Run(request, link).go()})
