"""The files of a case: all its records as columns.

What is new since the last build goes into a small file; the large one beside it is left alone until the small one has
grown, so that a night costs little however long the history is.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.dashboard.encoding import milliseconds, pack_floats, pack_ints
from paceline.history.store.columns import CaseGroup, Columns, MetricColumn, RecordRow

LONGEST_REASON = 300

STATUS_LETTERS: Mapping[str, str] = {
    "passed": "p",
    "failed": "f",
    "requirement_failed": "r",
    "timeout": "t",
    "launch_error": "l",
    "infra_error": "e",
    "skipped": "s",
    "interrupted": "i",
}


def letters(records: Sequence[RecordRow]) -> str:
    """How each record ended, a letter each."""
    return "".join(STATUS_LETTERS.get(record.status, "f") for record in records)


def pack_case(group: CaseGroup, columns: Columns) -> dict[str, Any]:
    """A stretch of a case's records."""
    records = columns.records
    kinds = {number: place for place, (number, _, _) in enumerate(group.rows)}
    return {
        "n": len(records),
        "session": pack_ints([record.session for record in records]),
        "time": pack_floats(milliseconds([record.started_at for record in records])),
        "status": letters(records),
        "environment": pack_ints([record.environment for record in records]),
        "kind": pack_ints([kinds[record.case] for record in records]),
        "attempt": pack_ints([record.attempt for record in records]),
        "source": pack_ints([record.source or 0 for record in records]),
        "revision": _sparse([record.revision for record in records]),
        "reason": _sparse([(record.reason or "")[:LONGEST_REASON] for record in records]),
        "metrics": [pack_metric(metric) for metric in columns.metrics],
    }


def _sparse(texts: Sequence[str | None]) -> dict[str, str]:
    return {str(place): text for place, text in enumerate(texts) if text}


def pack_metric(metric: MetricColumn) -> dict[str, Any]:
    """A metric's column."""
    packed: dict[str, Any] = {"name": metric.name, "unit": metric.unit, "direction": metric.direction}
    packed["values"] = pack_floats(metric.values)
    if len(metric.samples):
        packed |= {"counts": pack_ints(metric.counts), "samples": pack_floats(metric.samples)}
    return packed


_OF_EVERY_RUN = frozenset(
    {
        *("exec_time_s", "cpu_user_s", "cpu_system_s", "peak_memory_bytes", "mean_memory_bytes"),
        *("gpu_peak_memory_bytes", "exit_code", "returncode"),
    }
)


def primary(metrics: Sequence[MetricColumn]) -> MetricColumn | None:
    """The metric to show where there is room for one: the benchmark's own first that can be judged."""
    judged = [metric for metric in metrics if metric.direction]
    own = [metric for metric in judged if metric.name not in _OF_EVERY_RUN]
    walls = [metric for metric in judged if metric.name == "exec_time_s"]
    return next(iter([*own, *walls, *judged, *metrics]), None)
