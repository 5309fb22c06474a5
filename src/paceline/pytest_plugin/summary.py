"""What is said at the end: what was recorded, where, and how it compares with the time before."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paceline.model import Record
from paceline.report.format import aligned, quantity, visible

if TYPE_CHECKING:
    from paceline.history import Store

SHOWN = 25
"""Lines of the table; a larger suite is better read with `paceline history`."""

NOTABLE = 0.02
"""A change below this is shown as none."""

_MEMORY = ("peak_memory", "average_memory", "gpu_peak_memory_bytes")


@dataclass(slots=True, kw_only=True)
class Summary:
    """The last words of a run."""

    database: str
    directory: Path
    records: list[Record] = field(default_factory=list)
    previous: dict[str, float] = field(default_factory=dict)
    recovered: int = 0
    workers: int = 1
    trouble: str = ""

    def write(self, terminal: pytest.TerminalReporter) -> None:
        if not (self.records or self.recovered or self.trouble):
            return
        terminal.write_sep("-", f"benchmarks: {len(self.records)} recorded in {self._place()}")
        if self.records:
            rows = [("test", "duration", "memory", "since last"), *map(self._row, self._shown())]
            for line in aligned(_without_empty_columns(rows)):
                terminal.write_line(line)
        hidden = len(self.records) - len(self._shown())
        if hidden:
            terminal.write_line(f"… and {hidden} more")
        self._write_notes(terminal)

    def _write_notes(self, terminal: pytest.TerminalReporter) -> None:
        if self.recovered:
            terminal.write_line(f"{self.recovered} results of a run that was cut short were taken in, too")
        if self.workers > 1:
            terminal.write_line(
                f"{self.workers} workers ran tests side by side: "
                "times are not comparable with those of a run without -n",
                yellow=True,
            )
        if self.trouble:
            terminal.write_line(
                f"warning: nothing was added to the history: {self.trouble}", yellow=True, bold=True
            )

    def _place(self) -> str:
        try:
            return str(Path(self.database).relative_to(self.directory))
        except ValueError:
            return self.database

    def _shown(self) -> Sequence[Record]:
        return shown_of(self.records)

    def _row(self, record: Record) -> tuple[str, str, str, str]:
        duration = record.metrics.get("duration")
        memory = next((record.metrics[name] for name in _MEMORY if name in record.metrics), None)
        return (
            visible(record.case.key),
            quantity(duration.value, duration.unit) if duration else "",
            quantity(memory.value, memory.unit) if memory else "",
            self._change(record) if record.status.ok else record.status.value,
        )

    def _change(self, record: Record) -> str:
        before, now = self.previous.get(record.case.key), record.metrics.get("duration")
        if before is None or now is None or not isinstance(now.value, int | float) or before <= 0:
            return ""
        if self.workers > 1:
            return "not comparable"
        change = now.value / before - 1
        if not math.isfinite(change):
            return ""
        return "same" if abs(change) < NOTABLE else f"{change:+.0%}"


def _without_empty_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    filled = [any(cells[1:]) for cells in zip(*rows, strict=True)]
    return [[cell for cell, is_filled in zip(row, filled, strict=True) if is_filled] for row in rows]


def shown_of(records: Sequence[Record]) -> Sequence[Record]:
    return records[:SHOWN]


def previous_values(store: "Store", records: Sequence[Record], environment_class: str) -> dict[str, float]:
    """The last duration that the history has of each case to be shown, measured in a place like this one."""
    found = {}
    for key in {record.case.key for record in shown_of(records)}:
        series = store.series(key, "duration", environment_class=environment_class)
        passed = [point for one in series for point in one.points if point.status == "passed"]
        if passed:
            found[key] = max(passed, key=lambda point: point.time).value
    return found
