"""Ctrl-C and its relatives: the first ends what runs cleanly, the second ends it at once."""

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Protocol, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stoppable(Protocol):
    """A warden or an executor; `stop` is called from a signal handler, so it takes no lock."""

    def stop(self, now: bool = False) -> None: ...


class Stop:
    """Whether a session is to end. While entered, signals set it instead of ending the process.

    `say(again)` is called from the signal handler: it must take no lock.
    """

    def __init__(
        self, targets: Iterable[Stoppable] = (), say: Callable[[bool], None] = lambda again: None
    ) -> None:
        self.signalled = False
        """Whether the user asked for it."""
        self._is_set = False
        self._targets = tuple(targets)
        self._say = say
        self._before: dict[signal.Signals, Any] = {}

    def is_set(self) -> bool:
        return self._is_set

    def ask(self) -> None:
        """Ask for a clean end; asked again, for an immediate one."""
        again, self._is_set = self._is_set, True
        for target in self._targets:
            target.stop(now=again)

    def mark_signalled(self) -> None:
        """Note that the user asked an executor that handles signals itself, and has ended what it ran."""
        self.signalled = self._is_set = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._say(self.signalled)
        self.signalled = True
        self.ask()
