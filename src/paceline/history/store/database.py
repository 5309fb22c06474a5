"""A connection to SQLite or PostgreSQL, and the few things that differ between them."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

import re
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from typing import Any

from paceline.errors import HistoryError
from paceline.history.store.foreign import StepLimit, harden
from paceline.history.store.schema import Table
from paceline.history.urls import Target, check_driver, readable_address

BUSY_TIMEOUT_S = 60
"""How long a writer waits for the others; each holds the lock for some milliseconds."""
CONNECT_TIMEOUT_S = 30

# Any number will do that other programs on the same server do not take for their locks.
_ADVISORY_LOCK = 7_205_321_944_118_201
_CACHE_KIB = 32 * 1024
_MMAP_BYTES = 1 << 30
_PAGES_TO_CHECKPOINT = 8192
"""How long the log of an import grows before it is written into the file: pages that it writes again count once."""
_AT_ONCE = 2000
_WORTH_A_COPY = 20
_QUOTED_OR_SPECIAL = re.compile(r"""'[^']*'|"[^"]*"|[?%]""")

Row = tuple[Any, ...]


class Database:
    """A connection of `sqlite3` or `psycopg` that one thread uses: transactions, and rows as they come."""

    def __init__(self, target: Target, driver: Any, *, read_only: bool) -> None:
        self.target = target
        self.read_only = read_only
        self.driver = driver
        self.is_sqlite = target.path is not None
        self.dialect = "sqlite" if self.is_sqlite else "postgresql"
        self._limit = StepLimit(driver, target.path) if target.path else None

    def close(self) -> None:
        self.driver.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that no other writer overlaps; all of it is seen by others, or nothing."""
        if self.read_only:
            raise HistoryError(f"{self.target} was opened for reading only")
        with self._transaction("BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN"):
            if not self.is_sqlite:
                self.rows("SELECT pg_advisory_xact_lock(?)", (_ADVISORY_LOCK,))
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction that sees one moment of the database."""
        with self._transaction(
            "BEGIN" if self.is_sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        ):
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with translated(self.target):
            self.rows(begin)
            try:
                yield
                self.rows("COMMIT")
            except BaseException:
                with suppress(*driver_errors()):  # what ended it may have ended the connection, too
                    self.rows("ROLLBACK")
                raise

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """All rows of a statement whose parameters are written as `?`; none for one that returns none."""
        cursor = self._new_cursor()
        self._execute(cursor, sql, parameters)
        found: list[Row] = cursor.fetchall() if cursor.description else []
        return found

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a statement, some in memory at a time; only within a transaction."""
        for rows in self.batches(sql, _AT_ONCE, parameters):
            yield from rows

    def batches(self, sql: str, size: int, parameters: Sequence[Any] = ()) -> Iterator[list[Row]]:
        """The rows of a statement in lists of this many; only within a transaction."""
        cursor = self._new_cursor() if self.is_sqlite else self.driver.cursor(name="batches")
        with closing(cursor):
            self._execute(cursor, sql, parameters)
            while rows := cursor.fetchmany(size):
                yield rows

    def map_nothing(self) -> None:
        """Read the file block by block: mapped blocks count as memory of ours, and a long read touches them all."""
        if self.is_sqlite:
            self.rows("PRAGMA mmap_size = 0")

    def many(self, sql: str, rows: Sequence[Row]) -> None:
        """One statement for each row of parameters."""
        if rows:
            self._new_cursor().executemany(sql if self.is_sqlite else _for_postgres(sql), rows)

    def _execute(self, cursor: Any, sql: str, parameters: Sequence[Any]) -> None:
        if self.is_sqlite:
            cursor.execute(sql, parameters)
        elif parameters:
            cursor.execute(_for_postgres(sql), parameters)
        else:
            cursor.execute(sql)  # without parameters, nothing in it is special

    def _new_cursor(self) -> Any:
        if self._limit:
            self._limit.begin()
        return self.driver.cursor()

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """New rows, by the fastest way the database has; values in the order of the table's columns."""
        if not rows:
            return
        names = table.names
        if self.is_sqlite or len(rows) < _WORTH_A_COPY:
            marks = ", ".join("?" * len(names))
            self.many(f'INSERT INTO "{table.name}" ({", ".join(names)}) VALUES ({marks})', rows)
            return
        statement = f'COPY "{table.name}" ({", ".join(names)}) FROM STDIN'
        with self.driver.cursor().copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def version(self) -> tuple[int, int] | None:
        """A value that changes when anybody writes; None where that is not known."""
        if not self.is_sqlite:
            return None
        ((by_others,),) = self.rows("PRAGMA data_version")
        return by_others, self.driver.total_changes


