"""Brings a database to the newest schema, whoever comes first; the others wait and find it done."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.errors import HistoryError
from paceline.history.store.database import Database, use_wal
from paceline.history.store.foreign import check_columns, check_tables
from paceline.history.store.migrations import STEPS
from paceline.history.store.schema import HEAD, TABLES, VERSION_TABLE
from paceline.history.store.views import VIEWS
from paceline.record.files import lock_file

REVISIONS = ("0001", *STEPS)
"""All schemas there have been, oldest first."""
_POSTGRES_NAMES = """
SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"""


def ensure_schema(database: Database) -> None:
    """Create or upgrade the tables; of an up-to-date file only its columns are looked at."""
    stored = stored_revision(database)
    if stored == HEAD:
        _check_columns(database)
        return
    check_known(database, stored)
    if database.read_only:
        made = f"has the schema {stored}" if stored else "has no tables yet"
        raise HistoryError(f"{database.target} {made}: open it once for writing")
    with _alone(database.target.path):
        use_wal(database)
        with database.writing():
            # What is left to do, now that nobody else can be at it: a crash leaves what was there.
            upgrade(database)
    _check_columns(database)


def _check_columns(database: Database) -> None:
    if database.is_sqlite:  # a server lets nobody in who could make tables look like ours
        with database.reading():
            check_columns(database)


def is_current(database: Database) -> bool:
    """Whether it has the newest schema; False for one that can be upgraded, else an error."""
    stored = stored_revision(database)
    if stored != HEAD:
        check_known(database, stored)
    return stored == HEAD


def stored_revision(database: Database) -> str | None:
    """The revision that the database says it has; None for one that is empty or somebody else's."""
    with database.reading():
        if database.is_sqlite:
            check_tables(database)
        return _revision(database)


def _revision(database: Database) -> str | None:
    if VERSION_TABLE not in _names(database):
        return None
    rows = database.rows(f"SELECT version_num FROM {VERSION_TABLE}")
    return str(rows[0][0]) if rows else None


def _names(database: Database) -> set[str]:
    """What tables and views there are."""
    select = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
    return {name for (name,) in database.rows(select if database.is_sqlite else _POSTGRES_NAMES)}


def check_known(database: Database, stored: str | None) -> None:
    """Refuse a database of a later version, and one in which other programs use our names."""
    if stored in REVISIONS:
        return
    if stored is not None:
        known = f"this paceline knows up to {HEAD}"
        raise HistoryError(
            f"{database.target} has the schema {stored} and {known}: update paceline to use it"
        )
    with database.reading():
        if _revision(database) is not None:
            return  # made by another process since we looked
        taken = sorted(_names(database) & {*TABLES, *VIEWS})
    if taken:
        raise HistoryError(
            f"{database.target} is another program's database (it has a table {taken[0]}): read it with "
            "'paceline history import', or name another with --db or PACELINE_DB"
        )


def upgrade(database: Database) -> None:
    """Bring the database to the newest schema, within the transaction that is open."""
    stored = _revision(database)
    if stored == HEAD:
        return
    for name in reversed(VIEWS):
        database.rows(f"DROP VIEW IF EXISTS {name}")
    if stored is None:
        for table in TABLES.values():
            for statement in table.ddl(database.dialect):
                database.rows(statement)
        database.rows(f"INSERT INTO {VERSION_TABLE} (version_num) VALUES (?)", (HEAD,))
    else:
        for revision, step in STEPS.items():
            if revision > stored:
                step(database)
        database.rows(f"UPDATE {VERSION_TABLE} SET version_num = ?", (HEAD,))
    for make in VIEWS.values():
        database.rows(make(database.dialect))


@contextmanager
def _alone(path: Path | None) -> Iterator[None]:
    """Keep other processes from creating or migrating the same file; a server has its own locks."""
    if path is None:
        yield
        return
    lock = path.with_name(f"{path.name}.lock")
    fd = _lock(lock)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(fd)


def _lock(path: Path) -> int:
    """Hold the lock file; one that its last owner removed meanwhile is no lock, so look again."""
    while True:
        try:
            fd = lock_file(path, wait=True)
        except OSError as error:
            raise HistoryError(f"cannot lock {path}: {error.strerror or error}") from error
        try:
            if os.fstat(fd).st_ino == path.stat().st_ino:
                return fd
        except FileNotFoundError:
            pass
        os.close(fd)
