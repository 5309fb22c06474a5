"""What the cases of one session share, and what a session tells those who watch it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from paceline.model import Case, Plan, Record, Report, Status
from paceline.record.directory import SessionDir
from paceline.record.environment import Environment
from paceline.record.events import EventLog, utc_now
from paceline.record.redact import Redactor

Tasks = tuple[Mapping[str, Any], ...]
Write = Callable[[Record, Tasks], Record]
"""Judges a record and puts it on disk; what it hands back is what others may see."""


class Listener(Protocol):
    """Called from the threads that run cases; all text is redacted already."""

    def session_started(self, plan: Plan, kept: int) -> None:
        """The session begins; `kept` records of an earlier run of it are not run again."""

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

    def session_finished(self, report: Report, session_dir: Path | str) -> None:
        """The session's files are complete."""


class SilentListener:
    """Says nothing, for sessions that somebody else reports."""

    def session_started(self, plan: Plan, kept: int) -> None: ...
    def case_started(
        self, case: Case, command: Sequence[str], entry_dir: Path, tail: Callable[[int], list[str]]
    ) -> None: ...
    def run_started(self, case: Case, label: str) -> None: ...
    def case_finished(self, record: Record, entry_dir: Path) -> None: ...
    def note(self, text: str) -> None: ...
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

    def note(self, text: str) -> None:
        """Say something that belongs to no case, on the terminal and in the session's log."""
        text = self.redactor.text(text)
        self.events.write("note", text=text)
        self.listener.note(text)

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
