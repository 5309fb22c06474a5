"""The first page: what needs somebody, what broke, the last night, and how the machines fared."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from paceline import __version__
from paceline.dashboard.broken import EXPERIMENT, Broken
from paceline.dashboard.frame import Frame, Head, Options
from paceline.dashboard.incidents import Incidents, short
from paceline.dashboard.record_pages import primary
from paceline.finding import SeriesKey
from paceline.findings.ranking import count
from paceline.history.store.columns import Columns, read_session_columns
from paceline.history.store.store import Store
from paceline.record.events import utc_now

SESSIONS_SHOWN = 60
ROWS_SHOWN = 40
SPARK_POINTS = 40

Summaries = Mapping[str, Mapping[str, Any]]
"""By a session's id, what `summarise` says of it."""


class Overview:
    """Makes the overview from a frame."""

    def __init__(self, store: Store, frame: Frame, options: Options) -> None:
        self._store = store
        self._frame = frame
        self._options = options
        self._class_of = {row[0]: row[2] for row in frame.environments}

    def page(self, summaries: Summaries, incidents: Incidents, broken: Broken) -> dict[str, Any]:
        frame, verdicts = self._frame, self._frame.verdicts
        newest = frame.newest()
        nights = [head for head in newest if head.kind != EXPERIMENT]
        broke = broken.page()
        return {
            "title": self._options.title,
            "made_at": utc_now(),
            "version": __version__,
            "newest": verdicts.newest,
            "forge": verdicts.repository.web_address() if verdicts.repository else "",
            "counts": {
                "cases": len(frame.groups),
                "sessions": len(frame.sessions),
                "records": len(frame.marks.ids),
            },
            "totals": {**count(verdicts.incidents).as_json(), "broken": broke["cases"]},
            "incidents": incidents.queue(),
            "broken": broke["groups"],
            "tags": [
                {"name": tag.name, "time": tag.time, "revision": revision}
                for revision, tags in verdicts.order.tags.items()
                for tag in tags
            ],
            "sessions": [
                {**frame.pack_head(head), **summaries.get(head.id, {})} for head in newest[:SESSIONS_SHOWN]
            ],
            "unsearched": verdicts.unsearched,
            "last": self._last_night(nights[0]) if nights else None,
            "environments": [[*row, verdicts.machines.get(row[2], "")] for row in frame.environments],
        }

    def _last_night(self, head: Head) -> dict[str, Any]:
        with self._store.database.reading():
            columns = read_session_columns(self._store.database, head.number)
        rows = list(self._rows(columns))
        bad_first = sorted(rows, key=lambda row: (row["status"] == "passed", row["case"]))
        shown = bad_first[:ROWS_SHOWN]
        self._add_sparks(shown)
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
                "version": self._frame.versions.get(record.case, ""),
            }

    def _add_sparks(self, rows: Sequence[dict[str, Any]]) -> None:
        """The last values of each row's series, in the one order; all cases are read in one go."""
        wanted: dict[SeriesKey, dict[str, Any]] = {}
        for row in rows:
            names = (row["case"], row["variant"], row["version"], row["metric"], row["unit"], row["class"])
            wanted[SeriesKey(*names)] = row
        cases = sorted({key.case for key in wanted})
        for series in self._store.iter_columns(cases=cases, judged_only=True) if cases else ():
            if series.key in wanted:
                values = self._frame.verdicts.order.points(series).values[-SPARK_POINTS:]
                wanted[series.key]["spark"] = [short(value) for value in values]


def _primary_of_each(columns: Columns) -> Sequence[Any]:
    """For each record the metric to show of it."""
    there = [(metric, ~np.isnan(metric.values)) for metric in columns.metrics]
    return [primary([metric for metric, has in there if has[place]]) for place in range(len(columns.records))]
