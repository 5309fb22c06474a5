"""Removes sessions that nobody wants any more."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from paceline.errors import HistoryError
from paceline.history.session_info import SessionInfo
from paceline.history.store.database import Database
from paceline.history.store.entries import utc
from paceline.history.store.sessions import find_session, read_sessions
from paceline.history.store.writer import remove_metrics

_ORPHANS = {"environment": "environment_id", "setting": "setting_id", "source": "source_id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was removed, or would be."""

    sessions: tuple[SessionInfo, ...]
    records: int
    samples: int


def prune(
    database: Database,
    *,
    older_than: str | None = None,
    keep: int | None = None,
    sessions: Sequence[str] = (),
    dry_run: bool = False,
) -> Pruned:
    """Remove sessions that began before a time, all but the newest, or those named; both bounds must allow it.

    A session without a start is never old. Cases, their names and resets stay: the next run needs them.
    """
    if older_than is None and keep is None and not sessions:
        raise HistoryError("nothing to prune: say --older-than, --keep or --session")
    before = utc(older_than) if older_than is not None else None
    if before == "":
        raise HistoryError(f"{older_than!r} is no time: write it like 2026-11-16 or 2026-11-16T09:30:00Z")
    transaction = database.reading() if dry_run else database.writing()
    with transaction:
        chosen = _chosen(database, before, keep, sessions)
        numbers = [_number(database, session) for session in chosen]
        records, samples = _counts(database, numbers)
        if not dry_run:
            _remove(database, numbers)
    return Pruned(sessions=tuple(chosen), records=records, samples=samples)


def _chosen(
    database: Database, before: str | None, keep: int | None, names: Sequence[str]
) -> list[SessionInfo]:
    chosen: dict[str, SessionInfo] = {}
    if before is not None or keep is not None:
        for position, session in enumerate(read_sessions(database)):
            is_old = before is None or (session.started_at != "" and session.started_at < before)
            if is_old and (keep is None or position >= keep):
                chosen[session.id] = session
    for name in names:
        found = find_session(database, name)
        if found is None:
            raise HistoryError(
                f"no session {name!r} in {database.target}: 'paceline history list' shows them"
            )
        chosen[found.id] = found
    return list(chosen.values())


def _number(database: Database, session: SessionInfo) -> int:
    ((number,),) = database.rows("SELECT id FROM session WHERE ident = ?", (UUID(session.id).bytes,))
    return int(number)


def _counts(database: Database, numbers: Sequence[int]) -> tuple[int, int]:
    count = """
SELECT count(DISTINCT r.id), coalesce(sum(m.sample_count), 0) FROM record r
LEFT JOIN series d ON d.case_id = r.case_id
LEFT JOIN metric m ON m.series_id = d.id AND m.record_id = r.id
WHERE r.session_id = ?"""
    found = [database.rows(count, (number,))[0] for number in numbers]
    return sum(int(row[0]) for row in found), sum(int(row[1]) for row in found)


def _remove(database: Database, numbers: Sequence[int]) -> None:
    for number in numbers:
        records = database.rows("SELECT case_id, id FROM record WHERE session_id = ?", (number,))
        remove_metrics(database, [(case_id, record_id) for case_id, record_id in records])
        database.rows("DELETE FROM record WHERE session_id = ?", (number,))
        database.rows("DELETE FROM session WHERE id = ?", (number,))
    for table, column in _ORPHANS.items():
        used = f"SELECT {column} FROM record WHERE {column} IS NOT NULL"
        database.rows(f"DELETE FROM {table} WHERE id NOT IN ({used})")
    database.rows("DELETE FROM package WHERE environment_id NOT IN (SELECT id FROM environment)")


def vacuum(database: Database) -> None:
    """Give the room of removed rows back to the disk; a server does so by itself."""
    if database.is_sqlite:
        database.rows("VACUUM")
