"""What the cases of one session share, what a session tells those who watch it, and whether it is to end."""

import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, Self

from paceline.model import Case, Plan, ReadBefore, Record, Report, Status
from paceline.record.directory import SessionDir
from paceline.record.environment import Environment
from paceline.record.events import EventLog, utc_now
from paceline.record.redact import Redactor

if TYPE_CHECKING:
    from paceline.run.sharing import SharedProcess

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stoppable(Protocol):
    """A warden or an executor; `stop` is called from a signal handler, so it takes no lock."""

    def stop(self, now: bool = False) -> None: ...


class Stop:
    """Whether a session is to end. While entered, signals set it instead of ending the process.

    `say(again)` is called from the signal handler: it must take no lock. `say_failed(error)` is called when
    the session cannot go on.
    """

    def __init__(
        self,
        targets: Iterable[Stoppable] = (),
        say: Callable[[bool], None] = lambda again: None,
        say_failed: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self.signalled = False
        """Whether the user asked for it."""
        self._is_set = False
        self._targets = tuple(targets)
        self._say = say
        self._say_failed = say_failed
        self._before: dict[signal.Signals, Any] = {}

    def is_set(self) -> bool:
        return self._is_set

    def ask(self) -> None:
        """Ask for a clean end; asked again, for an immediate one."""
        again, self._is_set = self._is_set, True
        for target in self._targets:
            target.stop(now=again)

    def fail(self, error: BaseException) -> None:
        """Ask for a clean end, and say so, as the session cannot go on after an error."""
        if not self._is_set:
            self._say_failed(error)
            self.ask()

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


Tasks = tuple[Mapping[str, Any], ...]
Write = Callable[[Record, Tasks], Record]
"""Judges a record and puts it on disk; what it hands back is what others may see."""


class Listener(Protocol):
    """Called from the threads that run cases; all text is redacted already."""

    def session_started(self, plan: Plan, kept: int, read_before: ReadBefore | None = None) -> None:
        """The session begins; `kept` records of an earlier run of it are not run again.

        `read_before` gives those who show it what the history knows of the cases.
        """

    def case_started(
        self, case: Case, command: Sequence[str], entry_dir: Path, tail: Callable[[int], list[str]]
    ) -> None:
        """A case begins; `tail(n)` gives the last n lines of its output so far."""

    def run_started(self, case: Case, label: str) -> None:
        """One run of a case that runs several times begins."""

    def case_finished(self, record: Record, entry_dir: Path) -> None:
        """A case has its record, and the record is on disk."""

    def note(self, text: str) -> None:
        """Something worth a line that belongs to no case."""

    def mention(self, text: str) -> None:
        """How it goes; nothing that somebody has to know who wants it quiet."""

    def session_finished(self, report: Report, session_dir: Path | str) -> None:
        """The session's files are complete."""


class SilentListener:
    """Says nothing, for sessions that somebody else reports."""

    def session_started(self, plan: Plan, kept: int, read_before: ReadBefore | None = None) -> None: ...
    def case_started(
        self, case: Case, command: Sequence[str], entry_dir: Path, tail: Callable[[int], list[str]]
    ) -> None: ...
    def run_started(self, case: Case, label: str) -> None: ...
    def case_finished(self, record: Record, entry_dir: Path) -> None: ...
    def note(self, text: str) -> None: ...
    def mention(self, text: str) -> None: ...
    def session_finished(self, report: Report, session_dir: Path | str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the cases of one session share."""

    session: str
    directory: SessionDir
    redactor: Redactor
    events: EventLog
    listener: Listener
    environ: Mapping[str, str]
    environment: Environment
    gpu_interval_s: float = 1.0
    details: Mapping[str, Any] = field(default_factory=dict)
    secret_names: tuple[str, ...] = ()
    beside_cpus: float = 0.0
    """CPUs that cases of this session may use beside a run without our seeing it: in other slots of a node."""
    done_before: dict[str, str] = field(default_factory=dict)
    """Cases that an executor found done by an earlier session, and where their results are."""
    shared: "dict[str, SharedProcess]" = field(default_factory=dict)
    """Processes that several cases share, by name; an executor that knows none gives each case its own."""

    def note(self, text: str) -> None:
        """Say something that belongs to no case, on the terminal and in the session's log."""
        self.listener.note(self._noted(text))

    def mention(self, text: str) -> None:
        """Say how it goes, unless the user wants it quiet."""
        self.listener.mention(self._noted(text))

    def _noted(self, text: str) -> str:
        text = self.redactor.text(text)
        self.events.write("note", text=text)
        return text

    def blank_record(self, case: Case, status: Status, reason: str, attempt: int | None = None) -> Record:
        """The record of an attempt, the next one by default, that has nothing more to say."""
        return Record(
            session=self.session,
            case=case,
            attempt=self.directory.next_attempt(case) if attempt is None else attempt,
            status=status,
            reason=reason,
            started_at=utc_now(),
            environment=self.environment.id,
            revision=self.environment.revision,
            details=self.details,
        )
