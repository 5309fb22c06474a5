"""The live view on a terminal: what runs, since when, how long is left, its last lines, what ended how."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self, TextIO

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from paceline.model import Case, Plan, Record, Report, Status
from paceline.numbers import clock, duration
from paceline.report.format import measured, output_line, visible
from paceline.report.table import (
    Row,
    complaints,
    finding_lines,
    key_metrics,
    make_table,
    plain_lines,
    summary,
)
from paceline.report.terminal import Tail, logs_lines, warning_lines

REFRESHES_A_SECOND = 4
TAIL_LINES = 6
MOST_RUNNING_SHOWN = 8
NARROWEST_GRID = 70
"""Columns below which a grid would fold its cells into unreadable pillars."""

_STYLES: Mapping[Status, str] = {
    Status.PASSED: "green",
    Status.SKIPPED: "yellow",
    Status.INTERRUPTED: "yellow",
}


@dataclass(slots=True, kw_only=True)
class Running:
    """A case on its way; changes as its repetitions begin."""

    case: Case
    tail: Tail
    started_s: float
    label: str = ""
    run_started_s: float | None = None
    run_times_s: list[float] = field(default_factory=list)

    def begin_run(self, label: str, now_s: float) -> None:
        """Note that the next repetition begins, and how long the one before it took."""
        if self.run_started_s is not None:
            self.run_times_s.append(now_s - self.run_started_s)
        self.label, self.run_started_s = label, now_s

    def timeout_left_s(self, now_s: float) -> float:
        since_s = self.started_s if self.run_started_s is None else self.run_started_s
        return max(0.0, self.case.timeout_s - (now_s - since_s))

    def estimate_left_s(self, now_s: float) -> float | None:
        """What the repetitions so far let expect of the rest; None while there is none."""
        if not self.run_times_s or self.run_started_s is None:
            return None
        one_s = sum(self.run_times_s) / len(self.run_times_s)
        to_come = max(0, self.case.runs - len(self.run_times_s) - 1)
        return max(0.0, one_s - (now_s - self.run_started_s)) + to_come * one_s


@dataclass(frozen=True, slots=True)
class _View:
    """Asked for at every drawing: rich draws what it has below each line printed, and that would be out of date."""

    draw: Callable[[], Group]

    def __rich__(self) -> Group:
        return self.draw()


class LiveConsole:
    """Draws the running cases below, and leaves a line for each that ended above them."""

    def __init__(self, stream: TextIO) -> None:
        self.fault: OSError | None = None  # a terminal that goes away takes whoever would read of it along
        self._screen = Console(file=stream, highlight=False, markup=False, emoji=False)
        # Never held while printing: the refreshing thread holds rich's lock when it asks for the view.
        self._lock = Lock()
        self._running: dict[str, Running] = {}
        self._counts: Counter[Status] = Counter()
        self._total = 0
        self._kept = 0
        self._started_s: float | None = None
        self._live = Live(
            _View(self._view),
            console=self._screen,
            refresh_per_second=REFRESHES_A_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def session_started(self, plan: Plan, kept: int) -> None:
        self._started_s = time.monotonic()
        self._total = len(plan.setups) + len(plan.cases)
        self._kept = kept
        self._print(Text(f"Started session {visible(plan.session)}", style="bold"))
        if kept:
            self._print(Text(f"Keeping {kept:,} of {self._total:,} cases that finished before", style="dim"))
        self._live.start()

    def case_started(self, case: Case, command: Sequence[str], entry_dir: Path, tail: Tail) -> None:
        with self._lock:
            self._running[case.name] = Running(case=case, tail=tail, started_s=time.monotonic())

    def run_started(self, case: Case, label: str) -> None:
        with self._lock:
            running = self._running.get(case.name)
            if running is not None:
                running.begin_run(label, time.monotonic())

    def case_finished(self, record: Record, entry_dir: Path) -> None:
        with self._lock:
            self._running.pop(record.case.name, None)
            self._counts[record.status] += 1
        with suppress(OSError):
            self._screen.print(_finished_line(record), no_wrap=True, overflow="ellipsis")
        for line in complaints(record):
            self._print(Text(f"     {line}", style="red"))
        for line in warning_lines(record):
            self._print(Text(f"     {line}", style="yellow"))
        for line in [] if record.status.ok else logs_lines(record, entry_dir):
            self._print(Text(f"     {line}", style="dim"))

    def note(self, text: str) -> None:
        for line in text.splitlines():
            self._print(Text(visible(line), style="yellow"))

    def session_finished(self, report: Report, session_dir: Path | str) -> None:
        self._live.stop()
        elapsed_s = None if self._started_s is None else time.monotonic() - self._started_s
        table = make_table(report)
        self._print(Text())
        if not table.rows or self._screen.width < NARROWEST_GRID:
            for line in plain_lines(table):
                self._print(Text(line))
        else:
            with suppress(OSError):
                self._screen.print(_grid(table.rows))
            for footnote in table.footnotes:
                self._print(Text(footnote, style="dim"))
        self._print(Text())
        for line in finding_lines(report):
            self._print(Text(line, style="red" if line.startswith("worse") else "default"))
        if report.unfinished:
            self._print(Text(f"Unfinished: {visible(report.unfinished)}", style="bold red"))
        if report.inconclusive:
            self._print(Text(f"Inconclusive: {visible(report.inconclusive)}", style="bold yellow"))
        self._print(Text(summary(report, elapsed_s), style="bold green" if report.ok else "bold red"))
        self._print(Text(f"Results in {visible(str(session_dir))}"))

    def _print(self, text: Text) -> None:
        # Soft wrap leaves breaking to the terminal, so that a path can be copied whole. A terminal that
        # went away must not end the session.
        with suppress(OSError):
            self._screen.print(text, soft_wrap=True)

    def _view(self) -> Group:
        now_s = time.monotonic()
        with self._lock:
            running = list(self._running.values())
            counts = Counter(self._counts)
        shown = running[:MOST_RUNNING_SHOWN]
        lines = [
            line for one in shown for line in _running_lines(one, now_s, max(1, TAIL_LINES // len(shown)))
        ]
        if len(running) > len(shown):
            lines.append(_one_line(f"  … and {len(running) - len(shown)} more", "dim"))
        return Group(*lines, self._progress(counts, len(running), now_s))

    def _progress(self, counts: Counter[Status], running: int, now_s: float) -> Text:
        done = self._kept + sum(counts.values())
        ends = [f"{counts[status]} {status.value.replace('_', ' ')}" for status in Status if counts[status]]
        parts = [f"{done}/{self._total} done", *ends, f"{running} running"]
        elapsed_s = now_s - self._started_s if self._started_s is not None else 0
        return _one_line(f"  {clock(elapsed_s)}  {' · '.join(parts)}", "bold")


def _running_lines(running: Running, now_s: float, tail_lines: int) -> list[Text]:
    """One case of the live view: its times, then the last of what it printed."""
    parts = [f"timeout in {clock(running.timeout_left_s(now_s))}"]
    estimate_s = running.estimate_left_s(now_s)
    if estimate_s is not None:
        parts.append(f"about {clock(estimate_s)} left")
    if running.label:
        parts.insert(0, visible(running.label))
    # The least and most telling first: a narrow screen cuts the line at its end.
    since = clock(now_s - running.started_s)
    head = _one_line(f"  ▶ {since}  {visible(running.case.name)}  ", "bold cyan")
    head.append(" · ".join(parts), style="not bold default")
    output = [_one_line(f"    │ {output_line(line)}", "dim") for line in running.tail(tail_lines)]
    return [head, *output]


def _one_line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _finished_line(record: Record) -> Text:
    passed = record.status.ok
    line = Text(f"  {'✅' if passed else '❌'} {visible(record.case.name)}", style=_style(record.status))
    if not passed:
        line.append(f"  {record.status.value.replace('_', ' ')}")
    if record.exec_time_s:
        line.append(f"  {duration(record.exec_time_s)}", style="default")
    for name, value in key_metrics(record):
        line.append(f"  {measured(name, value)}", style="dim default")
    return line


def _style(status: Status) -> str:
    return _STYLES.get(status, "red")


def _grid(rows: Sequence[Row]) -> Grid:
    """The final table as rich draws it."""
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    grid.add_column("case", overflow="fold")
    grid.add_column("status", no_wrap=True)
    grid.add_column("time", justify="right", no_wrap=True)
    grid.add_column("metrics", overflow="fold")
    for row in rows:
        details = Text("\n".join(row.metrics))
        if row.complaints:
            details.append(("\n" if row.metrics else "") + "\n".join(row.complaints), style="red")
        if row.notes:
            details.append("\n" * bool(details.plain) + "\n".join(row.notes), style="yellow")
        status = Text(row.status.value.replace("_", " "), style=_style(row.status))
        grid.add_row(Text(row.case), status, Text(row.time), details)
    return grid
