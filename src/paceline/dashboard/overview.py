"""The first page: what got worse, better or broke, the last night, and how the machines fared."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from paceline import __version__
from paceline.dashboard.frame import Frame, Head, Options
from paceline.dashboard.record_pages import STATUS_LETTERS, primary
from paceline.history.store.columns import (
    Columns,
    Ints,
    RecordRow,
    groups,
    read_case,
    read_case_records,
    read_records,
    read_session_columns,
)
from paceline.history.store.database import Database
from paceline.model import Status
from paceline.record.events import utc_now

EXPERIMENT = "ab"
"""The kind of session that is a trial of an A/B test: no night, and no reason to call a case broken."""
SESSIONS_SHOWN = 60
ROWS_SHOWN = 200
SPARKS_SHOWN = 60
SPARK_POINTS = 40
FINDINGS_SHOWN = 60
FINDING_POINTS = 150
BROKEN_SHOWN = 60
_HIGH = 1 << 31
"""No record has a number as high."""

_FINE = frozenset({Status.PASSED, Status.SKIPPED})

Summaries = Mapping[str, Mapping[str, Any]]
"""By a session's id, what `summarise` says of it."""


class Overview:
    """Makes the overview from a frame."""

    def __init__(self, database: Database, frame: Frame, options: Options) -> None:
        self._database = database
        self._frame = frame
        self._options = options
        self._groups = {group.key: group for group in frame.groups}
        self._class_of = {row[0]: row[2] for row in frame.environments}
        self._ranks = _ranks(frame)
        self._latest: tuple[list[int], dict[str, RecordRow]] | None = None

    def page(self, summaries: Summaries) -> dict[str, Any]:
        newest = self._frame.newest()
        nights = [head for head in newest if head.kind != EXPERIMENT]
        return {
            "title": self._options.title,
            "made_at": utc_now(),
            "version": __version__,
            "counts": {
                "cases": len(self._frame.groups),
                "sessions": len(self._frame.sessions),
                "records": len(self._frame.marks.ids),
            },
            "sessions": [
                {**self._frame.pack_head(head), **summaries.get(head.id, {})}
                for head in newest[:SESSIONS_SHOWN]
            ],
            "findings": [self._finding(found) for found in self._frame.verdicts.findings[:FINDINGS_SHOWN]],
            "more_findings": max(0, len(self._frame.verdicts.findings) - FINDINGS_SHOWN),
            "unsearched": self._frame.verdicts.unsearched,
            "broken": list(self._broken()),
            "last": self._last_night(nights[0]) if nights else None,
            "environments": [list(row) for row in self._frame.environments],
        }

    def latest(self, *, trials: bool = True) -> dict[str, RecordRow]:
        """The last record of each case, by the start of its session; with or without the trials of experiments."""
        heads = self._frame.sessions.values()
        hidden = [] if trials else [head.number for head in heads if head.kind == EXPERIMENT]
        # The search asks for the same a moment later, and there are seldom any trials.
        if self._latest is None or hidden != self._latest[0]:
            self._latest = hidden, self._find_latest(hidden)
        return self._latest[1]

    def _find_latest(self, hidden: list[int]) -> dict[str, RecordRow]:
        marks = self._frame.marks
        ranks = self._ranks.copy()
        ranks[hidden] = -1
        found: dict[str, RecordRow] = {}
        order, starts = groups(marks.cases)
        if not len(starts):
            return found
        # One number that is the greater the later: the session's rank before the record's number.
        last = np.maximum.reduceat((ranks[marks.sessions] * _HIGH + marks.ids)[order], starts)
        with self._database.reading():
            rows = read_records(self._database, (last[last >= 0] % _HIGH).tolist())
        for row in sorted(rows, key=lambda row: (row.started_at, row.id)):
            key, _, kind = self._frame.case_names[row.case]
            if kind == "entry":
                found[key] = row
        return found

    def _broken(self) -> Iterator[dict[str, Any]]:
        """Cases whose last record is not good, with the first session of that; the newest break first."""
        bad = [
            (key, row) for key, row in self.latest(trials=False).items() if Status(row.status) not in _FINE
        ]
        bad.sort(key=lambda item: item[1].started_at, reverse=True)
        for key, row in bad[:BROKEN_SHOWN]:
            yield {"case": key, "status": row.status, "reason": row.reason or "", **self._since(key)}

    def _since(self, key: str) -> dict[str, Any]:
        with self._database.reading():
            rows = read_case_records(self._database, self._groups[key])
        rows = [row for row in rows if self._frame.sessions[row.session].kind != EXPERIMENT]
        rows.sort(key=lambda row: (row.started_at, row.id))
        last_good = max((place for place, row in enumerate(rows) if Status(row.status) in _FINE), default=-1)
        first_bad = self._frame.sessions[rows[last_good + 1].session]
        good = None if last_good < 0 else self._frame.pack_head(self._frame.sessions[rows[last_good].session])
        strip = "".join(STATUS_LETTERS[row.status] for row in rows[-SPARK_POINTS:])
        return {
            "first_bad": self._frame.pack_head(first_bad),
            "last_good": good,
            "strip": strip,
            "runs": len(rows) - last_good - 1,
        }

    def _last_night(self, head: Head) -> dict[str, Any]:
        with self._database.reading():
            columns = read_session_columns(self._database, head.number)
        rows = list(self._rows(columns))
        bad_first = sorted(rows, key=lambda row: (row["status"] == "passed", row["case"]))
        shown = bad_first[:ROWS_SHOWN]
        for row in shown[:SPARKS_SHOWN]:
            if row["metric"]:
                row["spark"] = self._spark(row["case"], row["metric"], SPARK_POINTS, row["class"])["values"]
        return {"session": self._frame.pack_head(head), "rows": shown, "more": len(rows) - len(shown)}

    def _rows(self, columns: Columns) -> Iterator[dict[str, Any]]:
        metric_of = _primary_of_each(columns)
        for place, record in enumerate(columns.records):
            key, variant, kind = self._frame.case_names[record.case]
            if kind != "entry":
                continue
            metric = metric_of[place]
            yield {
                **{"case": key, "variant": variant, "status": record.status, "seconds": record.exec_time_s},
                "metric": metric.name if metric else "",
                "unit": metric.unit if metric else "",
                "direction": metric.direction if metric else "",
                "value": float(metric.values[place]) if metric else None,
                "reason": (record.reason or "")[:200],
                "class": self._class_of[record.environment],
            }

    def _finding(self, found: Mapping[str, Any]) -> dict[str, Any]:
        spark = self._spark(
            str(found.get("case")), str(found.get("metric")), FINDING_POINTS, found.get("environment_class")
        )
        return {**found, "spark": spark}

    def _spark(self, key: str, metric: str, points: int, machines: str | None = None) -> dict[str, Any]:
        """The last values of a metric, with the sessions they are of; of one class of machines only, if it is said."""
        group = self._groups.get(key)
        if group is None:
            return {"values": [], "sessions": []}
        with self._database.reading():
            columns = read_case(self._database, group, self._frame.of_case(group).ids[-points:], metric)
        column = next((column for column in columns.metrics if column.name == metric), None)
        if column is None:
            return {"values": [], "sessions": []}
        wanted = [machines in (None, self._class_of[record.environment]) for record in columns.records]
        there: list[int] = np.flatnonzero(~np.isnan(column.values) & np.array(wanted)).tolist()
        order = sorted(there, key=lambda place: columns.records[place].started_at)[-points:]
        return {
            "values": [float(f"{column.values[place]:.5g}") for place in order],
            "sessions": [self._frame.sessions[columns.records[place].session].name for place in order],
            "unit": column.unit,
            "direction": column.direction,
        }


def _ranks(frame: Frame) -> Ints:
    """For the number of each session its place among all by their start."""
    numbers = [head.number for head in reversed(frame.newest())]
    table = np.zeros(max(numbers, default=0) + 1, dtype=np.int64)
    table[numbers] = np.arange(len(numbers))
    return table


def _primary_of_each(columns: Columns) -> Sequence[Any]:
    """For each record the metric to show of it."""
    there = [(metric, ~np.isnan(metric.values)) for metric in columns.metrics]
    return [primary([metric for metric, has in there if has[place]]) for place in range(len(columns.records))]
