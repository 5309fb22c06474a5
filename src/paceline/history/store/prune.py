"""Removes sessions that nobody wants any more, or what is recorded of a case."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from paceline.errors import HistoryError
from paceline.history.session_info import SessionInfo
from paceline.history.store.database import Database, Row
from paceline.history.store.entries import utc
from paceline.history.store.sessions import find_session, read_sessions
from paceline.history.store.writer import remove_metrics

_RECORDS = "SELECT case_id, id, ident FROM record WHERE"
_ORPHANS = {"environment": "environment_id", "setting": "setting_id", "source": "source_id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was removed, or would be."""

    sessions: tuple[SessionInfo, ...] = ()
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
    before = _moment(older_than)
    with database.reading() if dry_run else database.writing():
        chosen = _chosen(database, before, keep, sessions)
        numbers = [
            number
            for session in chosen
            for (number,) in database.rows(
                "SELECT id FROM session WHERE ident = ?", (UUID(session.id).bytes,)
            )
        ]
        records = [
            row for number in numbers for row in database.rows(f"{_RECORDS} session_id = ?", (number,))
        ]
        samples = _take(database, records, dry_run=dry_run)
        if not dry_run:
            database.many("DELETE FROM session WHERE id = ?", [(number,) for number in numbers])
    return Pruned(sessions=tuple(chosen), records=len(records), samples=samples)


def remove(
    database: Database, cases: Sequence[str], *, before: str | None = None, dry_run: bool = False
) -> Pruned:
    """Remove the records of cases, under all their names, or those begun before a time; sessions stay known.

    What was found in these records goes with them; what stands of the rest is for the next search to say.
    """
    moment = _moment(before)
    where = 'case_id IN (SELECT id FROM "case" WHERE current_key = ?)'
    where += "" if moment is None else " AND started_at > '' AND started_at < ?"
    bound = () if moment is None else (moment,)
    with database.reading() if dry_run else database.writing():
        records = [row for case in cases for row in database.rows(f"{_RECORDS} {where}", (case, *bound))]
        samples = _take(database, records, dry_run=dry_run)
        found = [] if dry_run else [(memoryview(ident).hex(),) for _, _, ident in records]
        said = "finding_ident IN (SELECT ident FROM finding WHERE at_record = ?)"
        database.many(f"DELETE FROM human_verdict WHERE {said}", found)
        database.many("DELETE FROM finding WHERE at_record = ?", found)
    return Pruned(records=len(records), samples=samples)


def _moment(time: str | None) -> str | None:
    moment = utc(time) if time is not None else None
    if moment == "":
        raise HistoryError(f"{time!r} is no time: write it like 2026-11-16 or 2026-11-16T09:30:00Z")
    return moment


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


def _take(database: Database, records: Sequence[Row], *, dry_run: bool) -> int:
    """Remove records, given as (case, record, id), with what only they used; how many samples they have."""
    of = [(case, record) for case, record, _ in records]
    count = """
SELECT coalesce(sum(m.sample_count), 0) FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = ?
WHERE d.case_id = ?"""
    samples = sum(int(database.rows(count, (record, case))[0][0]) for case, record in of)
    if dry_run or not records:
        return samples
    remove_metrics(database, of)
    database.many("DELETE FROM record WHERE id = ?", [(record,) for _, record in of])
    for table, column in _ORPHANS.items():
        used = f"SELECT {column} FROM record WHERE {column} IS NOT NULL"
        database.rows(f"DELETE FROM {table} WHERE id NOT IN ({used})")
    database.rows("DELETE FROM package WHERE environment_id NOT IN (SELECT id FROM environment)")
    return samples


def vacuum(database: Database) -> None:
    """Give the room of removed rows back to the disk; a server does so by itself."""
    if database.is_sqlite:
        database.rows("VACUUM")
