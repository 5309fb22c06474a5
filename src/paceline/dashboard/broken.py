"""Cases that do not pass any more: since when, and why; those with one reason together.

What counts is the last record of each series in the one order, if the series still gets records.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from paceline.dashboard.facets import Facets
from paceline.dashboard.frame import Frame, Head
from paceline.dashboard.record_pages import LONGEST_REASON, letters
from paceline.findings.ranking import days_between
from paceline.findings.telling import ENDED_DAYS
from paceline.history.store.columns import CaseGroup, RecordRow, read_case_records, read_records
from paceline.history.store.database import Database
from paceline.model import Status

EXPERIMENT = "ab"
"""The kind of session that is a trial of an A/B test: no night, and no reason to call a case broken."""
MOST_DETAILED = 60
STRIP = 40
_FINE = frozenset({Status.PASSED, Status.SKIPPED})
_RECORDS = "SELECT id, session_id, case_id, environment_id, status FROM record WHERE session_id = ?"
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*|0x[0-9a-f]+")


class Series(NamedTuple):
    """The records that stand for each other: of a case, a variant and a class of machines."""

    case: str
    variant: str
    machines: str


class Broken:
    """Looks for them in a frame of the history."""

    def __init__(self, database: Database, frame: Frame, facets: Facets) -> None:
        self._database = database
        self._frame = frame
        self._facets = facets
        self._class_of: dict[int, str] = {row[0]: row[2] for row in frame.environments}
        self._groups: Mapping[str, CaseGroup] = {group.key: group for group in frame.groups}
        self._ranks = frame.session_ranks()

    def page(self) -> dict[str, Any]:
        """All of them, by their reasons: what most cases have in common first."""
        found = self._find()
        with self._database.reading():
            rows = {row.id: row for row in read_records(self._database, sorted(found.values()))}
        told = [(series, rows[number]) for series, number in found.items() if number in rows]
        told.sort(key=lambda one: (_reason_key(one[1]), one[0]))
        groups = [list(several) for _, several in groupby(told, lambda one: _reason_key(one[1]))]
        groups.sort(key=lambda several: (-len({series.case for series, _ in several}), several[0][0]))
        detailed = {series for series, _ in [one for several in groups for one in several][:MOST_DETAILED]}
        return {
            "cases": len({series.case for series in found}),
            "groups": [self._pack(several, detailed) for several in groups],
        }

    def _find(self) -> dict[Series, int]:
        """The last record of each series that still gets some, if it did not pass."""
        last: dict[Series, tuple[int, int, str]] = {}
        with self._database.reading():
            for head in self._alive():
                rank = self._ranks[head.number]
                for number, _, case, environment, status in self._database.rows(_RECORDS, (head.number,)):
                    key, variant, kind = self._frame.case_names[case]
                    series = Series(key, variant, self._class_of.get(environment, ""))
                    if kind == "entry" and last.get(series, (-1, -1, ""))[:2] < (rank, number):
                        last[series] = rank, number, status
        return {series: number for series, (_, number, status) in last.items() if Status(status) not in _FINE}

    def _alive(self) -> Iterator[Head]:
        newest = self._frame.newest()
        for head in newest:
            if head.kind != EXPERIMENT and days_between(head.started_at, newest[0].started_at) <= ENDED_DAYS:
                yield head

    def _pack(self, several: Sequence[tuple[Series, RecordRow]], detailed: set[Series]) -> dict[str, Any]:
        first = several[0][1]
        return {
            "status": first.status,
            "reason": (first.reason or "")[:LONGEST_REASON],
            "cases": [
                {
                    "case": series.case,
                    **self._facets.of_case(series.case),
                    "machine": self._frame.verdicts.machines.get(series.machines, ""),
                    **({"variant": series.variant} if series.variant else {}),
                    **(self._since(series) if series in detailed else {}),
                }
                for series, _ in several
            ],
        }

    def _since(self, series: Series) -> dict[str, Any]:
        """The first record since the last good one, and how the last ones ended."""
        group = self._groups.get(series.case)
        if group is None:
            return {}
        variants = {number: variant for number, _, variant in group.rows}
        with self._database.reading():
            rows = [
                row
                for row in read_case_records(self._database, group)
                if self._frame.sessions[row.session].kind != EXPERIMENT
                and variants[row.case] == series.variant
                and self._class_of.get(row.environment, "") == series.machines
            ]
        rows.sort(key=lambda row: (self._ranks[row.session], row.id))
        good = max((place for place, row in enumerate(rows) if Status(row.status) in _FINE), default=-1)
        heads = [self._frame.sessions[row.session] for row in rows[max(good, 0) : good + 2]]
        return {
            "first_bad": self._frame.pack_head(heads[-1]),
            "last_good": None if good < 0 else self._frame.pack_head(heads[0]),
            "strip": letters(rows[-STRIP:]),
            "runs": len(rows) - good - 1,
        }


def _reason_key(row: RecordRow) -> tuple[str, str]:
    """Reasons that differ in numbers only are one."""
    return row.status, _DIGITS.sub("#", (row.reason or "").split("\n", 1)[0])
