"""Signals to the executor: SIGINT lets stubs finish, SIGTERM lets samples finish, any second signal ends all."""

import os
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType

DRAIN, PAUSE, END = 1, 2, 3


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
