"""Entries into rows: everything is looked up by what it is, so that writing it twice changes nothing."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from paceline.history.session_info import Added, SessionInfo
from paceline.history.store import schema
from paceline.history.store.database import Database, Row
from paceline.history.store.entries import Entry, StoredCase, StoredMetric, clean, digest_of, json_text, utc
from paceline.history.store.environments import StoredEnvironment, stub
from paceline.history.store.names import CaseNames, read_names
from paceline.history.store.schema import Table
from paceline.metrics import is_steady

_NUMBERED = (
    *(schema.session, schema.environment, schema.case, schema.series, schema.setting, schema.source),
    schema.record,
)
_LAST_NUMBERS = "SELECT " + ", ".join(f'(SELECT max(id) FROM "{table.name}")' for table in _NUMBERED)

_FEW = 16
"""Up to how many entries each is looked up by itself, instead of all of its session."""
_ROWS_AT_ONCE = 50_000
"""Of one transaction: each writes every series that it adds to, so small ones write a file many times over."""

_SESSION_FIELDS = (
    *("name", "kind", "started_at", "revision", "branch", "commit_time", "directory", "ci_run_url", "tool"),
    *("meta", "merge_base"),
)

Stored = tuple[int, int, str]
"""Of a record that is there already: its number, digest and start."""


class Part(NamedTuple):
    """Entries of a session, and where they were made."""

    session: SessionInfo
    environments: Mapping[str, StoredEnvironment]
    entries: Iterable[Entry]


class PendingRows:
    """Rows that are not in the database yet. Only a writer may ask for numbers, and only within its transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last: dict[str, int] = {}
        self._rows: defaultdict[str, list[Row]] = defaultdict(list)

    def number(self, table: Table) -> int:
        """The next number of a table; all are asked for at once, since a server may be far away."""
        if not self._last:
            (row,) = self._database.rows(_LAST_NUMBERS)
            self._last = {each.name: int(last or 0) for each, last in zip(_NUMBERED, row, strict=True)}
        self._last[table.name] += 1
        return self._last[table.name]

    def of(self, table: Table) -> list[Row]:
        """The rows of a table, to be added to."""
        return self._rows[table.name]

    def insert(self) -> None:
        """Write them, those of one series together: they lie together in the file."""
        for name, table in schema.TABLES.items():
            rows = self._rows.pop(name, [])
            self._database.insert(table, sorted(rows) if table.in_order_of_key else rows)


class Rule(NamedTuple):
    """What holds when something is there already and is told differently."""

    replaces: Callable[[Entry, Stored], bool]
    chosen: Callable[[str, str], str]
    """Of a session's field: what is told now, what is stored."""


