"""What is wrong with a SQLite file that could not be read: looked up only once something has failed.

SQLite takes any value in any column, so a file that others made, or that a disk has damaged, may hold what no reader
expects. Looking at every value beforehand would cost each command a walk through the whole file.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from sqlalchemy import Column, Double, LargeBinary, Text
from sqlalchemy.exc import DBAPIError

from paceline.errors import HistoryError, PacelineError
from paceline.history.store.database import raise_as_told
from paceline.history.store.schema import VERSION_TABLE, metadata
from paceline.history.urls import Target, readable_address
from paceline.model import Status
from paceline.record.codec import load

_JSON = frozenset({"meta", "params", "outcome", "suspects", "data"})
_REFERENCES = (
    *(("record", f"{name}_id", name) for name in ("session", "case", "environment", "setting")),
    ("series", "case_id", "case"),
    *((name, f"{to}_id", to) for name in ("metric", "repeated_sample") for to in ("series", "record")),
)
_WORDS = {"status": frozenset(Status)}
_REMEDY = "the file is damaged: make a new one with 'paceline history import' from the sessions' files"


@contextmanager
def read_from(target: Target, *, is_current: bool = True) -> Iterator[None]:
    """Around what reads a history: an error that the file itself is the cause of becomes one line."""
    try:
        yield
    except Exception as error:
        raise_if_damaged(target, error, is_current=is_current)
        raise


def raise_if_damaged(target: Target, error: BaseException, *, is_current: bool = True) -> None:
    """Raise an error of one line if the file is the cause of another; return if that is a bug of ours.

    A file that may be of an older schema, whose migration failed, is not blamed for what it does not have.
    """
    if isinstance(error, PacelineError | OSError) or not isinstance(error, Exception):
        return
    raise_as_told(target, (error.orig if isinstance(error, DBAPIError) else None) or error)
    if target.path is None:
        return
    try:
        with closing(sqlite3.connect(readable_address(target.path), uri=True)) as database:
            found = next(_damages(database, is_current), None)
    except (sqlite3.Error, UnicodeError) as why:
        found = str(why)
    if found:
        raise HistoryError(f"{target}: {found}: {_REMEDY}") from error


def _damages(database: sqlite3.Connection, is_current: bool) -> Iterator[str]:
    if (check := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        yield str(check).splitlines()[0]
    kinds = dict(database.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"))
    for table in metadata.tables.values():
        kind = kinds.get(table.name)
        if kind != "table" and (kind or is_current):
            yield f"the table {table.name} is not there"
        elif kind:
            there = {row[1] for row in database.execute(f'PRAGMA table_info("{table.name}")')}
            for column in table.columns:
                if column.name in there:
                    yield from _wrong_values(database, table.name, column)
                elif is_current or table.name == VERSION_TABLE:
                    yield f"the table {table.name} has no column {column.name}"
    yield from _lost_rows(database) if is_current else ()


def _lost_rows(database: sqlite3.Connection) -> Iterator[str]:
    for table, column, other in _REFERENCES:
        lost = f'SELECT 1 FROM "{table}" WHERE {column} NOT IN (SELECT id FROM "{other}") LIMIT 1'  # noqa: S608 - our own names
        if database.execute(lost).fetchone():
            yield f"a {table} leads to a {other} that is not there"


def _wrong_values(database: sqlite3.Connection, table: str, column: Column[object]) -> Iterator[str]:
    wrong = f"the column {column.name} of {table} holds what does not belong there"
    if database.execute(f'SELECT 1 FROM "{table}" WHERE {_is_wrong(column)} LIMIT 1').fetchone():  # noqa: S608 - our own names
        yield wrong
    if isinstance(column.type, Text):
        try:
            # A text that is not UTF-8 raises by itself.
            for (text,) in database.execute(f'SELECT "{column.name}" FROM "{table}"'):  # noqa: S608 - our own names
                if text and column.name in _JSON:
                    load(text.encode())
                if text not in _WORDS.get(column.name, (text,)):
                    raise ValueError
        except ValueError:
            yield wrong


def _is_wrong(column: Column[object]) -> str:
    """The condition that a value is not of its column's kind."""
    name = f'"{column.name}"'
    kind = f"typeof({name})"
    allowed = "" if not column.nullable else f"{name} IS NOT NULL AND "
    if isinstance(column.type, Text):
        return f"{allowed}{kind} != 'text'"
    if isinstance(column.type, Double):
        return f"{allowed}{kind} NOT IN ('real', 'integer')"
    if isinstance(column.type, LargeBinary):
        return f"{allowed}({kind} != 'blob' OR length({name}) != 16)"
    return f"{allowed}{kind} != '{'text' if column.type.python_type is str else 'integer'}'"
