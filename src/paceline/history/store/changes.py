"""What people tell the history: that a case has a new name, or that its numbers mean something else from now on."""

from collections.abc import Iterable
from uuid import uuid5

from paceline.errors import HistoryError
from paceline.history.session_info import NAMESPACE
from paceline.history.store import schema
from paceline.history.store.database import Database
from paceline.history.store.entries import clean, utc
from paceline.history.store.names import CaseNames, keep_names, read_names
from paceline.model import one_spelling
from paceline.record.events import utc_now

Alias = tuple[str, str, str]
"""Old name, new name, when it was told."""
Reset = tuple[bytes, str, str, str, str]
"""Id, case, from when on, why, when it was told."""


def add_alias(database: Database, old: str, new: str) -> None:
    """Let what was recorded under the old name belong to the new one; no record is touched."""
    old, new = clean(old), clean(new)
    if old == new or not old or not new:
        raise HistoryError(f"cannot rename {old!r} to {new!r}: give two different names")
    with database.writing():
        old, new = _spelled(database, old), _spelled(database, new)
        aliases: dict[str, str] = dict(database.rows("SELECT old_key, new_key FROM case_alias"))
        aliases.pop(old, None)
        if old == new or CaseNames(aliases).current(new) == CaseNames(aliases).current(old):
            raise HistoryError(f"cannot rename {old!r} to {new!r}: the new name leads back to the old one")
        write_aliases(database, [(old, new, utc_now())])


def _spelled(database: Database, name: str) -> str:
    """A name as the history spells it, if it does not have one that is exactly so."""
    found = database.rows('SELECT 1 FROM "case" WHERE key = ? LIMIT 1', (name,))
    return name if found else one_spelling(name)


def remove_alias(database: Database, old: str) -> bool:
    """Take a rename back; whether there was one."""
    with database.writing():
        old = _spelled(database, old)
        found = database.rows("SELECT 1 FROM case_alias WHERE old_key = ?", (old,))
        database.rows("DELETE FROM case_alias WHERE old_key = ?", (old,))
        keep_names(database)
    return bool(found)


def read_aliases(database: Database) -> list[Alias]:
    return [
        (old, new, at)
        for old, new, at in database.rows(
            "SELECT old_key, new_key, created_at FROM case_alias ORDER BY created_at, old_key"
        )
    ]


def write_aliases(database: Database, aliases: Iterable[Alias]) -> None:
    """Store renames; of two for one name the one that was told last counts, whatever order they come in."""
    known = {old: (at, new) for old, new, at in read_aliases(database)}
    for old, new, at in aliases:
        if (at, new) > known.get(old, ("", "")):
            database.rows("DELETE FROM case_alias WHERE old_key = ?", (old,))
            database.rows(
                "INSERT INTO case_alias (old_key, new_key, created_at) VALUES (?, ?, ?)", (old, new, at)
            )
    keep_names(database)


def add_reset(database: Database, case: str, why: str, at: str | None = None) -> str:
    """Begin a new epoch of a case: points before it stay, and are not compared. Returns when it begins."""
    time = utc(at) if at else utc_now()
    if not time:
        raise HistoryError(f"{at!r} is no time: write it like 2026-11-16 or 2026-11-16T09:30:00Z")
    if not why.strip():
        raise HistoryError(
            f"cannot reset {case!r} without a reason: say why its numbers changed their meaning"
        )
    with database.writing():
        key = read_names(database).current(_spelled(database, clean(case)))
        ident = uuid5(NAMESPACE, f"epoch\0{key}\0{time}\0{why}").bytes
        write_resets(database, [(ident, key, time, clean(why), utc_now())])
    return time


def read_resets(database: Database) -> list[Reset]:
    select = "SELECT ident, case_key, at, why, created_at FROM epoch ORDER BY at, case_key"
    return [(memoryview(row[0]).tobytes(), row[1], row[2], row[3], row[4]) for row in database.rows(select)]


def write_resets(database: Database, resets: Iterable[Reset]) -> None:
    known = {ident for ident, *_ in read_resets(database)}
    names = read_names(database)
    database.insert(
        schema.epoch, [(*reset, names.current(reset[1])) for reset in resets if reset[0] not in known]
    )
