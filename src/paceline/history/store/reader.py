"""Rows into series: case by case, so that memory holds one case's points at a time."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from paceline.history.series import Column, Point, Series
from paceline.history.store.database import Database, Row
from paceline.history.store.entries import utc
from paceline.history.store.names import CaseNames, Epochs, matcher, read_epochs, read_names
from paceline.model import Direction

_RECORD = """r.id, r.session_id, r.attempt, r.environment_id, r.started_at, r.ident, r.status, r.revision, r.source_id,
  r.disturbed"""
_OF_CASE = f"SELECT {_RECORD}, NULL, NULL FROM record r WHERE r.case_id = ? AND r.started_at >= ?"
_OF_SERIES = f"""
SELECT {_RECORD}, m.value, m.sample_count FROM metric m JOIN record r ON r.id = m.record_id
WHERE m.series_id = ? AND m.value IS NOT NULL"""
_VALUES = """
SELECT record_id, value, sample_count FROM metric WHERE series_id = ? AND record_id >= ? AND value IS NOT NULL"""
_NUMBERS = "SELECT record_id, value FROM metric WHERE series_id = ? AND record_id >= ? AND value IS NOT NULL"
_SAMPLES = """
SELECT record_id, value FROM repeated_sample WHERE series_id = ? AND record_id >= ? AND value IS NOT NULL
ORDER BY record_id, position"""
_ID_AND_TIME = itemgetter(4, 0)

# A million points are made at a time; the class's own way takes twice as long.
_new_tuple = tuple.__new__


class CaseRow(NamedTuple):
    """A case of the database: cases of several rows may go by one name."""

    id: int
    key: str
    variant: str
    version: str


class Wanted(NamedTuple):
    """Which points to read."""

    metrics: Sequence[str] | None = None
    since: str = ""
    environment_class: str | None = None
    all_epochs: bool = False
    judged_only: bool = False


_Read = TypeVar("_Read", Series, Column)
Part = tuple[str, int]
"""Environment class and epoch: points of different parts are not compared."""
Heads = dict[Part, dict[int, Row]]
"""For each part its records in the order of time: what a point has of its record, the fields after the samples."""
MetricRow = tuple[tuple[str, str], list[int], Any]
"""Name and unit of a metric, the numbers of its series, its direction."""
Values = dict[int, tuple[float, tuple[float, ...]]]
"""Value and samples of a metric, by record."""


class _Places:
    """The sessions, environments and sources, which are few beside the records: joined to them here and not by SQL,
    which would make new strings of the same names for each record."""

    def __init__(self, database: Database) -> None:
        sessions = database.rows("SELECT id, name, revision, ident FROM session")
        self.sessions = {row[0]: (row[1], row[2], row[3].hex()) for row in sessions}
        environments = database.rows("SELECT id, ident, class_id FROM environment")
        self.environments = {row[0]: (row[1], row[2]) for row in environments}
        self.sources: dict[int | None, str] = dict(database.rows("SELECT id, hash FROM source"))


class Reader:
    """Reads series; each case as of one moment."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: tuple[Any, _Places] | None = None

    def _places(self) -> _Places:
        """What was read before, unless somebody wrote since."""
        version = self._database.version()
        if self._known is None or version is None or self._known[0] != version:
            self._known = version, _Places(self._database)
        return self._known[1]

    def series(self, case: str, metric: str, wanted: Wanted) -> list[Series]:
        """All series of one metric of a case under any of its names."""
        with self._database.reading():
            names = read_names(self._database)
            epochs = read_epochs(self._database, names)
            keys = names.spellings(case)
            marks = ", ".join("?" * len(keys))
            select = f'SELECT id, key, variant, version FROM "case" WHERE key IN ({marks}) ORDER BY id'
            rows = [CaseRow(*row) for row in self._database.rows(select, keys)]
            current = names.current(rows[0].key if rows else case)
            return list(self._of_metric(current, metric, rows, epochs, wanted))

    def _of_metric(
        self, key: str, metric: str, rows: Sequence[CaseRow], epochs: Epochs, wanted: Wanted
    ) -> Iterator[Series]:
        """The values and their records by one statement: half the time of reading all records of the case."""
        for told, ids in _kinds(rows):
            last = self._repeated(ids)
            for identity, series_ids, direction in self._series_rows(ids, (metric,)):
                records = self._all(_OF_SERIES, series_ids)
                values = self._values((row[0], *row[-2:]) for row in records)
                values |= self._samples(values, series_ids, 0)
                heads = self._heads(key, records, last, epochs, wanted)
                yield from _make_series(key, told, identity, direction, values, heads)

    def _all(self, sql: str, numbers: Sequence[int], *others: Any) -> list[Row]:
        """The rows for each number."""
        if len(numbers) == 1:
            return self._database.rows(sql, (numbers[0], *others))
        return [row for number in numbers for row in self._database.rows(sql, (number, *others))]

    def _repeated(self, case_ids: Sequence[int]) -> dict[int, int]:
        """The last attempt of each session that made several at a case."""
        select = "SELECT session_id, max(attempt) FROM record WHERE case_id = ? AND attempt > 1 GROUP BY session_id"
        return dict(self._all(select, case_ids))

    def iter_series(self, cases: Iterable[str] | None, wanted: Wanted) -> Iterator[Series]:
        """The series of all cases whose names match, by name."""
        return self._case_by_case(cases, wanted, self._of_case)

    def iter_columns(self, cases: Iterable[str] | None, wanted: Wanted) -> Iterator[Column]:
        """The same without points and samples, in half the time."""
        return self._case_by_case(cases, wanted, self._columns_of_case)

    def _case_by_case(
        self,
        cases: Iterable[str] | None,
        wanted: Wanted,
        read: Callable[[str, Sequence[CaseRow], Epochs, Wanted], Iterator[_Read]],
    ) -> Iterator[_Read]:
        with self._database.reading():
            names = read_names(self._database)
            epochs = read_epochs(self._database, names)
            groups = self._groups(cases, names)
        for key in sorted(groups):
            # A transaction for each, so that whoever takes the series may write in between.
            with self._database.reading():
                found = list(read(key, groups[key], epochs, wanted))
            yield from found

    def _groups(self, cases: Iterable[str] | None, names: CaseNames) -> dict[str, list[CaseRow]]:
        patterns = None if cases is None else list(cases)
        matches = matcher(patterns).fullmatch
        exact = {one for text in patterns or () for one in names.patterns(text)}
        groups: defaultdict[str, list[CaseRow]] = defaultdict(list)
        rows = self._database.rows(
            "SELECT id, key, variant, version FROM \"case\" WHERE kind = 'entry' ORDER BY id"
        )
        for row in rows:
            key = names.current(row[1])
            if key in exact or matches(key) or matches(row[1]):
                groups[key].append(CaseRow(*row))
        return groups

    def _kinds_of_case(
        self, key: str, rows: Sequence[CaseRow], epochs: Epochs, wanted: Wanted
    ) -> Iterator[tuple[tuple[str, str], Heads, int, list[MetricRow]]]:
        """Each kind of a case that has records: its version and variant, they, the first of them, its metrics."""
        for told, ids in _kinds(rows):
            records = self._all(_OF_CASE, ids, wanted.since)
            if heads := self._heads(key, records, self._repeated(ids), epochs, wanted):
                metrics = self._series_rows(ids, wanted.metrics)
                judged = [row for row in metrics if row[2] is not None or not wanted.judged_only]
                yield told, heads, min(map(min, heads.values())), judged

    def _of_case(self, key: str, rows: Sequence[CaseRow], epochs: Epochs, wanted: Wanted) -> Iterator[Series]:
        for told, heads, first, metrics in self._kinds_of_case(key, rows, epochs, wanted):
            for identity, series_ids, direction in metrics:
                values = self._values(self._all(_VALUES, series_ids, first))
                values |= self._samples(values, series_ids, first)
                yield from _make_series(key, told, identity, direction, values, heads)

    def _columns_of_case(
        self, key: str, rows: Sequence[CaseRow], epochs: Epochs, wanted: Wanted
    ) -> Iterator[Column]:
        for told, heads, first, metrics in self._kinds_of_case(key, rows, epochs, wanted):
            # Made once for all metrics of the case, most of which have a value in every record.
            parts = [(part, tuple(heads[part]), tuple(heads[part].values())) for part in sorted(heads)]
            for identity, series_ids, direction in metrics:
                values: dict[int, float] = dict(self._all(_NUMBERS, series_ids, first))
                for part, numbers, fields in parts:
                    column = _make_column((key, *told, *identity, *part), direction, numbers, fields, values)
                    if column.values:
                        yield column

    def _heads(
        self, key: str, rows: list[Row], last: dict[int, int], epochs: Epochs, wanted: Wanted
    ) -> Heads:
        """The records of a case in the order of time; of a session only the last attempt."""
        rows.sort(key=_ID_AND_TIME)
        places, resets = self._places(), epochs.of(key)
        sessions, environments, sources = places.sessions, places.environments, places.sources
        since, only_class, oldest = (
            wanted.since,
            wanted.environment_class,
            0 if wanted.all_epochs else len(resets),
        )
        heads: defaultdict[Part, dict[int, Row]] = defaultdict(dict)
        for number, session, attempt, environment, time, ident, status, revision, source, *rest in rows:
            if time < since or (last and attempt < last.get(session, 0)):
                continue  # An attempt that was repeated is kept, and not drawn.
            epoch = bisect_right(resets, time) if resets else 0
            environment_id, class_id = environments[environment]
            if epoch < oldest or (only_class is not None and class_id != only_class):
                continue
            name, usual, session_id = sessions[session]
            heads[class_id, epoch][number] = (
                *(usual if revision is None else revision, name, ident.hex(), time, status),
                *(environment_id, sources[source] if source else "", session_id, rest[0] or ""),
            )
        return heads

    @staticmethod
    def _values(rows: Iterable[Row]) -> Values:
        return {record: (value, (value,) if count else ()) for record, value, count in rows}

    def _series_rows(self, case_ids: Sequence[int], metrics: Sequence[str] | None) -> Iterator[MetricRow]:
        """Name and unit of each metric of a case, its numbers under each of the case's rows, its direction."""
        matches = matcher(metrics).fullmatch
        found: dict[tuple[str, str], tuple[list[int], str]] = {}
        for case_id in case_ids:
            select = "SELECT id, name, unit, direction FROM series WHERE case_id = ?"
            for number, name, unit, direction in self._database.rows(select, (case_id,)):
                if matches(name):
                    ids, known = found.get((name, unit), ([], ""))
                    found[name, unit] = [*ids, number], direction or known
        for identity in sorted(found):
            ids, direction = found[identity]
            yield identity, ids, direction or None

    def _samples(self, values: Values, series_ids: Sequence[int], first: int) -> Values:
        """The values of records, from the first on, that have several samples."""
        groups = groupby(self._all(_SAMPLES, series_ids, first), itemgetter(0))
        return {
            record: (values[record][0], tuple([value for _, value in group]))
            for record, group in groups
            if record in values
        }


