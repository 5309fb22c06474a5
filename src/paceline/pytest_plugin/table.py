"""The table at the end of a run of pytest: median and spread of each test, and whether it changed since last time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paceline.model import Measurement, Record, is_finite
from paceline.numbers import duration, interval, spread_note
from paceline.report.format import aligned, quantity, value_and_spread, visible

if TYPE_CHECKING:
    from paceline.history import Store
    from paceline.history.series import Point
    from paceline.judge import Comparison

SHOWN = 25
"""Lines of the table; a larger suite is better read with `paceline history`."""

LOOP_SHARE = 0.01
"""From which share of a value on the loop's own cost is worth a line."""

_MEMORY = ("peak_memory", "average_memory", "gpu_peak_memory_bytes", "peak_allocated_bytes")


def lines_of(records: Sequence[Record], since: Mapping[str, str]) -> Iterator[str]:
    """The table and what is to be said about it; `since` says how a test compares with its last run."""
    shown = records[:SHOWN]
    rows = [("test", "median", "memory", "since last"), *(_row(record, since) for record in shown)]
    columns = [cells for cells in zip(*rows, strict=True) if any(cells[1:])]
    yield from aligned(list(zip(*columns, strict=True)))
    if len(records) > SHOWN:
        yield f"… and {len(records) - SHOWN} more"
    yield from spread_note([row[1] for row in rows])
    costs = [cost for record in shown for cost in _loop_costs(record)]
    if costs:
        yield f"of each call, the loop around it takes {duration(max(costs))}"


def too_short(records: Sequence[Record]) -> Iterator[str]:
    """A line for each test with a round that is too short for the clock."""
    for record in records[:SHOWN]:
        for text in record.warnings:
            if "a round is so short" in text:
                yield f"{visible(record.case.key)}: {text}"


def _row(record: Record, since: Mapping[str, str]) -> tuple[str, str, str, str]:
    memory = next((record.metrics[name] for name in _MEMORY if name in record.metrics), None)
    return (
        visible(record.case.key),
        _middle(record.metrics.get("duration")),
        quantity(memory.value, memory.unit) if memory else "",
        since.get(record.case.key, "") if record.status.ok else record.status.value,
    )


def _middle(measured: Measurement | None) -> str:
    return "" if measured is None else " ".join(filter(None, value_and_spread("duration", measured)))


def _loop_costs(record: Record) -> Iterator[float]:
    for name, told in record.details.get("bench", {}).items():
        measured = record.metrics.get(name)
        if measured is not None and is_finite(measured.value):
            cost = told.get("loop_cost_s", 0.0)
            if cost > LOOP_SHARE * measured.value:
                yield cost


def changes_since(store: "Store", records: Sequence[Record], environment_class: str) -> dict[str, str]:
    """The verdict on each test to be shown, against its last run in a place like this one, with its interval."""
    found: dict[str, Comparison] = {}
    for record in records[:SHOWN]:
        measured = record.metrics.get("duration")
        samples = [float(one) for one in measured.samples if is_finite(one)] if measured else []
        if not record.status.ok or not samples:
            continue
        series = store.iter_columns(
            cases=[record.case.key],
            metrics=["duration"],
            environment_class=environment_class,
            samples=True,
        )
        like = [one for one in series if one.variant == record.case.variant]
        points = sorted(
            (point for one in like for point in one.points if point.status == "passed"),
            key=lambda point: point.time,
        )
        compared = _compared(points, samples)
        if compared is not None:
            found[record.case.key] = compared
    return _told(found)


def _compared(points: "Sequence[Point]", samples: Sequence[float]) -> "Comparison | None":
    """This run beside the last; None where nothing can be said, for want of samples and of earlier runs."""
    if not points:
        return None
    before = points[-1].samples or (points[-1].value,)
    from paceline.findings.between import noise_of  # numpy, once there is something to compare
    from paceline.judge.comparison import compare_sessions

    noise = noise_of([point.value for point in points])
    if noise is None and min(len(before), len(samples)) < 2:
        return None
    return compare_sessions([before], [samples], noise=noise)


def _told(compared: "Mapping[str, Comparison]") -> dict[str, str]:
    """In words; what is called a change is one after correction for all that is shown."""
    if not compared:
        return {}
    from paceline.judge.comparison import LEVEL
    from paceline.judge.discoveries import holm

    adjusted = holm([one.p_value for one in compared.values()])
    told = {}
    for (key, one), p_value in zip(compared.items(), adjusted, strict=True):
        if one.verdict in ("better", "worse") and p_value > 1 - LEVEL:
            one = replace(one, verdict="inconclusive")
        told[key] = f"{one.verdict}: {interval(one.ratio - 1, one.low - 1, one.high - 1)}"
    return told
