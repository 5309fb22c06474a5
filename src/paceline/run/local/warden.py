"""The process that runs commands for the runner: it starts one at a time, watches its tree, and ends all of it.

It is a process of its own so that it outlives the runner: when its socket closes, even because the runner was
killed, it kills the tree and goes. Being the sub-reaper, it inherits every descendant whose parent died, so none can
leave the tree, `setsid` or not. Commands are started by a process below it (see `spawner`). It imports little:
starting it should cost no more than starting Python.
"""

# pathlib would take longer to load than all of this module.
# ruff: noqa: PTH110, PTH112, PTH113, PTH118
from __future__ import annotations

import ctypes
import errno
import json
import marshal
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from time import monotonic, process_time

from paceline.run.local.spawner import HEAD_BYTES, packed
from paceline.run.local.tree import Process, Watch, child_finder, descendants, kill_all, read_proc, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Any

# Helpers that end with their parent (resource trackers, `tee`) get this long to do so by themselves.
SETTLE_S = 0.5
# An uninterruptible process (a hung mount) cannot be ended; waiting for it can.
KILL_WAIT_S = 10.0
PR_SET_CHILD_SUBREAPER = 36
IGNORED_BY_PYTHON = [int(signal.SIGPIPE), int(signal.SIGXFSZ)]  # other programs need them
SPAWNER_GONE = "the process that starts the commands was killed"


def become_subreaper() -> None:
    """Inherit orphaned descendants; where the system cannot (macOS), trees are ended as far as they can be seen."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def take_precedence() -> None:
    """Run before ordinary processes, where we may, lest a fork bomb starve who watches it; children are ordinary."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


class LaunchError(Exception):
    """The command could not be started; the message is for the user."""


class SpawnerGone(Exception):
    """Nothing can be started any more."""


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


def explain(number: int, program: bytes, cwd: bytes) -> str:
    """Why a program did not start, and what to do."""
    file = os.path.join(cwd, program)
    why = os.strerror(number)
    if number == errno.ENOENT:
        missing = not os.path.exists(file)
        why = "no such file" if missing else "its interpreter (the '#!' line, or the loader) does not exist"
    elif number == errno.EACCES:
        why = (
            "is a directory"
            if os.path.isdir(file)
            else "is not executable; chmod +x it or name an interpreter"
        )
    elif number == errno.ENOEXEC:
        why = "neither a program for this machine nor a script with a '#!' line"
    return f"cannot run {os.fsdecode(program)!r}: {why}"


class Spawner:
    """The process below that starts commands, and the socket to it."""

    def __init__(self, fd: int, pid: int) -> None:
        self.pid = pid
        self.socket = socket.socket(fileno=fd)
        self._buffer = b""

    def start(self, request: dict[str, Any], fds: list[int]) -> tuple[bytes, bytes]:
        """Have the command started with these streams; hands back the program that it runs, and where."""
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
        finally:
            os.chdir("/")
        data = packed((program, argv, env, cwd, IGNORED_BY_PYTHON))
        sent = socket.send_fds(self.socket, [data[:HEAD_BYTES]], fds)
        self.socket.sendall(data[sent:])
        return program, cwd

    def receive(self) -> dict[str, Any] | None:
        """What became of the command, once all of it is here."""
        data = self.socket.recv(65536)
        if not data:
            raise SpawnerGone(SPAWNER_GONE)
        self._buffer += data
        length = int.from_bytes(self._buffer[:HEAD_BYTES], "little")
        if len(self._buffer) < HEAD_BYTES + length:
            return None
        report: dict[str, Any] = marshal.loads(self._buffer[HEAD_BYTES:])  # noqa: S302 - from our own child
        self._buffer = b""
        return report


