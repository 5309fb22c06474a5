"""Questions in SQL that can change nothing, whatever they say."""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from paceline.errors import HistoryError
from paceline.history.store.database import Row, connect
from paceline.history.store.foreign import MOST_VALUE_BYTES
from paceline.history.urls import Target
from paceline.numbers import number

TIMEOUT_S = 60.0

Answer = tuple[list[str], list[Row]]
"""The names of the columns, and the rows."""

_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_LOOKING_PRAGMAS = frozenset({"table_info", "table_xinfo", "table_list", "index_list", "index_info"})
_STEPS_BETWEEN_LOOKS = 10_000
_DESCRIBES = re.compile(r"\s*(EXPLAIN|SHOW)\b", re.IGNORECASE)
_ONLY_A_READER = """
SELECT 'SET LOCAL ROLE pg_read_all_data' FROM pg_roles own, pg_roles reader
WHERE own.rolname = current_user AND own.rolsuper AND reader.rolname = 'pg_read_all_data'"""
"""What makes a superuser, who may run programs and read files of the server, one who may only read tables."""


def query(target: Target, sql: str, *, timeout_s: float = TIMEOUT_S, limit: int | None = None) -> Answer:
    """The answer to one statement, on a connection that may only read."""
    if not sql.strip():
        raise HistoryError('no SQL given: try "SELECT * FROM measurement LIMIT 5"')
    return (
        _ask_sqlite(target.path, sql, timeout_s, limit)
        if target.path
        else _ask_postgres(target, sql, timeout_s, limit)
    )


def _ask_sqlite(path: Path, sql: str, timeout_s: float, limit: int | None) -> Answer:
    ends_s = time.monotonic() + timeout_s
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        # Not `harden`: the view test_run needs functions of JSON, which SQLite lets no schema call that it distrusts.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
        connection.execute("PRAGMA query_only = ON")
        connection.set_authorizer(_allow)
        connection.set_progress_handler(lambda: time.monotonic() > ends_s, _STEPS_BETWEEN_LOOKS)
        try:
            cursor = connection.execute(sql)
            return _answer(cursor, limit)
        except (sqlite3.Error, sqlite3.Warning) as error:
            if str(error) == "interrupted":
                raise _too_long(timeout_s) from error
            raise HistoryError(f"the query failed: {_told(str(error))}") from error


def _allow(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    looks = action == sqlite3.SQLITE_PRAGMA and first in _LOOKING_PRAGMAS
    loads = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
    return sqlite3.SQLITE_OK if (action in _READS or looks) and not loads else sqlite3.SQLITE_DENY


def _told(message: str) -> str:
    if "not authorized" in message or "prohibited" in message or "readonly" in message:
        return f"{message}; a query may only read"
    if "one statement" in message:
        return "give one statement at a time"
    return message


def _ask_postgres(target: Target, sql: str, timeout_s: float, limit: int | None) -> Answer:
    database = connect(target, create=False, read_only=True)
    with closing(database), database.reading(), _told_by_postgres(timeout_s):
        database.rows(f"SET LOCAL statement_timeout = {max(1, int(timeout_s * 1000))}")
        for (change,) in database.rows(_ONLY_A_READER):
            database.rows(change)
        database.rows("SELECT 1")  # From here on the transaction cannot be made one that writes.
        if _DESCRIBES.match(sql):
            # Prepared, because a statement that is not may be several.
            cursor = database.driver.cursor()
            cursor.execute(sql, prepare=True)
            return _answer(cursor, limit)
        # A cursor is declared for a SELECT only: COPY … TO PROGRAM writes nothing, and runs whatever it names.
        with closing(database.driver.cursor(name="asked")) as cursor:
            cursor.execute(sql)
            return _answer(cursor, limit)


@contextmanager
def _told_by_postgres(timeout_s: float) -> Iterator[None]:
    import psycopg  # the database is one of PostgreSQL, so it is there

    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        raise _too_long(timeout_s) from error
    except psycopg.Error as error:
        message = (str(error).splitlines() or [""])[0]
        kinds = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege)
        reads = "; a query may only read" if isinstance(error, kinds) else ""
        if isinstance(error, psycopg.errors.SyntaxError):
            reads = "; a query may only read: SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW"
        several = "give one statement at a time" if "multiple commands" in message else message
        raise HistoryError(f"the query failed: {several}{reads}") from error


def _answer(cursor: Any, limit: int | None) -> Answer:
    if cursor.description is None:
        raise HistoryError("the query returns nothing: only statements that read are allowed")
    names = [column[0] for column in cursor.description]
    return names, list(cursor.fetchall() if limit is None else cursor.fetchmany(limit))


def _too_long(timeout_s: float) -> HistoryError:
    return HistoryError(
        f"the query took longer than {number(timeout_s)} s: narrow it, or give it more with --timeout"
    )
