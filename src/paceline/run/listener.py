"""What a session tells whoever watches it; the terminal views implement this."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from paceline.model import Case, Plan, Record, Report


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
