"""Run one command under a warden: its output as it comes, how it ended, and what it used."""

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Literal, Self

from paceline.plugins import boot_code, python_command
from paceline.run.local import tree, warden

Stream = Literal["stdout", "stderr"]
Reason = Literal["exited", "timeout", "launch_error", "limit", "stopped", "lost"]
OnOutput = Callable[[Stream, bytes], None]
Sample = tuple[float, int, float, int]

STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
RUN_ID = "PACELINE_RUN_ID"
PIPE_BYTES = (
    1 << 20
)  # what an ordinary user may have; a benchmark that prints in bursts then seldom waits for us
READ_BYTES = 1 << 16
BOOT = boot_code("paceline.run.local.spawner:main")
WARDEN_LATE_S = 30.0  # past all its own limits: it hangs


_shelter: list[str] = []


def shelter_wardens() -> None:
    """Put a process between this one and its wardens from now on.

    For a worker of Ray: when it is ended, Ray kills its children before anything else, and a warden that is killed
    cannot end the tree it watches.
    """
    _shelter[:] = ["sheltered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run; `env` is the whole environment.

    `first_look_s` is when its tree is looked at for the first time: a look disturbs what runs at that moment.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    timeout_s: float = 7200
    grace_s: float = 5
    max_processes: int = 4096
    max_memory_bytes: int | None = None
    first_look_s: float = tree.FIRST_INTERVAL_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the whole tree used; `samples` are (t_s, memory_bytes, cpu_s, processes), None is unknown."""

    wall_s: float = 0.0
    cpu_user_s: float = 0.0
    cpu_system_s: float = 0.0
    peak_memory_bytes: int | None = None
    mean_memory_bytes: int | None = None
    io_read_bytes: int = 0
    io_write_bytes: int = 0
    voluntary_context_switches: int = 0
    involuntary_context_switches: int = 0
    samples: tuple[Sample, ...] = ()

    def metrics(self) -> dict[str, float]:
        """By the names of metrics, without what is unknown."""
        figures = {name: getattr(self, name) for name in self.__slots__ if name not in ("wall_s", "samples")}
        known = {name: value for name, value in figures.items() if value is not None}
        return {"exec_time_s": round(self.wall_s, 6), **known}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a command ended; `leftovers` are background children that outlived it and had to be ended."""

    returncode: int | None
    reason: Reason
    message: str = ""
    usage: Usage = Usage()
    leftovers: tuple[str, ...] = ()


class _Link:
    """A running warden process and the socket to it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                python_command(BOOT, str(theirs.fileno()), *_shelter),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._buffer = b""

    def send(self, request: Mapping[str, Any], fds: tuple[int, ...] = ()) -> None:
        data = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(self.socket, [data], fds) if fds else 0
        self.socket.sendall(data[sent:])

    def receive(self) -> dict[str, Any] | None:
        """The next report if it is complete by now; raises ConnectionError when the warden is gone."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionResetError
        line, end, self._buffer = (self._buffer + data).partition(b"\n")
        if not end:
            self._buffer = line
            return None
        report: dict[str, Any] = json.loads(line)
        return report

    def close(self) -> None:
        """Let it go: it kills what it still runs, and exits."""
        self.socket.close()
        try:
            self.process.wait(warden.KILL_WAIT_S + 5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Warden:
    """Runs commands one at a time, each ended with all its descendants; `run` is for one thread, `stop` for any."""

    def __init__(self) -> None:
        self._link: _Link | None = None
        self._asked: Literal["", "stop", "kill"] = ""
        self._wake, self._wake_end = socket.socketpair()
        self._wake.setblocking(False)
        self._wake_end.setblocking(False)
        self._runs = 0

    def __enter__(self) -> Self:
        self._link = self._link or _Link()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._discard()
        self._wake.close()
        self._wake_end.close()

    def stop(self, now: bool = False) -> None:
        """End the current command, with its grace time or at once; safe in a signal handler, as it takes no lock."""
        self._asked = "kill" if now or self._asked == "kill" else "stop"
        try:
            self._wake_end.send(b"!")
        except OSError:  # already full of wake-ups, or closed
            return

    def run(
        self,
        command: Command,
        on_output: OnOutput,
        *,
        cancelled: Callable[[], bool] = lambda: False,
        streams: tuple[int, ...] = (),
    ) -> Exit:
        """Run it to its end. `cancelled` is asked once `stop` works, so that no stop falls between two runs.

        `streams` are open files for its stdout, stderr and, if there is a third, stdin; then `on_output` hears nothing.
        """
        self._asked = ""
        if cancelled():
            return Exit(returncode=None, reason="stopped", message="stopped before it began")
        self._runs += 1
        if RUN_ID not in command.env:
            command = replace(command, env={**command.env, RUN_ID: os.urandom(16).hex()})
        try:
            request = _request(command, self._runs)
        except (ValueError, FileNotFoundError) as error:  # not found: the directory we are in was removed
            return Exit(returncode=None, reason="launch_error", message=f"cannot run the command: {error}")
        return self._run(command, request, _Pipes(on_output, streams))

    def _run(self, command: Command, request: Mapping[str, Any], pipes: "_Pipes") -> Exit:
        started = monotonic()
        done = False
        try:
            link = self._send(request, pipes.take_write_ends())
            report = self._converse(link, request, pipes)
            pipes.drain()
            done = "id" in report and not report.get("survivors")
        except ConnectionError:
            report = {}
        finally:
            # On an exception too (Ctrl-C, a full queue of the caller): the command must not go on without us.
            if not done:
                self._discard()
            pipes.close()
        if "id" in report:
            return _exit(report)
        return self._lost(command, monotonic() - started, report.get("crash", "it was killed"))

    def _send(self, request: Mapping[str, Any], fds: tuple[int, ...]) -> _Link:
        """Hand over the request, to a new warden if the one we had died idle."""
        try:
            link = self._link = self._link or _Link()
            try:
                link.send(request, fds)
            except ConnectionError:
                self._discard()
                link = self._link = _Link()
                link.send(request, fds)
            return link
        finally:
            for fd in fds:
                os.close(fd)

    def _converse(self, link: _Link, request: Mapping[str, Any], pipes: "_Pipes") -> dict[str, Any]:
        """Pass on output and stop requests until the report comes."""
        poll = pipes.poll
        poll.register(link.socket, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        late = monotonic() + request["timeout_s"] + request["grace_s"] + warden.KILL_WAIT_S + WARDEN_LATE_S
        link_fd, wake_fd, sent = link.socket.fileno(), self._wake.fileno(), ""
        while True:
            ready = poll.poll(max(0.0, min(late - monotonic(), 3600)) * 1000)
            for fd, _event in ready:
                if fd == link_fd:
                    report = link.receive()
                    if report is not None:
                        return report
                elif fd == wake_fd:
                    self._wake.recv(4096)
                else:
                    pipes.read(fd)
            if self._asked != sent:
                sent = self._asked
                link.send({"do": sent, "id": request["id"]})
            if monotonic() > late and all(fd != link_fd for fd, _event in ready):
                link.process.kill()
                return {"crash": "it hung"}

    def _lost(self, command: Command, wall_s: float, why: str) -> Exit:
        """The warden is gone and so is all knowledge of the tree but the mark in its environment."""
        ended = tree.sweep([command.env[RUN_ID]])
        message = f"the process that watched over the command was lost ({why}); ended {len(ended)} processes"
        return Exit(returncode=None, reason="lost", message=message, usage=Usage(wall_s=wall_s))

    def _discard(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()


class _Pipes:
    """The read ends of a command's stdout and stderr, unless it has open files for them."""

    def __init__(self, on_output: OnOutput, given: tuple[int, ...] = ()) -> None:
        self._on_output = on_output
        self._streams: dict[int, Stream] = {}
        self._write_ends = [os.dup(fd) for fd in given]
        self.poll = select.poll()
        for stream in () if given else STREAMS:
            self._open(stream)

    def _open(self, stream: Stream) -> None:
        read_end, write_end = os.pipe()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(PermissionError):  # the user's share of pipe memory is used up; it works with less
                fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._streams[read_end] = stream
        self._write_ends.append(write_end)
        self.poll.register(read_end, select.POLLIN)

    def take_write_ends(self) -> tuple[int, ...]:
        """For the caller to hand over and close."""
        ends, self._write_ends = self._write_ends, []
        return tuple(ends)

    def read(self, fd: int) -> int:
        """Pass on what is there; at the end of the stream it is no longer waited for."""
        chunk = os.read(fd, READ_BYTES)
        if chunk:
            self._on_output(self._streams[fd], chunk)
        else:
            self._close(fd)
        return len(chunk)

    def drain(self) -> None:
        """What was written before the end. Bounded, and never waiting: a process out of our reach may hold a pipe."""
        for fd in list(self._streams):
            os.set_blocking(fd, False)
            left = 2 * PIPE_BYTES
            try:
                while left > 0 and (count := self.read(fd)):
                    left -= count
            except BlockingIOError:
                continue

    def _close(self, fd: int) -> None:
        self.poll.unregister(fd)
        del self._streams[fd]
        os.close(fd)

    def close(self) -> None:
        for fd in list(self._streams):
            self._close(fd)
        for fd in self._write_ends:
            os.close(fd)


def _request(command: Command, number: int) -> dict[str, Any]:
    return {
        "do": "run",
        "id": number,
        "argv": _packed("argument", command.argv),
        "env": _packed("environment variable", [f"{name}={value}" for name, value in command.env.items()]),
        "cwd": _packed("directory", [str(Path(command.cwd or ".").absolute())]),
        "timeout_s": command.timeout_s,
        "grace_s": command.grace_s,
        "max_processes": command.max_processes,
        "max_memory_bytes": command.max_memory_bytes,
        "first_look_s": command.first_look_s,
    }


def _packed(what: str, texts: Sequence[str]) -> str:
    """The exact bytes, as text: the warden need not have our encoding, and names need not be in any."""
    text = "\0".join(texts)
    if not texts:
        raise ValueError(f"there is no {what}")
    if text.count("\0") >= len(texts):
        raise ValueError(f"an {what} holds a NUL character")
    return os.fsencode(text).decode("latin-1")


def _exit(report: dict[str, Any]) -> Exit:
    survivors = [f"{process}, which could not be ended" for process in report.get("survivors", ())]
    samples = tuple(tuple(sample) for sample in report.pop("samples", ()))
    usage = {name: report[name] for name in Usage.__slots__ if name in report}
    return Exit(
        returncode=report.get("returncode"),
        reason=report["reason"],
        message=report["message"] or _ending(report["returncode"]),
        usage=Usage(**usage, samples=samples),
        leftovers=(*report.get("leftovers", ()), *survivors),
    )


def _ending(returncode: int) -> str:
    """A line for an end that nobody asked for."""
    if returncode >= 0:
        return f"exited with code {returncode}" if returncode else ""
    return describe_death(returncode)


def describe_death(returncode: int) -> str:
    """What a return code below zero says."""
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"