def _make_series(
    key: str,
    told: tuple[str, str],
    identity: tuple[str, str],
    direction: Direction | None,
    values: Values,
    heads: Heads,
) -> Iterator[Series]:
    """The points of a metric as series, one for each class of machines and each epoch."""
    find = values.get
    for class_id, epoch in sorted(heads):
        records = heads[class_id, epoch].items()
        points = [
            _new_tuple(Point, (*found, *fields)) for record, fields in records if (found := find(record))
        ]
        if points:
            yield Series(
                case_key=key,
                version=told[0],
                variant=told[1] or None,
                metric=identity[0],
                unit=identity[1] or None,
                direction=direction,
                environment_class=class_id,
                epoch=epoch,
                points=tuple(points),
            )


def _make_column(
    names: tuple[Any, ...],
    direction: Direction | None,
    numbers: Sequence[int],
    fields: Sequence[Row],
    values: dict[int, float],
) -> Column:
    found: list[Any] = list(map(values.get, numbers))
    if None in found:
        present = [position for position, value in enumerate(found) if value is not None]
        found, fields = [found[position] for position in present], [fields[position] for position in present]
    return Column._make((*names, direction, found, fields))


def _kinds(rows: Sequence[CaseRow]) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """Each version and variant of a case, with the numbers of its rows: several if it was renamed."""
    for told in sorted({(row.version, row.variant) for row in rows}):
        yield told, [row.id for row in rows if (row.version, row.variant) == told]


def since_text(since: str | None) -> str:
    """A lower bound of times; a date begins at midnight, UTC."""
    return utc(since) if since else ""
