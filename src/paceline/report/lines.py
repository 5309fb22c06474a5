"""A session in lines: one for each case as it ends, then what it all comes to and what to do next."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from paceline.model import Before, Measurement, Plan, ReadBefore, Record, Report, Status, is_number
from paceline.numbers import SPREAD_NOTE, change, count, duration
from paceline.report.cases import choose_records, complaints, finding_lines, primary_metric, summary
from paceline.report.format import checked, output_line, sparkline, value_and_spread, visible
from paceline.report.table import Cell, Column, Layout, Meaning, Screen, shorten

Tail = Callable[[int], list[str]]
"""Gives the last so many lines of a case's output, now."""

MOST_ROWS = 50
"""Past this many cases the failed ones are named once more at the end."""
MOST_FAILED = 20
LOG_LINES = 5
_NUMBER = re.compile(r"\d[\d.,]*")

_INDENT = " " * 4
_VERDICTS: Mapping[str | None, Cell] = {
    "worse": Cell("worse", "bad"),
    "better": Cell("better", "good"),
    "same": Cell("same", "dim"),
    "inconclusive": Cell("unclear", "dim"),
}
_COLUMNS = (
    Column(),
    Column(title="case", least=20, weight=3),
    Column(title="metric", least=8, leaves=2),
    Column(title="value", right=True),
    Column(leaves=1),
    Column(title="change", right=True),
    Column(),
    Column(leaves=3),
)
# As wide as these get; a line is printed before the next one is known.
_USUAL = ("✓", "", "throughput_rows_per_sec", "999.9 MiB", "±9.99 %", "+99.9 %", "disturbed", "▁" * 12)


