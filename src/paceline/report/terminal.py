"""What a session prints while it runs and when it ends; `make_console` picks the view."""

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from paceline.model import Case, Plan, ReadBefore, Record, Report, Status
from paceline.record.layout import is_session, names_in
from paceline.record.redact import mask_urls
from paceline.report.cases import finding_lines, summary
from paceline.report.format import visible
from paceline.report.lines import SessionLines, Tail
from paceline.report.log import LineWriter, LogConsole
from paceline.report.table import Screen, screen_of, wrapped

if TYPE_CHECKING:
    from paceline.report.live import LiveConsole

_USUAL, _DATABASE = "results", "benchmark.db"
Log = Literal["auto", "plain"]
"""`plain` is the hierarchical log, wherever it is read."""


def make_console(
    stream: TextIO,
    *,
    quiet: bool = False,
    verbose: bool = False,
    log: Log = "auto",
    environ: Mapping[str, str] | None = None,
) -> "LogConsole | LineConsole | LiveConsole":
    """The console that suits the stream: live on a terminal that can redraw, lines elsewhere."""
    variables = os.environ if environ is None else environ
    screen = screen_of(stream, variables)
    if log == "plain":
        return LogConsole(stream, colour=screen.colour)
    if quiet:
        return QuietConsole(stream, screen)
    if _can_redraw(stream, variables):
        stream = getattr(stream, "uncleaned", stream)  # It moves the cursor, and cleans what it shows itself.
        from paceline.report.live import LiveConsole  # rich costs 50 ms that a log file need not pay

        return LiveConsole(stream, verbose=verbose)
    return LineConsole(stream, screen, verbose=verbose)


def _can_redraw(stream: TextIO, environ: Mapping[str, str]) -> bool:
    encoding = (stream.encoding or "").lower().replace("-", "")
    return stream.isatty() and environ.get("TERM", "dumb") not in {"", "dumb"} and encoding == "utf8"


class LineConsole(LineWriter):
    """A line for each case, once it has ended."""

    def __init__(self, stream: TextIO, screen: Screen, *, verbose: bool = False) -> None:
        super().__init__(stream)
        self._screen = screen
        self._lines = SessionLines(screen, verbose=verbose)
        self._tails: dict[str, Tail] = {}

    def _write(self, lines: Sequence[str]) -> None:
        super()._write([part for line in lines for part in wrapped(line, self._screen)])

    def session_started(self, plan: Plan, kept: int, read_before: ReadBefore | None = None) -> None:
        self._started_s = time.monotonic()
        with self._lock:
            self._write(list(self._lines.started(plan, kept, read_before)))

    def case_started(self, case: Case, command: Sequence[str], entry_dir: Path, tail: Tail) -> None:
        with self._lock:
            self._tails[case.name] = tail

    def run_started(self, case: Case, label: str) -> None:
        return None

    def case_finished(self, record: Record, entry_dir: Path) -> None:
        with self._lock:
            tail = self._tails.pop(record.case.name, None)
            self._write(list(self._lines.finished(record, entry_dir, tail)))

    def note(self, text: str) -> None:
        with self._lock:
            self._write([visible(line) for line in text.splitlines()])

    def mention(self, text: str) -> None:
        self.note(text)

    def session_finished(self, report: Report, session_dir: Path | str) -> None:
        with self._lock:
            step = next_step(report, session_dir)
            self._write(list(self._lines.ended(report, session_dir, self._elapsed_s, step)))


class QuietConsole(LineConsole):
    """Says nothing until the end but what failed, then one line that sums up."""

    def session_started(self, plan: Plan, kept: int, read_before: ReadBefore | None = None) -> None:
        self._started_s = time.monotonic()
        self._lines.fit([visible(case.name) for case in (*plan.setups, *plan.cases)])

    def case_finished(self, record: Record, entry_dir: Path) -> None:
        if not record.status.ok:
            super().case_finished(record, entry_dir)

    def mention(self, text: str) -> None:
        return None

    def session_finished(self, report: Report, session_dir: Path | str) -> None:
        with self._lock:
            failing = replace(report, findings=tuple(one for one in report.findings if one.fails))
            short = (("Unfinished", report.unfinished), ("Inconclusive", report.inconclusive))
            lines = [*finding_lines(failing), *(f"{word}: {visible(text)}" for word, text in short if text)]
            results = f"results in {visible(str(session_dir))}"
            self._write([*lines, f"{summary(report, self._elapsed_s)}; {results}"])


def next_step(report: Report, session_dir: Path | str) -> str:
    """What a reader does next, as a command that works where the session was run."""
    where = shlex.quote(_near(session_dir))
    if report.interrupted or report.unfinished:
        return f"the same command with --resume {shlex.quote(report.plan.session)} goes on from here"
    bad = next((record for record in report.records if not record.status.ok), None) if not report.ok else None
    if bad is not None and bad.status is not Status.SKIPPED:
        return f"paceline show {where} {shlex.quote(bad.case.name)}"
    if any(one.fails for one in report.findings):
        return f"paceline regressions{_of_database(report.database)}"
    if not report.ok:
        return f"paceline show {where}"
    if isinstance(session_dir, Path) and not _has_others(session_dir):
        return "the same command once more; then 'paceline compare' says what changed"
    return f"paceline compare{_of_results(session_dir)}"


def _has_others(session_dir: Path) -> bool:
    results = session_dir.parent
    names = (name for name in names_in(results) if name != session_dir.name)
    return any(is_session(results / name) for name in names)


def _of_results(session_dir: Path | str) -> str:
    """The option that names a results directory other than the usual one."""
    parent = session_dir.rpartition("/")[0] if isinstance(session_dir, str) else _near(session_dir.parent)
    return "" if parent == _USUAL else f" --results-dir {shlex.quote(parent)}"


def _of_database(url: str) -> str:
    """The option that names a history other than the usual one; one with a password in it is not printed."""
    if mask_urls(url) != url:
        return ""
    near = url if "://" in url else _near(Path(url).absolute())
    return "" if near in ("", _DATABASE, f"{_USUAL}/{_DATABASE}") else f" --db {shlex.quote(near)}"


def _near(place: Path | str) -> str:
    """A session's path as one would type it here."""
    if isinstance(place, str):
        return place
    try:
        return str(place.relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(place)