@lru_cache(maxsize=512)
def _for_postgres(sql: str) -> str:
    """A statement with parameters as psycopg takes it: `?` outside of quotes is one, `%` means nothing anywhere."""

    def spelled(found: re.Match[str]) -> str:
        return "%s" if found[0] == "?" else found[0].replace("%", "%%")

    return _QUOTED_OR_SPECIAL.sub(spelled, sql)


def connect(target: Target, *, create: bool, read_only: bool) -> Database:
    """Open a file, or a connection to a server."""
    if target.path is None:
        return Database(target, _connect_postgres(target), read_only=read_only)
    path = target.path
    if not path.exists():
        if read_only or not create:
            raise HistoryError(
                f"no history at {path}: 'paceline run' makes one, or name another with --db or PACELINE_DB"
            )
        with translated(target):
            path.parent.mkdir(parents=True, exist_ok=True)
    address = readable_address(path) if read_only else f"{path.as_uri()}?mode={'rwc' if create else 'rw'}"
    with translated(target):
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            _set_pragmas(connection, read_only=read_only)
        except BaseException:
            connection.close()
            raise
    return Database(target, connection, read_only=read_only)


def _connect_postgres(target: Target) -> Any:
    check_driver(target)
    import psycopg

    with translated(target):
        return psycopg.connect(
            target.url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S, application_name="paceline"
        )


def _set_pragmas(connection: sqlite3.Connection, *, read_only: bool) -> None:
    harden(connection)
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")
    # A lost file system may lose the last transactions, never the database; the sessions' files have them.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_TO_CHECKPOINT}")
    if read_only:
        connection.execute("PRAGMA query_only = ON")


def use_wal(database: Database) -> None:
    """Let readers and a writer work side by side, where the file system can; kept in the file for ever."""
    if database.is_sqlite:
        ((mode,),) = database.rows("PRAGMA journal_mode")
        if mode != "wal":
            database.rows("PRAGMA journal_mode = WAL")


# Of PostgreSQL's own states: connection lost, not authorised, no such database, shut down, no privilege.
_NOT_REACHED = ("08", "28", "3D", "57P", "42501")
_HINTS = {
    "database is locked": "another process has been writing for minutes: wait for it, or end it",
    "file is not a database": "name another file with --db or PACELINE_DB",
    "attempt to write a readonly database": "make the file and its directory writable",
    "unable to open database file": "look whether its directory is there and may be written to",
    "database or disk is full": "make room on the disk",
    "disk I/O error": "look at the disk and its free space",
    "interrupted": "reading it takes longer than its size explains, so it is damaged: name another file",
    "Could not decode to UTF-8": "a row of it holds what is not text: name another file",
    "too big": "a row of it holds more than any of ours: name another file",
    "unsupported file format": "a later version of SQLite made it, or it is damaged",
    "malformed": "the file is damaged: make a new one with 'paceline history import' from the sessions' files",
}


@contextmanager
def translated(target: Target) -> Iterator[None]:
    """Turn what a user can act on into an error of one line; the rest is a bug and keeps its traceback."""
    try:
        yield
    except OSError as error:
        raise HistoryError(f"{target}: {error.strerror or error}") from error
    except Exception as error:
        raise_as_told(target, error)
        raise


def raise_as_told(target: Target, error: BaseException) -> None:
    """Raise what the driver says of a lock, a disk or a server; return if it is none of these."""
    names = {cls.__name__ for cls in type(error).__mro__}
    text = (str(error).strip().splitlines() or [""])[0]
    if isinstance(
        error, UnicodeDecodeError
    ):  # Python could not read SQLite's own message, which quotes the file
        hint = _HINTS["malformed"]
        raise HistoryError(f"{target}: it holds words that are not text: {hint}") from error
    if isinstance(error, sqlite3.DatabaseError):
        hint = next((hint for words, hint in _HINTS.items() if words in text), "")
        if hint:
            raise HistoryError(f"{target}: {text}: {hint}") from error
    elif "OperationalError" in names or "InsufficientPrivilege" in names:
        state = getattr(error, "sqlstate", None) or ""
        is_far = not state or state.startswith(_NOT_REACHED)
        hint = ": look whether the server runs and lets this user in" if is_far else ""
        raise HistoryError(f"{target}: {text}{hint}") from error


def driver_errors() -> tuple[type[Exception], ...]:
    """All that the drivers in use raise, for who must go on whatever they say."""
    psycopg = sys.modules.get("psycopg")
    return (sqlite3.Error, UnicodeDecodeError, *((psycopg.Error,) if psycopg else ()))


def chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The items in lists of at most this many."""
    chunk: list[Any] = []
    for item in items:
        chunk.append(item)
        if len(chunk) >= size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
