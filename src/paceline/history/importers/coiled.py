"""Coiled's benchmarks: their `benchmark.db`, of any age, since columns came one by one; absent ones are unknown."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import compress, groupby
from pathlib import Path
from urllib.parse import quote

from paceline.history.importers.batch import make_batch, make_session
from paceline.history.importers.coiled_rows import PACKAGES, Row, make_row_record, text_of, time_of
from paceline.history.importers.document import complain, storable_text
from paceline.history.importers.values import environment
from paceline.history.session_info import Batch
from paceline.history.store.foreign import StepLimit, harden

FORMAT = "coiled"
MAGIC = b"SQLite format 3\0"
_RUNS, _QUERIES = "test_run", "tpch_run"
_NOT_RESULTS = frozenset({_RUNS, _QUERIES, "alembic_version"})
_PLACE = ("python_version", "platform", "dask_version", "distributed_version", "dask_expr_version")
_NEEDED = frozenset({"session_id", "name"})

Identity = tuple[str, ...]


def tables(path: Path) -> frozenset[str]:
    """The names of a database's tables, without its views."""
    with _reading(path) as connection:
        return _tables(connection)


def _tables(connection: sqlite3.Connection) -> frozenset[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")
    return frozenset(str(name) for (name,) in found if not str(name).startswith("sqlite_"))


def batches(path: Path) -> Iterator[Batch]:
    """A session for each call of pytest; two if, after a merge, one id stands for runs in two environments.

    A test of TPC-H has a row in each of two tables, which are one record: one has what was measured, and the other has
    the query and the size of its data.
    """
    with _reading(path) as connection:
        there = _tables(connection)
        if _RUNS not in there:
            raise complain(path, f"has no table {_RUNS}", "import a benchmark.db of Coiled's")
        queries: dict[str, list[Row]] = defaultdict(list)
        if _QUERIES in there:
            for row in _rows(connection, _QUERIES, path):
                queries[text_of(row, "session_id")].append(row)
        notes = tuple(_left_out(connection, there, path))
        rows = _rows(connection, _RUNS, path)
        for (session_id, *_), group in groupby(rows, key=lambda row: (row["session_id"], *_place(row))):
            joined, queries[session_id] = _joined(list(group), queries.get(session_id, []))
            yield replace(_batch(joined, path), notes=notes)
            notes = ()
        left = sorted((row for rest in queries.values() for row in rest), key=_identity_of_session)
        for _, group in groupby(left, key=_identity_of_session):
            yield _batch(list(group), path)


def _left_out(connection: sqlite3.Connection, there: frozenset[str], path: Path) -> Iterator[str]:
    for table in sorted(there - _NOT_RESULTS):
        ((count,),) = connection.execute(f"SELECT count(*) FROM {_quoted(table)}")  # noqa: S608 - a name in quotes
        yield f"{path}: the table {table} with {count:,} rows is not one of Coiled's, and was not imported"


def _rows(connection: sqlite3.Connection, table: str, path: Path) -> Iterator[Row]:
    """The rows of a table by session, place and time; those that differ in nothing but their number are one.

    The merge of the databases could double them.
    """
    columns = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
    if _NEEDED - set(columns):
        missing = ", ".join(sorted(_NEEDED - set(columns)))
        raise complain(path, f"the table {table} has no {missing}", "import a benchmark.db of Coiled's")
    order = [name for name in ("session_id", *_PLACE, "start", "id") if name in columns]
    quoted = ", ".join(map(_quoted, columns))
    found = connection.execute(f"SELECT {quoted} FROM {table} ORDER BY {', '.join(order)}")  # noqa: S608 - names of columns
    for _, group in groupby((dict(zip(columns, values, strict=True)) for values in found), key=_session):
        seen = set()
        for row in group:
            content = tuple((name, value) for name, value in row.items() if name != "id")
            if content not in seen:
                seen.add(content)
                yield row


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _joined(runs: list[Row], queries: list[Row]) -> tuple[list[Row], list[Row]]:
    """The runs, each with the query that is of the same test; queries of the same place alone; and those left."""
    due: dict[Identity, list[Row]] = defaultdict(list)
    for query in queries:
        due[_test(query)].append(query)
    joined: list[Row] = []
    for run in runs:
        same = due.get(_test(run))
        known = {name: value for name, value in run.items() if value is not None}
        joined.append({**run, **same.pop(0), **known} if same else run)
    left = [query for same in due.values() for query in same]
    fits = [_fits(query, runs[0]) for query in left]
    return joined + list(compress(left, fits)), [
        query for query, fit in zip(left, fits, strict=True) if not fit
    ]


def _fits(query: Row, run: Row) -> bool:
    """Whether a query may have run where a test has, by what is known of it."""
    return all(text_of(query, name) in ("", text_of(run, name)) for name in _PLACE)


def _session(row: Row) -> object:
    return row["session_id"]


def _test(row: Row) -> Identity:
    return text_of(row, "path"), text_of(row, "name")


def _place(row: Row) -> Identity:
    return tuple(text_of(row, name) for name in _PLACE)


def _identity_of_session(row: Row) -> Identity:
    return text_of(row, "session_id"), *_place(row)


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as connection:
            harden(connection)
            StepLimit(connection, path)
            connection.text_factory = lambda data: storable_text(data.decode(errors="replace"))
            yield connection
    except sqlite3.Error as error:
        raise complain(path, f"is no readable database ({error})", "copy it again, or repair it") from error


def _batch(rows: list[Row], path: Path) -> Batch:
    first = rows[0]
    session = make_session(
        FORMAT,
        (text_of(first, "session_id"),),
        started_at=min(filter(None, (time_of(row, "start") for row in rows)), default=""),
        directory=str(path.absolute().parent),
        ci_run_url=text_of(first, "ci_run_url"),
        meta={"session_id": text_of(first, "session_id")},
    )
    surroundings = environment(
        os=text_of(first, "platform"),
        python=text_of(first, "python_version").removesuffix(".final.0"),
        packages={
            name: text_of(first, column) for name, column in PACKAGES.items() if text_of(first, column)
        },
    )
    return make_batch(session, surroundings, map(make_row_record, rows))
