"""A courier's process as the runner sees it: started, rung, waited for, and ended when it hangs."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep, time

from paceline.model import SinkSpec
from paceline.plugins import boot_code, python_command
from paceline.record.files import Tail
from paceline.sinks.ledger import Ledger
from paceline.sinks.outbox import BUSY, ENDS, LEDGER, OFF, Letter, sink_dir

Note = Callable[[str], None]

MOST_STARTS = 3
"""How often a session starts the courier of a sink; one that hangs or crashes that often waits for `paceline send`."""
_RESTART_AFTER_S = 5.0
_LOOK_EVERY_S = 0.02
_MARGIN_S = 2.0  # What a courier that keeps to its time takes to say why it gives up.
_BOOT = boot_code("paceline.sinks.courier:start")


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What the deliveries of a session share."""

    session_dir: Path
    secrets: Sequence[str]
    note: Note


class Delivery:
    """Delivers to one sink of a session, by one courier after the other if need be."""

    def __init__(self, spec: SinkSpec, post: Post, wait_s: float | None = None) -> None:
        self.spec = spec
        self._post = post
        self._wait_s = spec.wait_s if wait_s is None else wait_s
        self.directory = sink_dir(post.session_dir, spec.name)
        self._sayings = Tail(self.directory / LEDGER)
        self._sayings.read()
        self._process: subprocess.Popen[bytes] | None = None
        self._doorbell: int | None = None
        self._starts = 0
        self._start_from_s = 0.0
        self._is_off = self._is_ending = self._is_end_noted = False

    def start(self) -> None:
        """Start a courier, unless too many have come to nothing."""
        if self._is_off or self._starts >= MOST_STARTS:
            return
        self._starts += 1
        self._is_end_noted = False
        self.directory.mkdir(parents=True, exist_ok=True)
        bell, self._doorbell = os.pipe()
        os.set_blocking(self._doorbell, False)
        letter = self._write_letter()
        try:
            with (self.directory / "output.log").open("ab") as output:
                self._process = subprocess.Popen(
                    python_command(_BOOT, str(letter), flags=("-P",)),
                    stdin=bell,
                    stdout=output,
                    stderr=output,
                    pass_fds=[letter],
                    start_new_session=True,
                )
        finally:
            os.close(bell)
            os.close(letter)

    def ring(self) -> None:
        """Tell the courier that there is something new; never waits."""
        if self._look() is None and self._process is not None and self._doorbell is not None:
            with suppress(BlockingIOError, BrokenPipeError):
                os.write(self._doorbell, b".")
        elif self._starts < MOST_STARTS and monotonic() >= self._start_from_s:
            self.start()

    def finish(self) -> None:
        """The journal is complete: let the courier deliver the rest and go."""
        self._is_ending = True
        if self._look() is not None or self._process is None:
            self.start()
        self._let_go()

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self._process is None or self._look() is not None

    def has_hung(self, since_s: float) -> bool:
        """Whether the time is over that the session's end waits, or its call has taken as long already."""
        is_late = monotonic() - since_s >= self._wait_s + (_MARGIN_S if self._wait_s else 0)
        return is_late or (self._wait_s > 0 and self._busy_s() >= self._wait_s)

    def end(self) -> None:
        """End a courier that does not end by itself."""
        if self._process is None or self._process.poll() is not None:
            return
        busy_s = self._busy_s()
        self._kill()
        why = f"no answer for {busy_s:.0f} s" if busy_s >= 1 else "not done when the session ended"
        self._note_fault(why, stuck=busy_s >= self._wait_s > 0)

    def tell_sayings(self) -> None:
        """Pass on what the sink has to say, such as links."""
        for line in self._sayings.read():
            if "say" in line:
                self._post.note(f"sink {self.spec.name}: {line['say']}")

    def _write_letter(self) -> int:
        letter = Letter(
            session_dir=self._post.session_dir.absolute(),
            spec=self.spec,
            secrets=self._post.secrets,
            wait_s=self._wait_s,
            is_beside_run=not self._is_ending,
            sys_path=[entry or str(Path.cwd()) for entry in sys.path],
        )
        fd = os.memfd_create("letter")
        with open(fd, "wb", closefd=False) as file:
            file.write(letter.pack())
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def _look(self) -> int | None:
        """How the courier ended; None while it lives or if there is none. A violent end is noted once."""
        if self._process is None:
            return None
        code = self._process.poll()
        if code is None:
            return None
        if not self._is_end_noted:
            self._is_end_noted = True
            self._let_go()
            self._is_off = code in (OFF, BUSY)
            self._start_from_s = monotonic() + _RESTART_AFTER_S * self._starts
            if code == -signal.SIGALRM:
                self._note_fault(f"no answer for {self.spec.timeout_s:g} s", stuck=True)
            elif code == BUSY:
                self._note_fault("another process is delivering to it")
            elif code not in ENDS:
                self._note_fault(f"its process was ended by {_cause(code)}", stuck=True)
        return code

    def _let_go(self) -> None:
        if self._doorbell is not None:
            os.close(self._doorbell)
            self._doorbell = None

    def _busy_s(self) -> float:
        """For how long the courier has been in the call that it is in."""
        try:
            began, noted = (self.directory / "busy").stat().st_mtime, 0.0
        except OSError:
            return 0.0
        with suppress(OSError):
            noted = (self.directory / LEDGER).stat().st_mtime
        return max(0.0, time() - began) if began >= noted else 0.0

    def _kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._is_end_noted = True
        self._let_go()

    def _note_fault(self, why: str, *, stuck: bool = False) -> None:
        with suppress(OSError):
            Ledger(self.directory).note_fault("", why, stuck=stuck)


def wait_for(deliveries: Sequence[Delivery], is_stopped: Callable[[], bool] = lambda: False) -> None:
    """Wait until all couriers are done; those that take too long, or all if nobody waits any more, are ended."""
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
                delivery.tell_sayings()
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
