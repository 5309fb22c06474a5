"""What a session tells, kept beside its records: plain lines in `logs/console.log`, whatever the console shows."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path

from paceline.model import Case, Plan, ReadBefore, Record, Report
from paceline.record import below
from paceline.record.layout import CONSOLE_LOG
from paceline.report.log import LogConsole
from paceline.run.context import Listener


class Transcript:
    """Passes everything on to a console, and writes it down. A disk that takes no more costs lines, never the run."""

    def __init__(self, console: Listener, session_dir: Path) -> None:
        self._session_dir = session_dir
        self._listeners = [console]
        self._close: Callable[[], None] = lambda: None

    def close(self) -> None:
        with suppress(OSError):
            self._close()

    def session_started(self, plan: Plan, kept: int, read_before: ReadBefore | None = None) -> None:
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            fd = below.open_below(self._session_dir, CONSOLE_LOG, flags)
            file = TextIOWrapper(BufferedWriter(FileIO(fd, "ab")), "utf-8", errors="backslashreplace")
            self._close = file.close
            console = self._listeners[0]
            # What looks the same is worked out once.
            if not (isinstance(console, LogConsole) and console.copy_to(file)):
                self._listeners.append(LogConsole(file))
        for one in self._listeners:
            one.session_started(plan, kept, read_before)

    def case_started(
        self, case: Case, command: Sequence[str], entry_dir: Path, tail: Callable[[int], list[str]]
    ) -> None:
        for one in self._listeners:
            one.case_started(case, command, entry_dir, tail)

    def run_started(self, case: Case, label: str) -> None:
        for one in self._listeners:
            one.run_started(case, label)

    def case_finished(self, record: Record, entry_dir: Path) -> None:
        for one in self._listeners:
            one.case_finished(record, entry_dir)

    def note(self, text: str) -> None:
        for one in self._listeners:
            one.note(text)

    def mention(self, text: str) -> None:
        for one in self._listeners:
            one.mention(text)

    def session_finished(self, report: Report, session_dir: Path | str) -> None:
        for one in self._listeners:
            one.session_finished(report, session_dir)