class SessionLines:
    """Makes the lines of one session, in the order in which things happen."""

    def __init__(self, screen: Screen, *, verbose: bool = False) -> None:
        self._screen = screen
        self._verbose = verbose
        self._before: Before | None = None
        self._layout = Layout(_COLUMNS, [_USUAL], screen)
        self._spreads = False
        self._failed: list[str] = []
        self._disturbed: list[str] = []
        self._warned: Counter[str] = Counter()

    def started(self, plan: Plan, kept: int, read_before: ReadBefore | None = None) -> Iterator[str]:
        """What will be run."""
        names = [visible(case.name) for case in (*plan.setups, *plan.cases)]
        self._before = read_before() if read_before else None
        self.fit(names)
        yield self._screen.paint(
            f"Started session {visible(plan.session)}: {count(len(names), 'case')}", "bold"
        )
        if kept:
            yield f"Keeping {kept:,} of {count(len(names), 'case')} that finished before"
        yield self._layout.title

    def stored(self, report: Report, place: Path | str, next_step: str, *, everything: bool) -> Iterator[str]:
        """A session that ended some time ago."""
        chosen = choose_records(report, everything=everything)
        self.fit([visible(case.name) for case in (*report.plan.setups, *report.plan.cases)])
        head = f"{visible(report.plan.session)}: {summary(report)}"
        yield self._screen.paint(head, "good" if report.ok else "bad")
        yield self._layout.title
        for record in chosen.records:
            yield from self.finished(record)
        for what, number in (("failed", chosen.hidden_failed), ("passed", chosen.hidden_passed)):
            yield from (f"… and {number:,} more {what}: --all",) if number else ()
        self._failed = []
        yield from self.ended(report, place, next_step=next_step)

    def fit(self, names: Sequence[str]) -> None:
        """Lay out the columns for cases of these names; without a past there is no change and nothing to draw."""
        rest = _USUAL[2:] if self._before else (*_USUAL[2:5], "", "disturbed", "")
        titles = [one if self._before or one.title != "change" else Column() for one in _COLUMNS]
        self._layout = Layout(titles, [("✓", name, *rest) for name in names or [""]], self._screen)

    def finished(
        self, record: Record, entry_dir: Path | None = None, tail: Tail | None = None
    ) -> Iterator[str]:
        """A case that ended: its line, and below it what is wrong."""
        name = visible(record.case.name)
        if record.status.ok:
            yield self._passed(record, name)
        else:
            self._failed.append(name)
            why, *more = complaints(record) or ("",)
            word = record.status.value.replace("_", " ")
            meaning: Meaning = "doubt" if record.status in (Status.SKIPPED, Status.INTERRUPTED) else "bad"
            after = f" after {duration(record.exec_time_s)}" if record.exec_time_s else ""
            head = (Cell("✗", meaning), Cell(name, meaning))
            line = self._layout.line_with(
                head, Cell(f"{word}{after}: {why}" if why else f"{word}{after}", meaning)
            )
            if line is None:
                line = self._layout.line_with(head, Cell(word, meaning)) or self._layout.line(head)
                more = [why, *more]
            yield line
            yield from (self._below(line, "bad") for line in more)
            lines = tail(LOG_LINES) if tail and record.status is not Status.SKIPPED else []
            yield from (self._below(f"│ {output_line(line)}", "dim") for line in lines)
        yield from self._notes(record)
        if self._verbose:
            yield from (f"{_INDENT}$ {visible(shlex.join(record.command))}",) if record.command else ()
            yield from (f"{_INDENT}in {visible(str(entry_dir))}",) if entry_dir else ()

    def _passed(self, record: Record, name: str) -> str:
        mark = Cell("✓", "good")
        metric = primary_metric(record)
        if metric is None:
            return self._layout.line([mark, name, "", duration(record.exec_time_s), "", "", "", ""])
        measured = record.metrics[metric]
        value, spread = value_and_spread(metric, measured)
        self._spreads |= bool(spread)
        shown = (mark, name, Cell(visible(measured.label or metric), "dim"), value, Cell(spread, "dim"))
        return self._layout.line([*shown, *self._since(record, metric, measured)])

    def _since(self, record: Record, metric: str, measured: Measurement) -> Sequence[Cell]:
        """The change since the results before, what is to be said of it, and the last twelve results."""
        disturbed = Cell("disturbed", "doubt")
        found = self._before(record, metric) if self._before else None
        if found is None or not is_number(measured.value):
            return (Cell(""), disturbed if record.disturbance else Cell(""), Cell(""))
        drawn = sparkline([*found.values, float(measured.value)]) if found.values else ""
        verdict = _VERDICTS.get(found.verdict, Cell(""))
        if record.disturbance:
            verdict = disturbed
        size = "" if found.change is None else change(found.change)
        return (Cell(size, verdict.meaning), verdict, Cell(drawn, "dim"))

    def _notes(self, record: Record) -> Iterator[str]:
        """What is to be said of a case besides; what was said of another one before is counted."""
        if record.disturbance:
            self._disturbed.append(record.disturbance)
        for check in record.requirements:
            yield from () if check.judged else (self._below(f"not judged: {checked(check)}", "doubt"),)
        for warning in record.warnings:
            if any(text and text in warning for text in record.disturbed):
                continue  # said in the case's own line
            kind = _NUMBER.sub("#", warning)
            self._warned[kind] += 1
            if self._verbose or self._warned[kind] == 1:
                yield self._below(f"warning: {visible(warning)}", "doubt")

    def _below(self, text: str, meaning: Meaning) -> str:
        """A line below that of its case; what is wrong is never cut."""
        line, width = f"{_INDENT}{text}", self._screen.width
        cut = width is not None and meaning == "dim"
        return self._screen.paint(shorten(line, width or 0, 0) if cut else line, meaning)

    def ended(
        self, report: Report, place: Path | str, elapsed_s: float | None = None, next_step: str = ""
    ) -> Iterator[str]:
        """What it all came to, where it is, and what to do next."""
        yield ""
        if sum(report.counts.values()) > MOST_ROWS and self._failed:
            yield self._screen.paint("failed:", "bold")
            yield from (f"{_INDENT}{name}" for name in self._failed[:MOST_FAILED])
            more = len(self._failed) - MOST_FAILED
            yield from (f"{_INDENT}… and {more:,} more",) if more > 0 else ()
        for line in finding_lines(report):
            meaning: Meaning = (
                "bad" if line.startswith("worse") else "good" if line.startswith("better") else ""
            )
            yield self._screen.paint(line, meaning)
        yield from self._footnotes()
        for word, text in (("Unfinished", report.unfinished), ("Inconclusive", report.inconclusive)):
            yield from (self._screen.paint(f"{word}: {visible(text)}", "doubt"),) if text else ()
        if elapsed_s is not None:  # else it stands at the beginning
            yield self._screen.paint(summary(report, elapsed_s), "good" if report.ok else "bad")
        yield f"Results in {visible(str(place))}"
        if next_step:
            yield f"Next: {visible(next_step)}"

    def _footnotes(self) -> Iterator[str]:
        if self._spreads:
            yield self._screen.paint(SPREAD_NOTE, "dim")
        if self._disturbed:
            most = max(set(self._disturbed), key=self._disturbed.count)
            some = count(len(self._disturbed), "case")
            yield self._screen.paint(f"{some} disturbed, and not judged: {visible(most)}", "doubt")
        again = sum(self._warned.values()) - len(self._warned)
        if again and not self._verbose:
            yield self._screen.paint(f"{count(again, 'more warning')} like those above: -v shows them", "dim")