class Writer:
    """Writes into one database; knows the numbers of cases and series, which no one ever removes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cases: dict[tuple[str, ...], int] = {}
        self._series: dict[int, dict[tuple[str, str], tuple[int, str]]] = {}
        self._names: CaseNames | None = None

    def write(self, parts: Iterable[Part], rule: Rule) -> Added:
        """All entries of some sessions that are new, or that replace what is there; many in one transaction."""
        added = Added()
        for together in _transactions(parts):
            try:
                with self._database.writing():
                    added += self._write(together, rule)
            except BaseException:
                self._forget()  # numbers given out in a transaction that never was
                raise
        return added

    def _forget(self) -> None:
        self._cases.clear()
        self._series.clear()

    def _write(self, parts: Sequence[Part], rule: Rule) -> Added:
        self._names = None  # somebody may have renamed a case since
        pending = PendingRows(self._database)
        batch = _Batch(self._database, pending)
        sessions: set[str] = set()
        known = 0
        for session, environments, entries in parts:
            if session.id in sessions:
                pending.insert()  # so that its rows are found
            sessions.add(session.id)
            session_id, is_new = self._session(session, rule, pending)
            given = list({entry.ident: entry for entry in entries}.values())  # the last of each
            cases = [self._case(entry.case, pending) for entry in given]
            stored = {} if is_new else self._stored(session_id, given, cases)
            new = len(given)
            for entry, case_id in zip(given, cases, strict=True):
                old = stored.get((case_id, entry.attempt)) if stored else None
                if old is not None and (old[1] == entry.digest or not rule.replaces(entry, old)):
                    new -= 1
                    continue
                if old is not None:
                    self._remove(old[0], case_id)
                metric_ids = self._metric_ids(case_id, entry, pending)
                place = batch.environment(entry.environment, environments)
                batch.add(entry, old[0] if old else None, (session_id, case_id, place), metric_ids)
            if new < len(given):
                batch.describe(environments)
            known += len(given) - new
        pending.insert()
        return Added(records=batch.records, samples=batch.samples, known=known)

    def _session(self, session: SessionInfo, rule: Rule, pending: PendingRows) -> tuple[int, bool]:
        """The session's number, and whether it is new."""
        database = self._database
        ident = UUID(session.id).bytes
        given = session_values(session)
        columns = ", ".join(_SESSION_FIELDS)
        found = database.rows(f"SELECT id, {columns} FROM session WHERE ident = ?", (ident,))
        if not found:
            number = pending.number(schema.session)
            pending.of(schema.session).append((number, ident, *given))
            return number, True
        number, *stored = found[0]
        told = [
            rule.chosen(new, old) if new and old else new or old
            for new, old in zip(given, stored, strict=True)
        ]
        if told != stored:
            values = ", ".join(f"{name} = ?" for name in _SESSION_FIELDS)
            database.rows(f"UPDATE session SET {values} WHERE id = ?", (*told, number))
        return number, False

    def _case(self, case: StoredCase, pending: PendingRows) -> int:
        identity = case[:4]
        number = self._cases.get(identity)
        if number is None:
            number = self._find_case(case, pending)
            self._cases[identity] = number
        return number

    def _find_case(self, case: StoredCase, pending: PendingRows) -> int:
        where = "key = ? AND variant = ? AND version = ? AND kind = ?"
        found = self._database.rows(f'SELECT id FROM "case" WHERE {where}', case[:4])
        if found:
            return int(found[0][0])
        number = pending.number(schema.case)
        if self._names is None:
            self._names = read_names(self._database)
        pending.of(schema.case).append((number, *case, self._names.current(case.key)))
        self._series[number] = {}
        return number

    def _stored(
        self, session_id: int, entries: Sequence[Entry], cases: Sequence[int]
    ) -> dict[tuple[int, int], Stored]:
        """The records of the session that are there, by case and attempt."""
        select = "SELECT case_id, attempt, id, digest, started_at FROM record WHERE session_id = ?"
        if len(entries) > _FEW:
            rows = self._database.rows(select, (session_id,))
        else:
            one = f"{select} AND case_id = ? AND attempt = ?"
            keys = [(session_id, case, entry.attempt) for entry, case in zip(entries, cases, strict=True)]
            rows = [row for key in keys for row in self._database.rows(one, key)]
        return {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}

    def _metric_ids(self, case_id: int, entry: Entry, pending: PendingRows) -> list[int]:
        known = self._series.get(case_id)
        if known is None:
            known = self._find_series(case_id)
        found = [known.get((metric.name, metric.unit)) for metric in entry.metrics]
        return [
            one[0]
            if one and one[1] == metric.direction
            else self._tell_series(case_id, metric, known, pending)
            for one, metric in zip(found, entry.metrics, strict=True)
        ]

    def _find_series(self, case_id: int) -> dict[tuple[str, str], tuple[int, str]]:
        select = "SELECT name, unit, id, direction FROM series WHERE case_id = ?"
        rows = self._database.rows(select, (case_id,))
        found = {(name, unit): (number, direction) for name, unit, number, direction in rows}
        self._series[case_id] = found
        return found

    def _tell_series(
        self,
        case_id: int,
        metric: StoredMetric,
        known: dict[tuple[str, str], tuple[int, str]],
        pending: PendingRows,
    ) -> int:
        """Make a series, or tell it which way is better now."""
        identity = metric.name, metric.unit
        if identity in known:
            number = known[identity][0]
            if metric.direction:
                pending.insert()  # It may be a series that was made just now.
                self._database.rows(
                    "UPDATE series SET direction = ? WHERE id = ?", (metric.direction, number)
                )
        else:
            number = pending.number(schema.series)
            steady = int(is_steady(metric.name, metric.unit or None))
            pending.of(schema.series).append((number, case_id, *identity, metric.direction, steady))
        if identity not in known or metric.direction:
            known[identity] = number, metric.direction
        return number

    def _remove(self, record_id: int, case_id: int) -> None:
        remove_metrics(self._database, [(case_id, record_id)])
        self._database.rows("DELETE FROM record WHERE id = ?", (record_id,))


def remove_metrics(database: Database, records: Sequence[tuple[int, int]]) -> None:
    """Remove the metrics of records, given as (case, record): they are ordered by series, and cases know theirs."""
    for table in ("metric", "repeated_sample"):
        of_case = "SELECT id FROM series WHERE case_id = ?"
        database.many(
            f"DELETE FROM {table} WHERE series_id IN ({of_case}) AND record_id = ?",
            records,
        )


