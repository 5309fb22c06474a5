"""Brings a database to the newest schema, whoever comes first; the others wait and find it done."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, inspect

from paceline.errors import HistoryError
from paceline.history.store import schema
from paceline.history.store.database import Database, use_wal
from paceline.history.store.foreign import check_columns, check_tables
from paceline.history.store.views import VIEWS, drop_view
from paceline.record.files import lock_file

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
"""All there have been, oldest first. Known here because looking through the files would import alembic."""


def ensure_schema(database: Database) -> None:
    """Create or upgrade the tables; of an up-to-date file only its columns are looked at."""
    stored = stored_revision(database)
    if stored == schema.HEAD:
        _check_columns(database)
        return
    check_known(database, stored)
    if database.read_only:
        made = f"has the schema {stored}" if stored else "has no tables yet"
        raise HistoryError(f"{database.target} {made}: open it once for writing")
    with _alone(database.target.path):
        use_wal(database)
        with database.writing():
            _upgrade(database)
    _check_columns(database)


def _check_columns(database: Database) -> None:
    if database.is_sqlite:  # a server lets nobody in who could make tables look like ours
        with database.reading():
            check_columns(database)


def is_current(database: Database) -> bool:
    """Whether it has the newest schema; False for one that can be upgraded, else an error."""
    stored = stored_revision(database)
    if stored != schema.HEAD:
        check_known(database, stored)
    return stored == schema.HEAD


def stored_revision(database: Database) -> str | None:
    """The revision that the database says it has; None for one that is empty or somebody else's."""
    with database.reading():
        if database.is_sqlite:
            check_tables(database)
        return _revision(database)


def _revision(database: Database) -> str | None:
    if not inspect(database.connection).has_table(schema.VERSION_TABLE):
        return None
    rows = database.rows(f"SELECT version_num FROM {schema.VERSION_TABLE}")
    return str(rows[0][0]) if rows else None


def check_known(database: Database, stored: str | None) -> None:
    """Refuse a database of a later version, and one in which other programs use our names."""
    if stored in REVISIONS:
        return
    if stored is not None:
        known = f"this paceline knows up to {schema.HEAD}"
        raise HistoryError(
            f"{database.target} has the schema {stored} and {known}: update paceline to use it"
        )
    with database.reading():
        if _revision(database) is not None:
            return  # made by another process since we looked
        inspector = inspect(database.connection)
        names = {*inspector.get_table_names(), *inspector.get_view_names()}
    taken = sorted(names & {*schema.metadata.tables, *VIEWS})
    if taken:
        raise HistoryError(
            f"{database.target} is another program's database (it has a table {taken[0]}): read it with "
            "'paceline history import', or name another with --db or PACELINE_DB"
        )


def _upgrade(database: Database) -> None:
    """What is left to do, now that nobody else can be at it: one transaction, so a crash leaves what was there."""
    connection = database.connection
    if not inspect(connection).has_table(schema.VERSION_TABLE):
        schema.create(connection)
        return
    ((stored,),) = database.rows(f"SELECT version_num FROM {schema.VERSION_TABLE}")
    if stored != schema.HEAD:
        upgrade(connection, schema.HEAD)


def upgrade(connection: Connection, revision: str) -> None:
    """Bring the database to a revision, within the transaction that is open."""
    from alembic import command  # takes half a second
    from alembic.config import Config

    for name in reversed(VIEWS):
        connection.exec_driver_sql(drop_view(name))
    config = Config()
    scripts = Path(__file__).parents[1] / "migrations"
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    if revision == schema.HEAD:
        schema.create_views(connection)


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
