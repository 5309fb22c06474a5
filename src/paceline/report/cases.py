"""What a reader wants to know of a session's cases: their most telling numbers, what is wrong, how it all ended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paceline.metrics import KNOWN
from paceline.model import Measurement, Record, Report, Severity, Status, is_number
from paceline.numbers import count, duration, spread_note
from paceline.report.format import aligned, checked, measured, tolerance_of, unit_beside, visible

MOST_ROWS = 50
"""Past this many cases the table is for finding what is wrong: failures first, passed ones capped."""
MOST_FAILURES = 200
MOST_METRICS = 3
MOST_FINDINGS = 20

_LEAST_TELLING = "peak_memory_bytes"
_TIME = "exec_time_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case: what it was, how it ended, its most telling numbers, why it is not good, and what is not known."""

    case: str
    status: Status
    time: str
    metrics: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows that are shown, and how many were left out."""

    rows: tuple[Row, ...]
    hidden_failed: int = 0
    hidden_passed: int = 0

    @property
    def footnotes(self) -> tuple[str, ...]:
        hidden = (("failed", self.hidden_failed), ("passed", self.hidden_passed))
        spreads = spread_note([text for row in self.rows for text in row.metrics])
        return (*(f"… and {number:,} more {what}" for what, number in hidden if number), *spreads)


class Chosen(NamedTuple):
    """The records that are shown, and how many others there are."""

    records: Sequence[Record]
    hidden_failed: int = 0
    hidden_passed: int = 0


def choose_records(report: Report, *, everything: bool = False) -> Chosen:
    """The records in plan order, or failures first and not all when there are many; each is read once at most."""
    total = sum(report.counts.values())
    if total <= MOST_ROWS or everything:
        return Chosen(report.records)
    all_passed = report.counts.get(Status.PASSED, 0)
    most_failed = min(total - all_passed, MOST_FAILURES)
    failed: list[Record] = []
    passed: list[Record] = []
    for record in report.records:
        records, most = (passed, MOST_ROWS) if record.status.ok else (failed, most_failed)
        if len(records) < most:
            records.append(record)
        elif len(failed) == most_failed and len(passed) >= MOST_ROWS - most_failed:
            break
    shown_passed = passed[: max(0, MOST_ROWS - len(failed))]
    return Chosen(
        [*failed, *shown_passed],
        hidden_failed=total - all_passed - len(failed),
        hidden_passed=all_passed - len(shown_passed),
    )


def make_table(report: Report) -> Table:
    """The rows of a report."""
    chosen = choose_records(report)
    rows = tuple(_row(record) for record in chosen.records)
    return Table(rows=rows, hidden_failed=chosen.hidden_failed, hidden_passed=chosen.hidden_passed)


def _row(record: Record) -> Row:
    return Row(
        case=visible(record.case.name),
        status=record.status,
        time=duration(record.exec_time_s) if record.exec_time_s else "",
        metrics=tuple(measured(name, value) for name, value in key_metrics(record)),
        complaints=(*complaints(record), *(f"warning: {line}" for line in _unmet(record, "warn"))),
        notes=marks(record),
    )


def key_metrics(record: Record) -> list[tuple[str, Measurement]]:
    """The numbers a reader looks for: what has a requirement, then the script's own, with a direction first."""
    # That `is_success` is true goes without saying in a case that passed.
    numbers = {name: measured for name, measured in record.metrics.items() if is_number(measured.value)}
    asked = [check.metric for check in record.requirements if check.metric in numbers]
    # Every case has the runner's own metrics, and the timings of a script's parts.
    own = [name for name in numbers if name not in KNOWN and not name.startswith("task_")]
    own.sort(key=lambda name: numbers[name].direction is None)
    usual = [_LEAST_TELLING] if record.status.ok and _LEAST_TELLING in numbers else []
    names = list(dict.fromkeys([*asked, *own, *usual]))[:MOST_METRICS]
    return [(name, numbers[name]) for name in names]


def primary_metric(record: Record) -> str | None:
    """The one number that a case is about: the first of those that can be better or worse, else its time."""
    known = [name for name, metric in key_metrics(record) if metric.direction and name != _LEAST_TELLING]
    found = known[0] if known else _TIME
    return found if found in record.metrics and is_number(record.metrics[found].value) else None


def complaints(record: Record) -> tuple[str, ...]:
    """Why a case failed, a line each: its unmet requirements, else the reason."""
    unmet_ones = tuple(_unmet(record, "fail"))
    if record.status.ok or (unmet_ones and record.status is Status.REQUIREMENT_FAILED):
        return unmet_ones
    return (visible(record.reason), *unmet_ones) if record.reason else unmet_ones


def marks(record: Record) -> tuple[str, ...]:
    """What keeps a record's numbers from being judged, a line each."""
    found = [f"not judged: {checked(check)}" for check in record.requirements if not check.judged]
    if not record.is_measurable:
        found.append(visible(f"not measurable: {record.disturbance}"))
    return tuple(found)


def _unmet(record: Record, severity: Severity) -> Iterator[str]:
    for check in record.requirements:
        if not check.ok and check.severity == severity:
            found = record.metrics.get(check.metric)
            unit = unit_beside(check.metric, found.unit) if found else None
            yield checked(check, tolerance_of(check, record.case.requirements), unit)


def finding_lines(report: Report) -> list[str]:
    """What the judges found, a line each; what fails the session first."""
    ordered = sorted(report.findings, key=lambda finding: not finding.fails)
    lines = [visible(f"{one.word}: {one.case} {one.metric}: {one.message}") for one in ordered]
    hidden = len(lines) - MOST_FINDINGS
    more = [f"… and {hidden:,} more findings in report.json"] if hidden > 0 else []
    return [*lines[:MOST_FINDINGS], *more]


def plain_lines(table: Table) -> Iterator[str]:
    """The table as aligned text; complaints stand indented under their case."""
    if not table.rows:
        return
    cells = [(row.case, row.status.value, row.time, "  ".join(row.metrics)) for row in table.rows]
    header, *lines = aligned([("case", "status", "time", "metrics"), *cells])
    yield header
    for row, line in zip(table.rows, lines, strict=True):
        yield line
        yield from (f"    {line}" for line in (*row.complaints, *row.notes))
    yield from table.footnotes


def summary(report: Report, elapsed_s: float | None = None) -> str:
    """One line: how many ended how, how many never began, and how long it all took."""
    missing = not_run(report)
    total = sum(report.counts.values()) + len(report.done_before) + missing
    ended = ((status.value.replace("_", " "), report.counts.get(status)) for status in Status)
    before = ("done before", len(report.done_before))
    parts = [f"{number:,} {words}" for words, number in (*ended, before, ("not run", missing)) if number]
    text = f"{', '.join(parts) or 'nothing ran'} of {count(total, 'case')}"
    if elapsed_s is not None:
        text += f" in {duration(elapsed_s)}"
    text += f"; {count(report.unjudged, 'requirement')} not judged" if report.unjudged else ""
    worse = sum(finding.fails for finding in report.findings)
    text += f"; {count(worse, 'regression')}" if worse else ""
    return f"Interrupted: {text}" if report.interrupted else text


def not_run(report: Report) -> int:
    """How many cases of the plan have no outcome: the session ended before they began."""
    planned = len(report.plan.setups) + len(report.plan.cases)
    return max(0, planned - sum(report.counts.values()) - len(report.done_before))
