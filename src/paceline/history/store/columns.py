"""The numbers of the history as arrays: those of metrics, of all records of a case, of all records of a session."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.history.store.database import Database, Row, chunks

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SeriesRows = dict[tuple[str, str], tuple[list[int], str]]
"""By the name and the unit of a metric: the numbers of its series, and its direction."""

MASK = (1 << 20) - 1
_HALF = 1 << 31
_AT_ONCE = 2_000
_VALUES_AT_ONCE = 100_000
_NUMBERS_AT_ONCE = 500
_FEW_RECORDS = 20
LAST = (1 << 31) - 1
"""No record has a higher number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """For every record its number, that of its case and of its session, and a part of its digest.

    By them a reader knows what has changed since it read last: 32 bytes a record, read in one go.
    """

    ids: Ints
    cases: Ints
    sessions: Ints
    digests: Ints

    def at(self, chosen: NDArray[np.bool_] | Ints) -> "Marks":
        """The marks of some of the records, by their places or by a mask."""
        return Marks(
            ids=self.ids[chosen],
            cases=self.cases[chosen],
            sessions=self.sessions[chosen],
            digests=self.digests[chosen],
        )

    def sums(self) -> list[tuple[int, int, int, int]]:
        """For each row of a case: its number, how many records it has, the highest number, the sum of the digests."""
        order, starts = groups(self.cases)
        if not len(starts):
            return []
        cases, counts = self.cases[order[starts]], np.diff(starts, append=len(order))
        last = np.maximum.reduceat(self.ids[order], starts)
        total = np.add.reduceat(self.digests[order], starts)
        return list(zip(*(column.tolist() for column in (cases, counts, last, total)), strict=True))


def groups(owners: Ints) -> tuple[Ints, Ints]:
    """An order in which those of one owner stand together, otherwise as they were, and where each owner's begin."""
    order = np.argsort(owners, kind="stable")
    of = owners[order]
    return order, np.flatnonzero(np.append(True, of[1:] != of[:-1])[: len(of)])


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseGroup:
    """All rows of the database that are one case: its versions, its variants, its former names."""

    key: str
    entry: str
    params: str | None
    rows: tuple[tuple[int, str, str], ...]
    """Number, version and variant of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricColumn:
    """A metric's values, NaN where a record has none; `counts` and `samples` are empty if none has several."""

    name: str
    unit: str
    direction: str
    values: Floats
    counts: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    samples: Floats = field(default_factory=lambda: np.zeros(0))
    without: frozenset[int] = frozenset()
    """The places of records that have a value and no sample."""

    def samples_at(self, places: Ints) -> list[tuple[float, ...]]:
        """The samples of the records at these places, which have values."""
        values, samples = self.values.tolist(), self.samples.tolist()
        counts = self.counts.tolist() or [0] * len(values)
        begins = [0, *accumulate(counts)]
        return [
            tuple(samples[begins[i] : begins[i + 1]])
            if counts[i]
            else (() if i in self.without else (values[i],))
            for i in places.tolist()
        ]


class RecordRow(NamedTuple):
    """What a record has besides its numbers."""

    id: int
    session: int
    case: int
    environment: int
    setting: int
    attempt: int
    status: str
    started_at: str
    exec_time_s: float | None
    revision: str | None
    reason: str | None
    outcome: str | None
    source: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Records, and each metric's values in the same order."""

    records: Sequence[RecordRow]
    metrics: Sequence[MetricColumn]


_RECORD = """
SELECT r.id, r.session_id, r.case_id, r.environment_id, r.setting_id, r.attempt, r.status, r.started_at, r.exec_time_s,
  r.revision, r.reason, {outcome}, r.source_id FROM record r"""
