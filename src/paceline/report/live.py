"""The live view on a terminal: what runs, since when, how long is left, its last lines, what ended how."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from paceline.model import Case, Plan, ReadBefore, Record, Report, Status
from paceline.numbers import clock
from paceline.report.format import cleaned, output_line, visible
from paceline.report.lines import SessionLines, Tail
from paceline.report.table import Screen, wrapped
from paceline.report.terminal import next_step

REFRESHES_A_SECOND = 4
TAIL_LINES = 6
MOST_RUNNING_SHOWN = 8


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

    def __init__(self, stream: TextIO, *, verbose: bool = False) -> None:
        self.fault: OSError | None = None  # a terminal that goes away takes whoever would read of it along
        self._screen = Console(file=stream, highlight=False, markup=False, emoji=False)
        colour = not self._screen.no_color and self._screen.color_system is not None
        self._shape = Screen(width=self._screen.width, colour=colour)
        self._lines = SessionLines(self._shape, verbose=verbose)
        # Held while something is drawn, and never asked for while the other one is held: rich works out how much to
        # erase before it draws, so that two at once would erase lines that are to stay.
        self._drawing = Lock()
        self._lock = Lock()
        self._running: dict[str, Running] = {}
        self._counts: Counter[Status] = Counter()
        self._total = 0
        self._kept = 0
        self._started_s: float | None = None
        self._ended = Event()
        self._live = Live(
            _View(self._view),
            console=self._screen,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _refresh(self) -> None:
        while not self._ended.wait(1 / REFRESHES_A_SECOND):
            with self._drawing, suppress(OSError):
                self._live.refresh()

    def _stop(self) -> None:
        self._ended.set()
        with self._drawing:
            self._live.stop()

    def session_started(self, plan: Plan, kept: int, read_before: ReadBefore | None = None) -> None:
        self._started_s = time.monotonic()
        self._total = len(plan.setups) + len(plan.cases)
        self._kept = kept
        self._print(self._lines.started(plan, kept, read_before))
        with self._drawing:
            self._live.start()
        Thread(target=self._refresh, daemon=True).start()

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
            running = self._running.pop(record.case.name, None)
            self._counts[record.status] += 1
        self._print(self._lines.finished(record, entry_dir, running.tail if running else None))

    def note(self, text: str) -> None:
        self._print(self._shape.paint(visible(line), "doubt") for line in text.splitlines())

    def mention(self, text: str) -> None:
        self.note(text)

    def session_finished(self, report: Report, session_dir: Path | str) -> None:
        self._stop()
        elapsed_s = None if self._started_s is None else time.monotonic() - self._started_s
        self._print(self._lines.ended(report, session_dir, elapsed_s, next_step(report, session_dir)))

    def _print(self, lines: Iterable[str]) -> None:
        # Soft wrap leaves a word that is too long to the terminal, so that a path can be copied whole. A terminal
        # that went away must not end the session.
        whole = "\n".join(part for line in lines for part in wrapped(line, self._shape))
        with self._drawing, suppress(OSError):
            self._screen.print(Text.from_ansi(cleaned(whole)), soft_wrap=True)

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