def session_values(session: SessionInfo) -> tuple[str | None, ...]:
    """A session's values in the order of its columns, without its id."""
    return (
        clean(session.name),
        clean(session.kind),
        utc(session.started_at),
        clean(session.revision),
        clean(session.branch),
        utc(session.commit_time),
        *map(clean, (session.directory, session.ci_run_url, session.tool)),
        json_text(session.meta) if session.meta else None,
        clean(session.merge_base),
    )


def _transactions(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Parts that are written together; one that has very many entries is divided."""
    together: list[Part] = []
    rows = 0
    for session, environments, entries in parts:
        chosen: list[Entry] = []
        together.append(Part(session, environments, chosen))
        for entry in entries:
            if rows >= _ROWS_AT_ONCE:
                yield together
                chosen, rows = [], 0
                together = [Part(session, environments, chosen)]
            chosen.append(entry)
            rows += 1 + len(entry.metrics) + sum([len(metric.samples) for metric in entry.metrics])
    if together:
        yield together


class _Batch:
    """The records of one transaction."""

    def __init__(self, database: Database, pending: PendingRows) -> None:
        self._database = database
        self._pending = pending
        self._environment_ids: dict[str, int] = {}
        self._setting_ids: dict[str, int] = {}
        self._source_ids: dict[tuple[str, str | None], int] = {}
        self.records = self.samples = 0

    def add(
        self, entry: Entry, number: int | None, place: tuple[int, int, int], metric_ids: Sequence[int]
    ) -> None:
        """A record with the numbers of its session, case and environment; under its old number if it has one."""
        number = number or self._pending.number(schema.record)
        source_id = self._source(entry.source) if entry.source else None
        told = (*entry[3:8], entry.reason, entry.outcome, entry.digest, source_id, entry.disturbed)
        row = (number, entry.ident, *place, self._setting(entry.setting), *told)
        self._pending.of(schema.record).append(row)
        self.records += 1
        metrics, samples = self._pending.of(schema.metric), self._pending.of(schema.repeated_sample)
        for series_id, metric in zip(metric_ids, entry.metrics, strict=True):
            metrics.append((series_id, number, metric.value, metric.text, metric.sample_count))
            self.samples += metric.sample_count
            if metric.samples:
                places = enumerate(metric.samples)
                samples += [(series_id, number, place, *sample) for place, sample in places]

    def describe(self, environments: Mapping[str, StoredEnvironment]) -> None:
        """Tell what is known by now of machines that records named before anybody described them."""
        select = "SELECT 1 FROM environment WHERE ident = ? AND data IS NULL"
        for one in environments.values():
            if one.data is not None and self._database.rows(select, (one.ident,)):
                self._write_environment(one)

    def environment(self, ident: str, environments: Mapping[str, StoredEnvironment]) -> int:
        """The number of an environment: by its id, or that of the session for records that name none."""
        first = next(iter(environments.values()))
        ident = ident or first.ident
        if ident not in self._environment_ids:
            described = environments.get(ident) or stub(ident, first)
            self._environment_ids[ident] = self._write_environment(described)
        return self._environment_ids[ident]

    def _setting(self, data: str) -> int:
        if data not in self._setting_ids:
            self._setting_ids[data] = self._find_or_insert_setting(data)
        return self._setting_ids[data]

    def _find_or_insert_setting(self, data: str) -> int:
        digest = digest_of(data)
        found = self._database.rows("SELECT id FROM setting WHERE digest = ?", (digest,))
        if found:
            return int(found[0][0])
        number = self._pending.number(schema.setting)
        self._pending.of(schema.setting).append((number, digest, data))
        return number

    def _source(self, source: tuple[str, str | None]) -> int:
        if source not in self._source_ids:
            self._source_ids[source] = self._find_or_insert_source(*source)
        return self._source_ids[source]

    def _find_or_insert_source(self, hash_: str, text: str | None) -> int:
        found = self._database.rows("SELECT id, text FROM source WHERE hash = ?", (hash_,))
        if not found:
            number = self._pending.number(schema.source)
            self._database.insert(schema.source, [(number, hash_, text)])
            return number
        number, known = found[0]
        if known is None and text is not None:
            self._database.rows("UPDATE source SET text = ? WHERE id = ?", (text, number))
        return int(number)

    def _write_environment(self, environment: StoredEnvironment) -> int:
        """The environment's number; one that was only known by its id is described once somebody does."""
        database = self._database
        found = database.rows("SELECT id, data FROM environment WHERE ident = ?", (environment.ident,))
        if found and (found[0][1] is not None or environment.data is None):
            return int(found[0][0])
        number = int(found[0][0]) if found else self._pending.number(schema.environment)
        if found:
            database.rows("DELETE FROM environment WHERE id = ?", (number,))
        database.insert(schema.environment, [(number, *environment[:6])])
        database.insert(schema.package, [(number, *package) for package in environment.packages])
        return number