_OF_CASE = _RECORD.format(outcome="NULL") + " WHERE r.case_id = ? AND r.id > ? AND r.id <= ? ORDER BY r.id"
_OF_SESSION = _RECORD.format(outcome="r.outcome") + " WHERE r.session_id = ? ORDER BY r.id"
_NUMBERS = "SELECT value FROM metric WHERE series_id = ? AND record_id BETWEEN ? AND ? ORDER BY record_id"
_PAIRS = "SELECT record_id, value FROM metric WHERE series_id = ? AND record_id BETWEEN ? AND ?"
_FEW = """
SELECT series_id, record_id, value FROM metric WHERE series_id IN ({numbers}) AND record_id BETWEEN ? AND ?"""
_ARRAYS = """
SELECT series_id, array_agg(record_id ORDER BY record_id), array_agg(value ORDER BY record_id) FROM metric
WHERE series_id = ANY(?) AND record_id BETWEEN ? AND ? GROUP BY series_id"""
_NO_SAMPLE = """
SELECT series_id, record_id FROM metric
WHERE series_id IN ({numbers}) AND record_id BETWEEN ? AND ? AND sample_count = 0"""
_SAMPLES = """
SELECT series_id, record_id, value FROM repeated_sample
WHERE series_id IN ({numbers}) AND record_id BETWEEN ? AND ? AND value IS NOT NULL
ORDER BY series_id, record_id, position"""
_SESSION_VALUES = """
SELECT d.name, d.unit, d.direction, r.id, m.value, m.sample_count FROM record r JOIN series d ON d.case_id = r.case_id
JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE r.session_id = ? AND m.value IS NOT NULL
ORDER BY d.id"""
_SESSION_SAMPLES = """
SELECT d.name, d.unit, r.id, p.value FROM record r JOIN series d ON d.case_id = r.case_id
JOIN repeated_sample p ON p.series_id = d.id AND p.record_id = r.id WHERE r.session_id = ? AND p.value IS NOT NULL
ORDER BY d.id, r.id, p.position"""


def read_marks(database: Database) -> Marks:
    """The marks of all records, in the order of their numbers."""
    # Two numbers a row instead of four: most of the time goes into making them.
    select = f"""
SELECT CAST(id AS BIGINT) * {_HALF} + case_id, CAST(session_id AS BIGINT) * {_HALF} + (digest & {MASK})
FROM record ORDER BY id"""
    parts = [
        np.fromiter(chain.from_iterable(rows), np.int64, 2 * len(rows))
        for rows in database.batches(select, _AT_ONCE)
    ]
    table = np.concatenate([np.zeros(0, dtype=np.int64), *parts]).reshape(-1, 2)
    return Marks(
        ids=table[:, 0] // _HALF,
        cases=table[:, 0] % _HALF,
        sessions=table[:, 1] // _HALF,
        digests=table[:, 1] % _HALF,
    )


def read_groups(database: Database) -> list[CaseGroup]:
    """All cases by the names they go by now, sorted."""
    rows = database.rows(
        "SELECT current_key, id, version, variant, key, entry, params FROM \"case\" WHERE kind = 'entry' ORDER BY id"
    )
    found: dict[str, list[Row]] = {}
    for key, *row in rows:
        found.setdefault(key, []).append(tuple(row))
    return [
        CaseGroup(
            key=key,
            entry=key.partition("[")[0] if of_key[-1][3] != key else of_key[-1][4],
            params=of_key[-1][5],
            rows=tuple((row[0], row[1], row[2]) for row in of_key),
        )
        for key, of_key in sorted(found.items())
    ]


def read_case(database: Database, group: CaseGroup, ids: Ints, metric: str | None = None) -> Columns:
    """The records of a case with these numbers, which follow each other among those of the case; of one metric only,
    if it is said."""
    if not len(ids):
        return Columns(records=(), metrics=())
    records = read_records(database, ids.tolist())
    there = np.array([record.id for record in records], dtype=np.int64)
    series = read_series_rows(database, [number for number, _, _ in group.rows])
    wanted = {named: told for named, told in series.items() if metric in (None, named[0])}
    return Columns(records=records, metrics=list(read_metrics(database, wanted, there)))


def read_case_records(database: Database, group: CaseGroup) -> list[RecordRow]:
    """The records of a case without their numbers."""
    rows = [row for number, _, _ in group.rows for row in database.rows(_OF_CASE, (number, 0, LAST))]
    return [RecordRow._make(row) for row in sorted(rows)]


def read_records(database: Database, numbers: Sequence[int]) -> list[RecordRow]:
    """The records of these numbers."""
    found: list[RecordRow] = []
    for part in chunks(numbers, _NUMBERS_AT_ONCE):
        marks = ", ".join("?" * len(part))
        rows = database.rows(f"{_RECORD.format(outcome='NULL')} WHERE r.id IN ({marks}) ORDER BY r.id", part)
        found += map(RecordRow._make, rows)
    return found