class Link:
    """The sockets to the runner and the spawner, and the wake-up for ended children, waited on together."""

    def __init__(self, fd: int, spawner: Spawner) -> None:
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
        self._poll.register(spawner.socket, select.POLLIN)
        self.spawner = spawner
        self.ended: dict[str, Any] | None = None
        self.closed = False
        self.requests: list[dict[str, Any]] = []
        self.fds: list[int] = []

    def wait(self, timeout_s: float | None) -> None:
        """Until a request came, the command or an orphan of it ended, or the time is over."""
        timeout_ms = None if timeout_s is None else max(0.0, min(timeout_s, 3600.0)) * 1000
        for fd, _event in self._poll.poll(timeout_ms):
            if fd == self._wake:
                os.read(self._wake, 4096)
            elif fd == self.spawner.socket.fileno():
                self.ended = self.spawner.receive()
            else:
                self._receive()

    def _receive(self) -> None:
        try:
            data, fds, _flags, _address = socket.recv_fds(self._socket, 65536, 3)
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
        self._leftovers: list[str] = []

    def go(self) -> dict[str, Any]:
        """Run it to the end and say how it went."""
        fds, self._link.fds = self._link.fds, []
        self._link.ended = None
        self._watch = Watch(monotonic(), self._request["first_look_s"])
        try:
            self._program, self._cwd = self._link.spawner.start(self._request, fds)
        except LaunchError as error:
            return {"reason": "launch_error", "message": str(error)}
        finally:
            for fd in fds:
                os.close(fd)
        self._watch.program = os.path.join(self._cwd, self._program)
        try:
            self._wait_for_main()
            survivors = self._end_the_rest()
        except LaunchError as error:
            return {"reason": "launch_error", "message": str(error)}
        except SpawnerGone:
            kill_all(self._tree, spared=self._link.spawner.pid)
            raise
        return {
            "reason": self._reason,
            "message": self._message,
            "returncode": None if self._status is None else os.waitstatus_to_exitcode(self._status),
            "leftovers": self._leftovers,
            "survivors": survivors,
            **self._watch.report(cut_short=self._reason != "exited"),
        }

    def _tree(self) -> Iterator[Process]:
        """All that the command has started, and itself."""
        return (process for process in descendants(os.getpid()) if process.pid != self._link.spawner.pid)

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
        for process in self._tree():
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
            self._leftovers = [str(process) for process in self._tree() if process.alive]
        if not self._reap():
            return []
        if self._reason != "limit" and self._asked() != "kill":
            self._terminate()
        return self._kill()

    def _terminate(self) -> None:
        """SIGTERM to all, and the grace time for them to go."""
        for process in list(self._tree()):
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
            kill_all(self._tree, spared=self._link.spawner.pid)
            if self._reap():
                self._link.wait(0.05)
        return [str(process) for process in self._tree()] if self._reap() else []

    def _reap(self) -> bool:
        """Collect what has ended, with what it used; says whether anything is left."""
        spawner, ended = self._link.spawner, self._link.ended
        if ended is not None:
            self._link.ended = None
            if "status" not in ended:
                fault = ended.get("fault")
                what = f"cannot run {os.fsdecode(self._program)!r}: {fault}"
                raise LaunchError(what if fault else explain(ended["errno"], self._program, self._cwd))
            self._status = ended["status"]
            self._watch.add_main(ended)
        while orphan := ended_child():
            if orphan == spawner.pid:
                raise SpawnerGone(SPAWNER_GONE)
            io = read_proc(f"/proc/{orphan}/io")
            _, _, usage = os.wait4(orphan, 0)
            self._watch.add_ended(io, usage)
        return self._status is None or any(pid != spawner.pid for pid in child_finder()(os.getpid(), 1))


def ended_child() -> int:
    """A child that has ended and can be reaped, 0 if there is none; a system without `waitid` hands us no orphans."""
    if not hasattr(os, "waitid"):
        return 0
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found.si_pid if found else 0


def tell_of_crash(link: Link) -> None:
    """A bug in here must not vanish with us: the runner gets its last words."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f" (line {trace.tb_lineno})" if trace is not None else ""
        link.reply({"crash": f"{kind.__name__}: {error}{where}"})

    sys.excepthook = hook


def main(runner_fd: int, spawner_fd: int, spawner_pid: int) -> None:
    """Serve the runner until its end of the socket closes."""
    become_subreaper()
    take_precedence()
    link = Link(runner_fd, Spawner(spawner_fd, spawner_pid))
    tell_of_crash(link)
    stuck: list[str] = []
    while not link.closed:
        try:
            link.wait(None)
        except SpawnerGone:
            return  # the runner starts another of us when it needs one
        while link.requests:
            request = link.requests.pop(0)
            # A `stop` found here is for a run that has ended meanwhile.
            if request["do"] == "run":
                report = Run(request, link).go()
                stuck = report.get("survivors", [])
                link.reply({"id": request["id"], **report})
    link.spawner.socket.close()
    if not stuck:  # or it waits for what could not be ended
        os.waitpid(spawner_pid, 0)
