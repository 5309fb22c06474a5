"""All cases in a list that can be searched: how the last record of each ended, its main value and how that went."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from paceline.dashboard.facets import Facets
from paceline.dashboard.frame import Frame
from paceline.dashboard.incidents import short
from paceline.dashboard.record_pages import letters, primary, version_mark
from paceline.findings.between import moderated, noise_of
from paceline.findings.owners import read_owners
from paceline.history.store.columns import (
    CaseGroup,
    Ints,
    RecordRow,
    groups,
    read_case,
    read_records,
    read_settings,
)
from paceline.history.store.database import Database
from paceline.judge.comparison import Noise
from paceline.metrics import is_steady
from paceline.record.codec import load

TREND = 24
"""Values of a case's main metric that a list shows."""
_LOOKED_AT = 60
_MEASURED = frozenset({"passed", "requirement_failed"})
_DISTURBED = "SELECT id FROM record WHERE disturbed IS NOT NULL"
_HIGH = 1 << 31
"""No record has a number as high."""


class Metric(NamedTuple):
    """A metric that a case has or had."""

    name: str
    unit: str
    direction: str


class Latest:
    """The last record of each case, in the one order, and what it says."""

    def __init__(self, database: Database, frame: Frame) -> None:
        self._database = database
        self._frame = frame
        self._class_of = {row[0]: row[2] for row in frame.environments}
        self._ranks = _rank_table(frame)
        self.rows = self._find()
        with database.reading():
            texts = read_settings(database, [row.setting for row in self.rows.values()])
            self._metrics: dict[int, list[Metric]] = {}
            for case, *metric in database.rows(
                "SELECT case_id, name, unit, direction FROM series ORDER BY id"
            ):
                self._metrics.setdefault(case, []).append(Metric(*metric))
            self._disturbed = {number for (number,) in database.rows(_DISTURBED)}
        self._settings = {number: load(text.encode()) if text else {} for number, text in texts.items()}

    def _find(self) -> dict[str, RecordRow]:
        marks = self._frame.marks
        order, starts = groups(marks.cases)
        if not len(starts):
            return {}
        # One number that is the greater the later: the session's rank before the record's number.
        last = np.maximum.reduceat((self._ranks[marks.sessions] * _HIGH + marks.ids)[order], starts)
        with self._database.reading():
            rows = {row.id: row for row in read_records(self._database, (last % _HIGH).tolist())}
        found: dict[str, RecordRow] = {}
        for number in sorted(last.tolist()):
            row = rows.get(number % _HIGH)
            key, _, kind = self._frame.case_names[row.case] if row else ("", "", "")
            if row and kind == "entry":
                found[key] = row
        return found

    @cached_property
    def facets(self) -> Facets:
        """The tags of each case, and the files that its command names."""
        settings = {key: self._settings.get(row.setting, {}) for key, row in self.rows.items()}
        return Facets(
            owners=read_owners(self._frame.verdicts.repository),
            tags={key: list(map(str, one.get("tags", ()))) for key, one in settings.items()},
            paths={key: _files_of(one.get("command", ())) for key, one in settings.items()},
        )

    def metrics_of(self, group: CaseGroup) -> list[Metric]:
        """All metrics of a case under any of its rows."""
        found = (metric for number, _, _ in group.rows for metric in self._metrics.get(number, ()))
        return list({metric[:2]: metric for metric in found}.values())

    def trend(self, group: CaseGroup) -> dict[str, Any]:
        """The main metric of a case: its values in the series of its last record, and the noise of each series."""
        row, metric = self.rows.get(group.key), primary(self.metrics_of(group))
        if row is None or metric is None:
            return {}
        marks = self._frame.of_case(group)
        newest = np.sort(marks.ids[np.argsort(self._ranks[marks.sessions], kind="stable")[-_LOOKED_AT:]])
        with self._database.reading():
            columns = read_case(self._database, group, newest, metric.name)
        values = next((one.values for one in columns.metrics if one.unit == metric.unit), None)
        if values is None:
            return {}
        series = self._series(columns.records, values, steady=is_steady(metric.name, metric.unit or None))
        last = (row.case, self._class_of.get(row.environment, ""))
        heard = {key: noise_of(several) for key, several in series.items()}
        return {
            **{"metric": metric.name, "unit": metric.unit, "direction": metric.direction},
            "values": [short(value) for value in series.get(last, ())[-TREND:]],
            "noise": [
                self._pack_noise(*key, noise)
                for key, noise in sorted(heard.items(), key=lambda one: one[0] != last)
                if noise
            ],
        }

    def _series(
        self, records: Iterable[RecordRow], values: Iterable[float], *, steady: bool
    ) -> dict[tuple[int, str], list[float]]:
        """The values that are judged, in the one order, by the row of the case and the class of machines."""
        order, heads = self._frame.verdicts.order, self._frame.sessions
        points = sorted(
            (int(self._ranks[one.session]), one.id, one, float(value))
            for one, value in zip(records, values, strict=True)
        )
        found: dict[tuple[int, str], list[float]] = {}
        for _, number, one, value in points:
            is_aside = (one.revision or heads[one.session].revision) in order.aside
            if (
                one.status in _MEASURED
                and value == value
                and not is_aside
                and (steady or number not in self._disturbed)
            ):
                found.setdefault((one.case, self._class_of.get(one.environment, "")), []).append(value)
        return found

    def _pack_noise(self, case: int, class_id: str, noise: Noise) -> list[Any]:
        """What is known of a series' noise, after what it is by which a page finds it."""
        mark = version_mark(self._frame.versions.get(case, ""))
        return [
            self._frame.case_names[case][1],
            mark,
            class_id,
            noise.relative,
            noise.absolute,
            noise.freedom,
        ]

    def index(self, trends: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """All cases as columns; names of metrics and tags are written once."""
        names, tags, tagged = _Words(), _Words(), self.facets.tags
        listed = [group for group in self._frame.groups if group.key in self.rows]
        rows = [self.rows[group.key] for group in listed]
        return {
            "case": [group.key for group in listed],
            "records": [len(self._frame.of_case(group).ids) for group in listed],
            "status": letters(rows),
            "last": [row.started_at for row in rows],
            "trend": _with_noise([trends.get(group.key, {}) for group in listed]),
            "metrics": [names.places(metric.name for metric in self.metrics_of(group)) for group in listed],
            "tags": [tags.places(tagged[group.key]) for group in listed],
            "metric_names": names.words,
            "tag_names": tags.words,
        }


def _with_noise(trends: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The trends with their noises drawn towards what all have in common, as a comparison has them."""
    names = ("relative", "absolute", "freedom")
    told = [(at, one) for at, trend in enumerate(trends) for one in trend.get("noise", ())]
    noises = moderated(
        {place: Noise(**dict(zip(names, one[3:], strict=True))) for place, (_, one) in enumerate(told)}
    )
    packed: dict[int, list[Any]] = {}
    for place, (at, one) in enumerate(told):
        noise = noises[place]
        packed.setdefault(at, []).append([*one[:3], noise.relative, noise.absolute, noise.freedom])
    return [{**one, **({"noise": packed.get(at, [])} if one else {})} for at, one in enumerate(trends)]


def _rank_table(frame: Frame) -> Ints:
    """For the number of each session its place in the one order."""
    ranks = frame.session_ranks()
    table = np.zeros(max(ranks, default=0) + 1, dtype=np.int64)
    table[list(ranks)] = list(ranks.values())
    return table


def _files_of(command: Iterable[Any]) -> list[str]:
    """The arguments of a command that look like files of a repository."""
    words = (str(word).partition("::")[0] for word in command)
    return [word for word in words if "." in word.rpartition("/")[2] and not word.startswith(("-", "/"))]


class _Words:
    """Words by their places in a list."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def words(self) -> list[str]:
        return list(self._places)

    def places(self, words: Iterable[str]) -> list[int]:
        return [self._places.setdefault(word, len(self._places)) for word in dict.fromkeys(words)]
