"""What `paceline evals run` shows while it runs: a line for each stub that ended, and on a terminal what runs."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cli.output import write
from paceline.model import Case, Plan, Record, Report, Status
from paceline.report.format import clock, duration, measured, visible

if TYPE_CHECKING:
    from paceline.evals.progress import ExecutionProgress

_REFRESHES_A_SECOND = 4


class View:
    """Listens to a session and prints a line for each stub that ended; if quiet, only for those that failed."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def print(self, line: str) -> None:
        write(f"{line}\n")
        sys.stdout.flush()

    def progress(self, progress: "ExecutionProgress") -> None:
        """The lines of ended stubs show it."""

    def session_started(self, plan: Plan, kept: int) -> None:
        """The stubs' lines show it."""

    def case_started(
        self, case: Case, command: Sequence[str], entry_dir: Path, tail: Callable[[int], list[str]]
    ) -> None:
        """The devices show what runs."""

    def run_started(self, case: Case, label: str) -> None:
        """A stub runs once."""

    def case_finished(self, record: Record, entry_dir: Path) -> None:
        if not (self._quiet and record.status.ok):
            self.print(record_line(record))

    def note(self, text: str) -> None:
        self.print(f"note: {visible(text)}")

    def session_finished(self, report: Report, session_dir: Path | str) -> None:
        for finding in report.findings:
            if finding.fails:
                self.note(finding.message)


class LiveView(View):
    """The same lines, and below them the devices with what they do."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(quiet=quiet)
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._drawn_at = 0.0

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    def progress(self, progress: "ExecutionProgress") -> None:
        from rich.text import Text

        now = time.monotonic()
        if now - self._drawn_at >= 1 / _REFRESHES_A_SECOND:
            self._drawn_at = now
            self._live.update(Text("\n".join(progress_lines(progress)), no_wrap=True), refresh=True)


@contextmanager
def open_view(*, quiet: bool, as_json: bool) -> Iterator[View]:
    """The view that fits standard output; plain lines where it is not a terminal."""
    if as_json or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield View(quiet=quiet or as_json)
        return
    with LiveView(quiet=quiet) as view:
        yield view


def record_line(record: Record) -> str:
    """How a stub ended, in a line."""
    names = [
        name for name in record.metrics if name not in ("exec_time_s", "generate_s", "peak_memory_bytes")
    ]
    numbers = "  ".join(measured(name, record.metrics[name]) for name in names[:3])
    word = "passed" if record.status is Status.PASSED else record.status.value
    tail = numbers if record.status.ok else visible(record.reason)
    return f"{word:<11} {visible(record.case.name)}  {duration(record.exec_time_s)}  {tail}".rstrip()


def progress_lines(progress: "ExecutionProgress") -> list[str]:
    """How far the execution is, and what each device does."""
    left = "" if progress.eta_s is None else f", about {clock(progress.eta_s)} left"
    failed = f", {progress.failed_stubs} failed" if progress.failed_stubs else ""
    head = (
        f"{progress.ended_stubs} of {progress.total_stubs} stubs{failed}, {clock(progress.elapsed_s)}{left}"
    )
    devices = [
        f"  {device}: {visible(text)}"
        for device, text in sorted(progress.current_executions.items(), key=str)
    ]
    return [head, *devices]
