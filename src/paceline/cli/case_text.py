"""One case of a session as text: how it ended, what was measured, the end of its output."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from paceline.model import Record
from paceline.report.format import aligned, duration, measured, visible
from paceline.report.markdown import TAIL_LINES, output_tail
from paceline.report.table import complaints


def case_lines(record: Record, entry_dir: Path) -> Iterator[str]:
    """All that is worth a look, harmless to print."""
    yield visible(record.case.name)
    yield from aligned([(f"    {name}", visible(text)) for name, text in _facts(record) if text])
    yield from (f"    {line}" for line in complaints(record))
    yield from (f"    warning: {visible(warning)}" for warning in record.warnings)
    metrics = [f"    {measured(name, value)}" for name, value in sorted(record.metrics.items())]
    yield from ("", "Metrics", *metrics) if metrics else ()
    lines = output_tail(entry_dir, TAIL_LINES)
    yield from ("", "The last lines of its output", *(f"    {line}" for line in lines)) if lines else ()


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    yield "status", record.status.value.replace("_", " ")
    yield "started", record.started_at
    yield "time", duration(record.exec_time_s) if record.exec_time_s else ""
    yield "attempt", str(record.attempt) if record.attempt > 1 else ""
    yield "command", shlex.join(record.command)
    yield "revision", record.revision
