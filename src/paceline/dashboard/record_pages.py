"""The files of a case and of a session: their records as columns, and a summary of a session.

What is new in a case since the last build goes into a small file; the large one beside it is left alone until the small
one has grown, so that a night costs little however long the history is.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar
from zlib import crc32

import numpy as np
import orjson

from paceline.dashboard.encoding import milliseconds, pack_floats, pack_ints
from paceline.dashboard.frame import Frame, Head
from paceline.findings.belief import is_work
from paceline.history.store.columns import (
    CaseGroup,
    Columns,
    MetricColumn,
    RecordRow,
    read_session_columns,
    read_settings,
)
from paceline.history.store.database import Database
from paceline.metrics import is_steady

LONGEST_REASON = 300
HEALTH = ("load_before", "other_cpu_cores", "cpu_pressure_pct", "memory_pressure_pct", "io_pressure_pct")
"""Metrics of a run that tell how busy the machine was with other things."""

_DISTURBED = "SELECT id, disturbed FROM record WHERE session_id = ? AND disturbed IS NOT NULL"
_SESSION_DIR = "\ue000session\ue000"
_OF_EVERY_RUN = frozenset(
    {
        *("exec_time_s", "cpu_user_s", "cpu_system_s", "peak_memory_bytes", "mean_memory_bytes"),
        *("gpu_peak_memory_bytes", "exit_code", "returncode"),
    }
)
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


def version_mark(version: str) -> int:
    """A number for a version of a case, which may be a long text: pages only ask whether two are the same."""
    return crc32(version.encode("utf-8", "replace")) >> 1


def _sparse(texts: Sequence[str | None]) -> dict[str, str]:
    return {str(place): text for place, text in enumerate(texts) if text}


def pack_metric(metric: MetricColumn) -> dict[str, Any]:
    """A metric's column."""
    packed: dict[str, Any] = {"name": metric.name, "unit": metric.unit, "direction": metric.direction}
    packed["values"] = pack_floats(metric.values)
    if len(metric.samples):
        packed |= {"counts": pack_ints(metric.counts), "samples": pack_floats(metric.samples)}
    return packed


_Metric = TypeVar("_Metric", bound="Directed")


class Directed(Protocol):
    """A metric, as far as choosing one takes it."""

    @property
    def name(self) -> str: ...

    @property
    def direction(self) -> str: ...


def primary(metrics: Sequence[_Metric]) -> _Metric | None:
    """The metric to show where there is room for one: the benchmark's own first that can be judged."""
    judged = [metric for metric in metrics if metric.direction]
    own = [metric for metric in judged if metric.name not in _OF_EVERY_RUN]
    walls = [metric for metric in judged if metric.name == "exec_time_s"]
    return next(iter([*own, *walls, *judged, *metrics]), None)


def session_page(database: Database, frame: Frame, head: Head) -> tuple[dict[str, Any], dict[str, Any]]:
    """A session's page and its summary."""
    with database.reading():
        columns = read_session_columns(database, head.number)
        settings = read_settings(database, [record.setting for record in columns.records])
        disturbed: dict[int, str] = dict(database.rows(_DISTURBED, (head.number,)))
    directory = orjson.dumps(head.directory)[1:-1].decode()
    page = {
        "session": frame.pack_head(head),
        "directory": head.directory,
        **_pack_records(frame, columns.records),
        "disturbed": _sparse([disturbed.get(record.id) for record in columns.records]),
        "settings": {
            str(number): orjson.Fragment(text.replace(_SESSION_DIR, directory) or "{}")
            for number, text in settings.items()
        },
        "metrics": [{**pack_metric(metric), **_kind(metric)} for metric in columns.metrics],
    }
    return page, summarise(columns, frame)


def _kind(metric: MetricColumn) -> dict[str, Any]:
    """What a comparison has to know of a metric: whether a busy machine changes it, and whether it counts work."""
    steady, work = is_steady(metric.name, metric.unit or None), is_work(metric.name, metric.direction)
    return {**({"steady": True} if steady else {}), **({"work": True} if work else {})}


def _pack_records(frame: Frame, records: Sequence[RecordRow]) -> dict[str, Any]:
    names = [frame.case_names[record.case] for record in records]
    return {
        "n": len(records),
        "case": [name for name, _, _ in names],
        "variant": {str(place): variant for place, (_, variant, _) in enumerate(names) if variant},
        "version": pack_ints([version_mark(frame.versions.get(record.case, "")) for record in records]),
        "setup": [place for place, (_, _, kind) in enumerate(names) if kind == "data_setup"],
        "status": letters(records),
        "time": pack_floats(milliseconds([record.started_at for record in records])),
        "seconds": pack_floats(
            [np.nan if record.exec_time_s is None else record.exec_time_s for record in records]
        ),
        "environment": pack_ints([record.environment for record in records]),
        "setting": pack_ints([record.setting for record in records]),
        "attempt": pack_ints([record.attempt for record in records]),
        "source": pack_ints([record.source or 0 for record in records]),
        "reason": _sparse([(record.reason or "")[: 10 * LONGEST_REASON] for record in records]),
        "outcome": {
            str(place): orjson.Fragment(record.outcome)
            for place, record in enumerate(records)
            if record.outcome
        },
    }


def summarise(columns: Columns, frame: Frame) -> dict[str, Any]:
    """What lists and the overview say of a session."""
    last = {record.case: record for record in sorted(columns.records, key=lambda record: record.attempt)}
    entries = [record for record in last.values() if frame.case_names[record.case][2] == "entry"]
    times = [record.exec_time_s for record in entries if record.exec_time_s is not None]
    variants = sorted({frame.case_names[record.case][1] for record in entries} - {""})
    return {
        "counts": dict(Counter(record.status for record in entries)),
        "seconds": round(sum(times), 3),
        "environments": sorted({record.environment for record in entries}),
        "health": {
            metric.name: round(float(np.nanmedian(metric.values)), 4)
            for metric in columns.metrics
            if metric.name in HEALTH
        },
        **({"variants": variants} if variants else {}),
    }
