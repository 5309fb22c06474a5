"""Database files that others may have made: opened so that nothing in them runs, and checked before they are used."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.errors import HistoryError
from paceline.history.store.schema import TABLES, Column, version
from paceline.model import Status

if TYPE_CHECKING:
    from paceline.history.store.database import Database

MOST_VALUE_BYTES = 64 << 20
"""No text of a row is longer; a generated column could claim any length."""
_FEWEST_STEPS, _STEPS_A_BYTE, _STEPS_BETWEEN_LOOKS = 50_000_000, 100, 100_000
_IDENT_BYTES = 16
_MAX_INT = (1 << 31) - 1
_TYPES = {
    "INTEGER": f"typeof({{0}}) <> 'integer' OR {{0}} NOT BETWEEN 0 AND {_MAX_INT}",
    "BIGINT": "typeof({0}) <> 'integer'",
    "DOUBLE": "typeof({0}) NOT IN ('real', 'integer')",
    "BLOB": f"typeof({{0}}) <> 'blob' OR length({{0}}) <> {_IDENT_BYTES}",
    "TEXT": "typeof({0}) <> 'text'",
}
_OBJECTS = ("session.meta", "environment.data", "case.params", "setting.data", "record.outcome")
_JSON = {
    **dict.fromkeys((*_OBJECTS, "finding.last_good", "finding.first_bad", "finding.culprit"), "object"),
    **dict.fromkeys(("finding.suspects", "commit_place.tags"), "array"),
}
# What goes wrong in a program that takes a value for what its column says.
WRONG_VALUE = (TypeError, ValueError, LookupError, OverflowError, AttributeError, RecursionError)


def harden(connection: sqlite3.Connection) -> None:
    """Let the file's own views and defaults call nothing that reaches outside, nor make values without end."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)


class StepLimit:
    """Ends a statement that takes more steps than the file's size explains: one page may be named a million times."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._paths = (path, path.with_name(f"{path.name}-wal"))
        self._most = _FEWEST_STEPS
        self._looks = 0
        connection.set_progress_handler(self._look, _STEPS_BETWEEN_LOOKS)

    def _look(self) -> bool:
        self._looks += 1
        if self._looks * _STEPS_BETWEEN_LOOKS > self._most:
            size_bytes = sum(
                path.stat().st_size for path in self._paths if path.exists()
            )  # it may have grown
            self._most = _FEWEST_STEPS + _STEPS_A_BYTE * size_bytes
        return self._looks * _STEPS_BETWEEN_LOOKS > self._most

    def begin(self) -> None:
        """Count anew: another statement begins."""
        self._looks = 0


def check_tables(database: "Database") -> None:
    """Refuse a file of SQLite in which a name of ours is not a plain table, or which has triggers."""
    found = database.rows("SELECT type, name, tbl_name, rootpage FROM sqlite_master")
    for kind, name, table, page in found:
        if kind == "trigger" and table in TABLES:
            raise _refused(database, f"it has a trigger {name!r:.80}")
        if name in TABLES and kind != "index" and (kind != "table" or not page):
            raise _refused(database, f"{name!r} is not a plain table in it")
    columns = {name for (name,) in database.rows("SELECT name FROM pragma_table_info(?)", (version.name,))}
    if columns and not columns.issuperset(version.names):
        raise _refused(database, f"its table {version.name} has not our columns")


def check_columns(database: "Database") -> None:
    """Refuse a file whose tables have not the columns of the newest schema, or make up values of their own."""
    rows = database.rows(
        "SELECT m.name, c.name, c.pk, c.hidden, upper(c.type) FROM sqlite_master m, pragma_table_xinfo(m.name) c "
        "WHERE m.type = 'table'"
    )
    columns: dict[str, dict[str, tuple[Any, ...]]] = {}
    for table, name, *facts in rows:
        columns.setdefault(table, {})[name] = tuple(facts)
    for table in TABLES.values():
        known = columns.get(table.name, {})
        for column in table.columns:
            key = table.key.index(column.name) + 1 if column.name in table.key else 0
            is_number = column.kind == "INTEGER"
            told = known.pop(column.name, None)
            if told is None or told[:2] != (key, 0) or (is_number and told[2] != "INTEGER"):
                raise _refused(database, f"its table {table.name} has not our column {column.name}")
        if any(hidden for _, hidden, _ in known.values()):
            raise _refused(database, f"its table {table.name} has a generated column")


def _refused(database: "Database", why: str) -> HistoryError:
    return HistoryError(
        f"{database.target} is not a history that paceline made: {why}; name another with --db or PACELINE_DB"
    )


def explain(database: "Database", error: BaseException) -> None:
    """Say in one line which row of a file holds a value that is not of its column's kind; return if none does."""
    if not database.is_sqlite or not isinstance(error, WRONG_VALUE):
        return
    try:
        check_rows(database)
    except sqlite3.Error:
        return


def check_rows(database: "Database") -> None:
    """Refuse a file with a row that holds a value which is not of its column's kind; reads all of it."""
    found = next(_wrong_rows(database.rows), "")
    if found:
        raise HistoryError(
            f"{database.target} holds what no history of ours does: {found}; delete the row, or name another file"
        )


def _wrong_rows(rows: Callable[[str], list[tuple[Any, ...]]]) -> Iterator[str]:
    for table in TABLES.values():
        keys = ", ".join(f'"{name}"' for name in table.key)
        for column in table.columns:
            for wrong, why in _conditions(table.name, column):
                for row in rows(f'SELECT {keys} FROM "{table.name}" WHERE {wrong} LIMIT 1'):
                    key = ", ".join(ascii(value)[:60] for value in row)
                    yield f"row {key} of the table {table.name}: its {column.name} {why}"


def _conditions(table: str, column: Column) -> Iterator[tuple[str, str]]:
    """What is true of a row with a wrong value, and how it is said."""
    name = f'"{column.name}"'
    kind = column.kind.partition("(")[0]
    null = f"{name} IS NOT NULL AND " if column.is_null else ""
    yield f"{null}({_TYPES.get(kind, _TYPES['TEXT']).format(name)})", f"is not {_said(kind)}"
    if shape := _JSON.get(f"{table}.{column.name}"):
        is_other = f"CASE WHEN json_valid({name}) THEN json_type({name}) <> '{shape}' ELSE 1 END"
        yield f"{name} <> '' AND {is_other}", f"is not an {shape} in JSON"
    if column.to and not TABLES[table].is_huge:
        yield f'{null}NOT EXISTS (SELECT 1 FROM "{column.to}" t WHERE t.id = {name})', "leads nowhere"
    if (table, column.name) == ("record", "status"):
        every = ", ".join(f"'{status.value}'" for status in Status)
        yield f"{name} NOT IN ({every})", "is none that we know"


def _said(kind: str) -> str:
    words = {"INTEGER": "a whole number that we would give", "BIGINT": "a whole number", "DOUBLE": "a number"}
    return words.get(kind, f"an id of {_IDENT_BYTES} bytes" if kind == "BLOB" else "text")
