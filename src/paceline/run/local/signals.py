"""Ctrl-C and its relatives: the first ends what runs cleanly, the second ends it at once."""

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Protocol

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stoppable(Protocol):
    """A warden, or a pool of machines; `stop` is called from a signal handler, so it takes no lock."""

    def stop(self, now: bool = False) -> None: ...


class Stopper:
    """While entered, signals set `event` and stop the wardens instead of ending the process.

    `tell(again)` is called from the signal handler: it must take no lock.
    """

    def __init__(self, wardens: Iterable[Stoppable], tell: Callable[[bool], None]) -> None:
        self.event = threading.Event()
        self.signalled = False
        self._wardens = tuple(wardens)
        self._tell = tell
        self._before: dict[signal.Signals, signal.Handlers | object] = {}

    def stop(self) -> None:
        """Ask for a clean end; asked again, for an immediate one."""
        again = self.event.is_set()
        self.event.set()
        for warden in self._wardens:
            warden.stop(now=again)

    def __enter__(self) -> "Stopper":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._tell(self.signalled)
        self.signalled = True
        self.stop()
