"""A worker as the supervisor sees it: what it holds, what it was lent, and which of its clocks runs out next.

Also the signals to the executor: SIGINT lets stubs finish, SIGTERM lets samples finish, any second signal ends all.
"""

import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from types import FrameType, TracebackType
from typing import Any

from paceline import numbers
from paceline.evals.devices import DeviceState
from paceline.evals.jobs import Clocks, Fault, FaultClass, Job
from paceline.evals.launch import WorkerProcess
from paceline.record.events import utc_now

STOP_GRACE_S = 20.0
"""For a worker that was told to stop, to give back its memory and go."""
END_GRACE_S = 10.0

DRAIN, PAUSE, END = 1, 2, 3


@dataclass(slots=True, kw_only=True)
class Lease:
    """A job in the hands of a worker. Only what comes with its number counts for it."""

    number: int
    job: Job
    started: float
    started_at: str
    is_loaded: bool = False
    load_s: float = 0.0
    progress_at: float = 0.0
    known: int = 0
    total: int = 0


class WorkerSeat:
    """A worker process on a device."""

    def __init__(self, number: int, device: DeviceState, process: WorkerProcess) -> None:
        self.number = number
        self.device = device
        self.process = process
        self.resident: str | None = None
        self.lease: Lease | None = None
        self.pid: int | None = None
        self.ending: Fault | None = None
        self._end_by = float("inf")
        self._ended_hard = False
        self.is_stopping = False
        self._has_waited = False

    @property
    def is_idle(self) -> bool:
        return self.lease is None and not self.is_leaving

    @property
    def is_leaving(self) -> bool:
        return self.is_stopping or self.ending is not None

    def introduce(self, pid: int) -> None:
        """It runs by now; the time it waited for a place does not count."""
        self.pid = pid
        if self._has_waited and self.lease is not None:
            self.lease.started = self.lease.progress_at = monotonic()

    def grant(self, lease: Lease) -> None:
        """Lend it a job; from now on its clocks run."""
        self.lease = lease
        self.process.mark_log()
        job = lease.job
        message: Mapping[str, Any] = {
            "do": "lease",
            "lease": lease.number,
            "attempt": job.attempt,
            "device": self.device.id,
            **job.payload,
        }
        self.process.wire.send(message)

    def stop(self) -> None:
        """Ask it to go once its hands are empty."""
        if not self.is_leaving:
            self.is_stopping = True
            self._end_by = monotonic() + STOP_GRACE_S
            self.process.wire.send({"do": "stop"})

    def pause(self, grace_s: float) -> None:
        """Ask it to stop after the current sample, or be ended."""
        if not self.is_stopping:
            self.is_stopping = True
            self._end_by = monotonic() + grace_s
            self.process.wire.send({"do": "pause"})
            self.process.wire.send({"do": "stop"})

    def end(self, fault: Fault) -> None:
        """End it at once; the fault is what its lease is recorded with."""
        if self.ending is None:
            self.ending = fault
            self._end_by = monotonic() + END_GRACE_S
            self.process.end()

    def deadline(self, clocks: Clocks) -> float:
        """When the next of its clocks runs out."""
        if self.is_leaving or self.lease is None:
            return self._end_by
        if self.process.is_waiting:
            self._has_waited = True
            return float("inf")
        return min(when for when, _, _ in self._clocks(self.lease, clocks))

    def _clocks(self, lease: Lease, clocks: Clocks) -> list[tuple[float, FaultClass, str]]:
        total = clocks.timeout_per_benchmark_s
        running = [
            (lease.started + total, FaultClass.TIMEOUT, f"took more than {numbers.number(total)} s in all"),
        ]
        if lease.is_loaded:
            stall = clocks.stall_timeout_s
            text = f"no sample for {numbers.number(stall)} s, after {lease.known} of {lease.total}"
            running.append((lease.progress_at + stall, FaultClass.STALL, text))
        else:
            startup = clocks.startup_timeout_s
            text = f"the model was not loaded within {numbers.number(startup)} s"
            running.append((lease.started + startup, FaultClass.STARTUP, text))
        return running

    def enforce(self, clocks: Clocks, now: float) -> bool:
        """End what is over its time; False if even that did not help, and it has to be given up."""
        if self.deadline(clocks) > now:
            return True
        if self.ending is not None:
            if self._ended_hard:
                return False
            self._ended_hard = True
            self._end_by = now + END_GRACE_S
            self.process.end_hard()
        elif self.is_stopping or self.lease is None:
            self.end(self.fault(FaultClass.CRASH, "did not stop when it was told to"))
        else:
            _, fault_class, text = min(self._clocks(self.lease, clocks))
            self.end(self.fault(fault_class, text))
        return True

    def fault(self, fault_class: FaultClass, message: str, **details: Any) -> Fault:
        """What went wrong with the current lease, with the last lines of its log."""
        seconds = monotonic() - self.lease.started if self.lease else 0.0
        return Fault(
            fault_class=fault_class,
            message=message,
            log_tail=self.process.log_tail(),
            device=self.device.id,
            seconds=seconds,
            **details,
        )


def new_lease(number: int, job: Job) -> Lease:
    now = monotonic()
    return Lease(number=number, job=job, started=now, started_at=utc_now(), progress_at=now)


def ending(returncode: int | None) -> str:
    """How a worker ended that nobody told to, in words."""
    if returncode is None:
        return "the worker closed its socket and does not end"
    if returncode >= 0:
        return f"the worker exited with code {returncode}"
    try:
        return f"the worker was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"the worker was killed by signal {-returncode}"


class Interrupts:
    """While entered, signals raise `level` and wake whoever waits on `wake_fd`."""

    def __init__(self) -> None:
        self.level = 0
        self.wake_fd, self._wake_end = os.pipe()
        os.set_blocking(self.wake_fd, False)
        os.set_blocking(self._wake_end, False)
        self._before: dict[int, object] = {}

    def ask(self, level: int) -> None:
        """Ask for an end, more urgently than before; from any thread, and from signal handlers."""
        self.level = min(END, max(level, self.level))
        with suppress(OSError):  # full of wake-ups already
            os.write(self._wake_end, b"!")

    def clear_wake(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.wake_fd, 4096)

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        os.close(self.wake_fd)
        os.close(self._wake_end)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.level:
            self.ask(END)
        else:
            self.ask(DRAIN if number == signal.SIGINT else PAUSE)
