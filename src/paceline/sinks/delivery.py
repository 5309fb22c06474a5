"""A sender's process as the runner sees it: started, woken, waited for, and ended when it hangs."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep, time

from paceline.errors import SessionError
from paceline.numbers import number
from paceline.plugins import boot_code, python_command
from paceline.record import below
from paceline.record.files import Tail
from paceline.run.local.tree import MARK, TICKS_PER_S, descendants, look, sweep
from paceline.sinks.outbox import Ledger, one_line, sink_dir
from paceline.sinks.sender import BUSY, BUSY_SINCE, ENDS, OFF, ORDER, Order, open_output
from paceline.sinks.specs import FOREIGN, StoredSpec

Note = Callable[[str], None]

MOST_STARTS = 3
"""How often a session starts the sender of a sink; one that hangs or crashes that often waits for `paceline send`."""
_RESTART_AFTER_S = 5.0
_LOOK_EVERY_S = 0.02
SILENCE_S = 0.5
"""How long the end of a session bears a sink that has answered nothing yet and only waits."""
NO_LIMIT_S = 1e9
"""To wait so long is to be patient in all: nobody's session waits."""
_WORK_S = 0.02  # Of CPU time in that silence; less may be a clock that ticks.
_MARGIN_S = 2.0  # What a sender that keeps to its time takes to say why it gives up.
_MARK = MARK.rstrip(b"=").decode()  # finds what has left the sender's process group, too
_BOOT = boot_code("paceline.sinks.sender:start")


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What the deliveries of a session share."""

    session_dir: Path
    secrets: Sequence[str]
    note: Note


class Delivery:
    """Delivers to one sink of a session, by one sender after the other if need be."""

    def __init__(self, stored: StoredSpec, common: Common, wait_s: float | None = None) -> None:
        if not stored.is_own:  # They name what is imported, and where to send.
            raise SessionError(f"sink {stored.spec.name} was {FOREIGN}")
        self.spec = stored.spec
        self._stored = stored
        self._common = common
        self._wait_s = stored.spec.wait_s if wait_s is None else wait_s
        self._directory = sink_dir(self.spec.name)
        self._ledger = Ledger(common.session_dir, self.spec.name)
        self._new_lines = Tail(self._ledger.path, common.session_dir)
        self._new_lines.read()
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._wake_fd: int | None = None
        self._starts = 0
        self._start_from_s = 0.0
        self._is_off = self._is_ending = self._is_end_noted = False
        self._has_answered = self._is_silent = False
        self._used_s = self._silent_from_s = 0.0
        self._mark = token_hex(8)

    def start(self) -> None:
        """Start a sender, unless too many have come to nothing."""
        if self._is_off or self._starts >= MOST_STARTS:
            return
        self._starts += 1
        self._started_s = monotonic()
        self._is_end_noted = False
        session_dir = self._common.session_dir.absolute()
        below.make_private_dir(session_dir, self._directory)
        order = Order(
            session_dir=session_dir,
            spec=self.spec,
            secrets=self._common.secrets,
            wait_s=self._wait_s,
            is_beside_run=not self._is_ending,
            is_patient=self._wait_s >= NO_LIMIT_S,
            sys_path=[entry or str(Path.cwd()) for entry in sys.path],
            cwd=self._stored.cwd,
            artifacts_dir=self._stored.artifacts_dir,
        )
        # By memory: options hold secrets, which are for no disk and no command line.
        order_fd = os.memfd_create("order")
        wake_end, self._wake_fd = os.pipe()
        try:
            os.set_blocking(self._wake_fd, False)
            below.write_all(order_fd, ORDER.dump_json(order))
            os.lseek(order_fd, 0, os.SEEK_SET)
            with open_output(session_dir, self._directory) as output:
                self._process = subprocess.Popen(
                    python_command(_BOOT, str(order_fd), flags=("-P",)),
                    stdin=wake_end,
                    stdout=output,
                    stderr=output,
                    pass_fds=[order_fd],
                    env={**os.environ, _MARK: self._mark},
                    start_new_session=True,
                )
        finally:
            os.close(wake_end)
            os.close(order_fd)

    def wake(self) -> None:
        """Let the sender know that there is something new; never waits."""
        if self._look() is None and self._process is not None and self._wake_fd is not None:
            with suppress(BlockingIOError, BrokenPipeError):
                os.write(self._wake_fd, b".")
        elif self._starts < MOST_STARTS and monotonic() >= self._start_from_s:
            self.start()

    def finish(self) -> None:
        """The journal is complete: let the sender deliver the rest and go. One that has failed is not tried again."""
        self._is_ending = True
        if self._process is None:
            self.start()
        self._let_go()

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self._process is None or self._look() is not None

    def has_hung(self, since_s: float) -> bool:
        """Whether the session's end has waited long enough, its call has taken as long already, or it is silent."""
        is_late = monotonic() - since_s >= self._wait_s + (_MARGIN_S if self._wait_s else 0)
        busy_s = self._busy_s()
        return is_late or (self._wait_s > 0 and busy_s >= self._wait_s) or self._falls_silent(busy_s, since_s)

    def _falls_silent(self, busy_s: float, since_s: float) -> bool:
        """Whether it is in a call, no service has answered it in this session, and its processes only wait.

        Starting, importing and computing are work; a request without an answer is not.
        """
        if self._wait_s >= NO_LIMIT_S or self._has_answered or self._process is None:
            return False
        used_s, works = _work_of(self._process.pid)
        if not busy_s or works or used_s - self._used_s >= _WORK_S or self._silent_from_s < since_s:
            self._used_s, self._silent_from_s = used_s, monotonic()
        self._is_silent = monotonic() - self._silent_from_s >= SILENCE_S
        return self._is_silent

    def end(self) -> None:
        """End a sender that does not end by itself."""
        if self._process is None or self._process.poll() is not None:
            return
        busy_s = self._busy_s()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        sweep([self._mark])
        self._is_end_noted = True
        self._let_go()
        ended = "no answer by the session's end" if self._is_silent else "not done when the session ended"
        why = f"no answer for {busy_s:.0f} s" if busy_s >= 1 else ended
        self._note_fault(why, stuck=self._is_silent or busy_s >= self._wait_s > 0)

    def show_said(self) -> None:
        """Pass on what the sink has to say, such as links, and take note of its service's first answer."""
        for line in self._new_lines.read():
            self._has_answered = self._has_answered or "answered" in line
            if "say" in line:
                self._common.note(f"sink {self.spec.name}: {one_line(str(line['say']))}")

    def _look(self) -> int | None:
        """How the sender ended; None while it lives or if there is none. A violent end is noted once."""
        if self._process is None:
            return None
        code = self._process.poll()
        if code is None:
            return None
        if not self._is_end_noted:
            self._is_end_noted = True
            sweep([self._mark])
            self._let_go()
            self._is_off = code in (OFF, BUSY)
            self._start_from_s = monotonic() + _RESTART_AFTER_S * self._starts
            if code == -signal.SIGALRM:
                self._note_fault(f"no answer for {number(self.spec.timeout_s)} s", stuck=True)
            elif code == BUSY:
                self._note_fault("another process is delivering to it")
            elif code not in ENDS:
                self._note_fault(f"its process was ended by {_cause(code)}", stuck=True)
        return code

    def _let_go(self) -> None:
        if self._wake_fd is not None:
            os.close(self._wake_fd)
            self._wake_fd = None

    def _busy_s(self) -> float:
        """For how long the sender has been in the call that it is in; an earlier one may have died in a call."""
        began = below.status(self._common.session_dir, f"{self._directory}/{BUSY_SINCE}")
        return 0.0 if began is None else max(0.0, min(time() - began.st_mtime, monotonic() - self._started_s))

    def _note_fault(self, why: str, *, stuck: bool = False) -> None:
        with suppress(OSError):
            self._ledger.note(key="", fault=why, stuck=stuck)


def wait_for(deliveries: Sequence[Delivery], is_stopped: Callable[[], bool] = lambda: False) -> None:
    """Wait until all senders are done; those that take too long, or all if nobody waits any more, are ended."""
    since_s = monotonic()
    left = list(deliveries)
    try:
        for delivery in left:
            delivery.finish()
        while left:
            for delivery in [*left]:
                if not delivery.is_over and (is_stopped() or delivery.has_hung(since_s)):
                    delivery.end()
                if delivery.is_over:
                    left.remove(delivery)
            for delivery in deliveries:
                delivery.show_said()
            sleep(_LOOK_EVERY_S if left else 0)
    finally:
        for delivery in left:
            delivery.end()


def _cause(code: int) -> str:
    if code > 0:
        return f"an error of its own (exit code {code})"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _work_of(pid: int) -> tuple[float, bool]:
    """The CPU seconds of a process and all below it, and whether one of them runs, or waits for a CPU or a disk."""
    root = look(pid)
    found = [root, *descendants(pid, root.threads)] if root else []
    return sum(one.cpu_ticks for one in found) / TICKS_PER_S, any(one.state in (b"R", b"D") for one in found)