def read_metrics(
    database: Database, wanted: SeriesRows, ids: Ints, *, whole: bool = True, samples: bool = True
) -> Iterator[MetricColumn]:
    """The numbers of metrics of a case in these records, which are in the order of their numbers.

    `whole`: they are all records of the case between the first and the last. Metrics that none of them has are left
    out.
    """
    for part in chunks(wanted.items(), max(1, _VALUES_AT_ONCE // max(len(ids), 1))) if len(ids) else ():
        numbers = [number for _, (several, _) in part for number in several]
        found = _read_values(database, numbers, ids, whole)
        repeated, without = _read_samples(database, numbers, ids) if samples else ({}, {})
        for (name, unit), (several, direction) in part:
            columns = [found[number] for number in several if number in found]
            if not columns:
                continue
            # A case that was renamed has several; each record is in one of them.
            values = columns[0] if len(columns) == 1 else np.fmax.reduce(columns)
            pairs = [pair for number in several for pair in repeated.get(number, ())]
            none = frozenset(place for number in several for place in without.get(number, ()))
            if not np.isnan(values).all():
                yield _column((name, unit, direction), ids, values, pairs, none)


def _read_values(database: Database, numbers: Sequence[int], ids: Ints, whole: bool) -> dict[int, Floats]:
    """The values of each series that has some, in the order of the records, NaN for those without."""
    bounds = int(ids[0]), int(ids[-1])
    if not database.is_sqlite:
        # A server may be far away, so all are asked for at once.
        rows = database.rows(_ARRAYS, (list(numbers), *bounds))
        return {number: _aligned(ids, np.array(of), np.array(values, float)) for number, of, values in rows}
    found: dict[int, Floats] = {}
    if not whole and len(ids) <= _FEW_RECORDS:
        return _read_few(database, numbers, ids)
    for number in numbers:
        if whole:
            values = database.rows(_NUMBERS, (number, *bounds))
            # Most metrics have a value in every record, and then nobody needs to know in which.
            if len(values) == len(ids):
                found[number] = np.array(list(chain.from_iterable(values)), float)
                continue
        pairs = np.array(database.rows(_PAIRS, (number, *bounds)), float).reshape(-1, 2)
        if len(pairs):
            found[number] = _aligned(ids, pairs[:, 0], pairs[:, 1])
    return found


def _read_few(database: Database, numbers: Sequence[int], ids: Ints) -> dict[int, Floats]:
    """The same of a few records: what takes time is asking, so that several series are asked for at once."""
    found: dict[int, Floats] = {}
    place = {number: i for i, number in enumerate(ids.tolist())}
    for part in chunks(numbers, _NUMBERS_AT_ONCE):
        marks = ", ".join("?" * len(part))
        for number, record, value in database.rows(
            _FEW.format(numbers=marks), (*part, ids[0].item(), ids[-1].item())
        ):
            if record in place and value is not None:
                found.setdefault(number, np.full(len(ids), np.nan))[place[record]] = value
    return found


def _aligned(ids: Ints, records: NDArray[Any], numbers: Floats) -> Floats:
    places = np.searchsorted(ids, records)
    # A record may have come or gone since its number was read.
    known = ids[np.minimum(places, len(ids) - 1)] == records
    values = np.full(len(ids), np.nan)
    values[places[known]] = numbers[known]
    return values


def _read_samples(
    database: Database, numbers: Sequence[int], ids: Ints
) -> tuple[dict[int, list[tuple[int, float]]], dict[int, list[int]]]:
    """Of each series the samples that are kept apart, as record and value; and the places of records without any."""
    several: dict[int, list[tuple[int, float]]] = {}
    without: dict[int, list[int]] = {}
    bounds, place = (int(ids[0]), int(ids[-1])), {number: i for i, number in enumerate(ids.tolist())}
    for part in chunks(numbers, _NUMBERS_AT_ONCE):
        marks = ", ".join("?" * len(part))
        for number, record, value in database.rows(_SAMPLES.format(numbers=marks), (*part, *bounds)):
            if record in place:
                several.setdefault(number, []).append((record, value))
        for number, record in database.rows(_NO_SAMPLE.format(numbers=marks), (*part, *bounds)):
            if record in place:
                without.setdefault(number, []).append(place[record])
    return several, without


def _column(
    named: tuple[str, str, str],
    ids: Ints,
    values: Floats,
    several: Sequence[tuple[int, float]],
    without: frozenset[int] = frozenset(),
) -> MetricColumn:
    """A column with the samples of those records that have several."""
    name, unit, direction = named
    if not several:
        return MetricColumn(name=name, unit=unit, direction=direction, values=values, without=without)
    pairs = np.array(several, dtype=float)
    places = np.searchsorted(ids, pairs[:, 0].astype(np.int64))
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=len(ids)).astype(np.int64)
    return MetricColumn(
        name=name,
        unit=unit,
        direction=direction,
        values=values,
        counts=counts,
        samples=pairs[order, 1],
        without=without,
    )


def read_series_rows(database: Database, cases: Sequence[int]) -> SeriesRows:
    """The numbers of each metric under each of a case's rows, and its direction; in the order they came up."""
    found: SeriesRows = {}
    for case in cases:
        select = "SELECT id, name, unit, direction FROM series WHERE case_id = ? ORDER BY id"
        for number, name, unit, direction in database.rows(select, (case,)):
            numbers, known = found.get((name, unit), ([], ""))
            found[name, unit] = [*numbers, number], direction or known
    return found


def read_session_columns(database: Database, session: int) -> Columns:
    """All records of a session, in the order of their numbers."""
    records = [RecordRow._make(row) for row in database.rows(_OF_SESSION, (session,))]
    ids = np.array([record.id for record in records], dtype=np.int64)
    several: dict[tuple[str, str], list[tuple[int, float]]] = {}
    rows = database.rows(_SESSION_VALUES, (session,))
    if any(row[5] > 1 for row in rows):
        for name, unit, record, value in database.rows(_SESSION_SAMPLES, (session,)):
            several.setdefault((name, unit), []).append((record, value))
    places = {record.id: place for place, record in enumerate(records)}
    values: dict[tuple[str, str], Floats] = {}
    directions: dict[tuple[str, str], str] = {}
    for name, unit, direction, record, value, _ in rows:
        column = values.get((name, unit))
        if column is None:
            column = values[name, unit] = np.full(len(ids), np.nan)
        column[places[record]] = value
        directions[name, unit] = direction or directions.get((name, unit), "")
    columns = [
        _column((*named, directions[named]), ids, column, several.get(named, ()))
        for named, column in values.items()
    ]
    return Columns(records=records, metrics=columns)


def read_settings(database: Database, numbers: Sequence[int]) -> dict[int, str]:
    """The settings of records by their numbers, as JSON texts."""
    select = "SELECT data FROM setting WHERE id = ?"
    return {number: database.rows(select, (number,))[0][0] for number in sorted(set(numbers))}


def read_environment_heads(database: Database) -> list[Row]:
    """Number, id, class, Python, platform and host of each environment."""
    columns = "id, ident, class_id, python_version, platform, hostname"
    return database.rows(f"SELECT {columns} FROM environment ORDER BY id")


def read_environment(database: Database, number: int) -> tuple[str | None, Mapping[str, str]]:
    """What is known of an environment, as a JSON text, and its packages."""
    data = database.rows("SELECT data FROM environment WHERE id = ?", (number,))
    packages = database.rows(
        "SELECT name, version FROM package WHERE environment_id = ? ORDER BY name", (number,)
    )
    return (data[0][0] if data else None), dict(packages)


def read_source(database: Database, number: int) -> tuple[str, str | None]:
    """The hash and the text of a test's source."""
    ((hash_, text),) = database.rows("SELECT hash, text FROM source WHERE id = ?", (number,)) or [("", None)]
    return hash_, text


def read_source_heads(database: Database) -> list[Row]:
    """Number and hash of each source, and whether its text is unknown."""
    return database.rows("SELECT id, hash, text IS NULL FROM source ORDER BY id")


def read_session_heads(database: Database) -> list[Row]:
    """Number, id, name, kind, start, revision, branch, time of commit, directory, CI run and tool of each session."""
    columns = "id, ident, name, kind, started_at, revision, branch, commit_time, directory, ci_run_url, tool"
    return database.rows(f"SELECT {columns} FROM session ORDER BY id")


def read_case_names(database: Database) -> dict[int, tuple[str, str, str]]:
    """For each row of a case the name it goes by now, its variant and its kind."""
    rows = database.rows('SELECT id, current_key, variant, kind FROM "case"')
    return {number: (key, variant, kind) for number, key, variant, kind in rows}
