"""The hierarchical log of a session, in the form that its readers know; `logs/console.log` holds it.

A console is called from the threads that run cases, and all text it gets is redacted already.
"""

import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self, TextIO

from paceline.model import Case, Plan, ReadBefore, Record, Report, Status
from paceline.numbers import seconds_text
from paceline.report.cases import complaints, finding_lines, make_table, marks, plain_lines, summary
from paceline.report.format import cleaned, spelled_for, visible
from paceline.report.lines import Tail

MOST_WARNINGS = 3

_OUTCOMES: Mapping[Status, str] = {
    Status.PASSED: "✅ Run Succeeded",
    Status.SKIPPED: "❌ Run Skipped",
    Status.INTERRUPTED: "❌ Run Interrupted",
}
_GREEN, _RED, _RESET = "\x1b[32m", "\x1b[31m", "\x1b[0m"


class LineWriter:
    """Writes whole lines to a stream, as long as that takes them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = Lock()
        self._copy: TextIO | None = None
        self._started_s: float | None = None
        self.fault: OSError | None = None
        """Why the stream takes no more; then nothing more is written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @property
    def _elapsed_s(self) -> float | None:
        return None if self._started_s is None else time.monotonic() - self._started_s

    def _write(self, lines: Sequence[str]) -> None:
        if not lines:
            return
        text = cleaned("\n".join(lines) + "\n")
        if self._copy is not None:
            with suppress(OSError, ValueError):  # full, or closed when the session was
                self._copy.write(text)
                self._copy.flush()
        if self.fault:
            return
        try:
            self._stream.write(spelled_for(self._stream.encoding, text))
            self._stream.flush()
        except OSError as error:
            # The reader went away or the disk is full: the session and its files matter more than its log.
            self.fault = error


class LogConsole(LineWriter):
    """The hierarchical log: session, case, what was run, how it ended, where its output is."""

    def __init__(self, stream: TextIO, *, colour: bool = False) -> None:
        super().__init__(stream)
        self._colour = colour
        self._block = ""

    def copy_to(self, stream: TextIO) -> bool:
        """Write the same lines to a second stream from now on; False if they are coloured."""
        if not self._colour:
            self._copy = stream
        return self._copy is not None

    def session_started(self, plan: Plan, kept: int, read_before: ReadBefore | None = None) -> None:
        self._started_s = time.monotonic()
        lines = [f"Started session {visible(plan.session)}..."]
        if kept:
            lines.append(
                f"\tKeeping {kept:,} of {len(plan.setups) + len(plan.cases):,} cases that finished before"
            )
        with self._lock:
            self._write(lines)

    def case_started(self, case: Case, command: Sequence[str], entry_dir: Path, tail: Tail) -> None:
        with self._lock:
            self._open_block(case.name, "Running data setup" if case.kind == "data_setup" else "Running")
            self._write([f"\t\tRunning command {command_line(command)}"])

    def run_started(self, case: Case, label: str) -> None:
        with self._lock:
            self._open_block(case.name, "Running")
            self._write([f"\t\tRunning {visible(label)}"])

    def case_finished(self, record: Record, entry_dir: Path) -> None:
        with self._lock:
            self._open_block(record.case.name, "Finished")
            text = outcome(record)
            if self._colour:
                text = f"{_GREEN if record.status.ok else _RED}{text}{_RESET}"
            self._write([f"\t\t{text}", *_details(record, entry_dir)])
            self._block = ""

    def note(self, text: str) -> None:
        with self._lock:
            self._write([f"\t{visible(line)}" for line in text.splitlines()])

    def mention(self, text: str) -> None:
        self.note(text)

    def session_finished(self, report: Report, session_dir: Path | str) -> None:
        with self._lock:
            self._write(["", *plain_lines(make_table(report)), ""])
            self._write(
                [
                    *finding_lines(report),
                    *_shortfall(report),
                    summary(report, self._elapsed_s),
                    f"Results in {visible(str(session_dir))}",
                ]
            )

    def _open_block(self, name: str, verb: str) -> None:
        """Cases that run side by side take turns on the stream: say whose lines follow when that changes."""
        if self._block != name:
            self._write([f"\t{verb} {visible(name)}"])
        self._block = name


def command_line(command: Sequence[str]) -> str:
    """A command as a shell would take it, on one line."""
    return visible(shlex.join(command))


def outcome(record: Record) -> str:
    """How a case ended, in the words of the log."""
    words = _OUTCOMES.get(record.status, "❌ Run Failed")
    if record.status is not Status.SKIPPED:
        words += f" in {seconds_text(record.exec_time_s)} seconds"
    if record.status in _OUTCOMES:
        return words
    return f"{words} ({record.status.value.replace('_', ' ')})"


def _shortfall(report: Report) -> list[str]:
    lines = (("Unfinished", report.unfinished), ("Inconclusive", report.inconclusive))
    return [f"{word}: {visible(text)}" for word, text in lines if text]


def _details(record: Record, entry_dir: Path) -> list[str]:
    """What belongs under the outcome: why, warnings, the place of the logs."""
    lines = [f"\t\t{line}" for line in (*complaints(record), *marks(record))]
    lines += [f"\t\t{line}" for line in warning_lines(record)]
    return lines + [f"\t\t{line}" for line in logs_lines(record, entry_dir)]


def warning_lines(record: Record) -> list[str]:
    """A case's first warnings; fifty repetitions on a busy machine would say the same fifty times."""
    lines = [f"warning: {visible(warning)}" for warning in record.warnings[:MOST_WARNINGS]]
    hidden = len(record.warnings) - len(lines)
    return [*lines, f"… and {hidden:,} more warnings in record.json"] if hidden > 0 else lines


def logs_lines(record: Record, entry_dir: Path) -> list[str]:
    """Where a case's output lies, if it ran: repeated runs have a directory each."""
    path = entry_dir / ("logs" if record.case.runs == 1 else "attempts")
    ran = record.status is not Status.SKIPPED and path.is_dir()
    return [f"Logs found in {visible(str(path))}"] if ran else []
