"""The files of a session: its records with all their numbers, what they were told, and a summary of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from paceline.dashboard.case_pages import LONGEST_REASON, letters, pack_metric
from paceline.dashboard.encoding import milliseconds, pack_floats, pack_ints
from paceline.dashboard.frame import Frame, Head
from paceline.history.store.columns import Columns, RecordRow, read_session_columns, read_settings
from paceline.history.store.database import Database

HEALTH = ("load_before", "other_cpu_cores", "cpu_pressure_pct", "memory_pressure_pct", "io_pressure_pct")
"""Metrics of a run that tell how busy the machine was with other things."""

_SESSION_DIR = "\ue000session\ue000"


def session_page(database: Database, frame: Frame, head: Head) -> tuple[dict[str, Any], dict[str, Any]]:
    """A session's page and its summary."""
    with database.reading():
        columns = read_session_columns(database, head.number)
        settings = read_settings(database, [record.setting for record in columns.records])
    page = {
        "session": frame.pack_head(head),
        "directory": head.directory,
        **_pack_records(frame, columns.records),
        "settings": {str(number): _setting(text, head) for number, text in settings.items()},
        "metrics": [pack_metric(metric) for metric in columns.metrics],
    }
    return page, summarise(columns, frame)


def _setting(text: str, head: Head) -> Any:
    quoted = orjson.dumps(head.directory)[1:-1].decode()
    return orjson.Fragment(text.replace(_SESSION_DIR, quoted) or "{}")


def _pack_records(frame: Frame, records: Sequence[RecordRow]) -> dict[str, Any]:
    names = [frame.case_names[record.case] for record in records]
    return {
        "n": len(records),
        "case": [name for name, _, _ in names],
        "variant": {str(place): variant for place, (_, variant, _) in enumerate(names) if variant},
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
        "reason": {
            str(place): record.reason[: 10 * LONGEST_REASON]
            for place, record in enumerate(records)
            if record.reason
        },
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
    return {
        "counts": dict(Counter(record.status for record in entries)),
        "seconds": round(sum(times), 3),
        "environments": sorted({record.environment for record in entries}),
        "health": _health(columns),
        **({"variants": variants} if (variants := _variants(entries, frame)) else {}),
    }


def _variants(records: Sequence[RecordRow], frame: Frame) -> list[str]:
    return sorted({frame.case_names[record.case][1] for record in records} - {""})


def _health(columns: Columns) -> Mapping[str, float]:
    found = {}
    for metric in columns.metrics:
        if metric.name in HEALTH:
            found[metric.name] = round(float(np.nanmedian(metric.values)), 4)
    return found
