"""Joins databases: those of CI jobs, or a laptop's and the team's. The order does not matter, nor doing it twice."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from paceline.history.findings import merge_findings, read_findings, read_verdicts
from paceline.history.places import merge_places, read_places
from paceline.history.session_info import Added, SessionInfo
from paceline.history.store.changes import read_aliases, read_resets, write_aliases, write_resets
from paceline.history.store.database import Database, connect, translated
from paceline.history.store.entries import Entry
from paceline.history.store.foreign import check_rows
from paceline.history.store.migrate import ensure_schema, is_current
from paceline.history.store.sessions import read_digests, read_entries, read_environments, read_sessions
from paceline.history.store.writer import Part, Rule, Stored, Writer
from paceline.history.urls import Target, parse_target, readable_address


def _is_newer(entry: Entry, stored: Stored) -> bool:
    _, digest, started_at = stored
    return (entry.started_at, entry.digest) > (started_at, digest)


WHICHEVER_ORDER = Rule(replaces=_is_newer, chosen=max)
"""Two databases tell different things of one session or record: what counts must not depend on who is asked first."""


def merge_into(database: Database, writer: Writer, source: Database) -> Added:
    """Add all that the source has and the database has not."""
    with source.reading():
        sessions = read_sessions(source)
        aliases, resets = read_aliases(source), read_resets(source)
        findings, verdicts = read_findings(source, withdrawn=True), read_verdicts(source)
        places = read_places(source)
    known = 0

    def parts() -> Iterator[Part]:
        nonlocal known
        for session in reversed(sessions):
            part, same = _part(database, source, session)
            known += same
            yield part

    added = writer.write(parts(), WHICHEVER_ORDER)
    with database.writing():
        write_aliases(database, aliases)
        write_resets(database, resets)
        merge_findings(database, findings, verdicts)
        merge_places(database, places)
    return added + Added(known=known)


def _part(database: Database, source: Database, session: SessionInfo) -> tuple[Part, int]:
    """What the source has of a session and the database has not, and how many records are the same in both."""
    with database.reading():
        known = read_digests(database, session.id)
    with source.reading():
        given = read_digests(source, session.id)
        wanted = {ident for ident, told in given.items() if known.get(ident, (None,))[0] != told[0]}
        environments = read_environments(source, session.id)
        every = read_entries(source, session.id) if wanted else ()
        entries = [entry for entry in every if entry.ident in wanted]
    return Part(session, environments, entries), len(given) - len(wanted)


@contextmanager
def opened_source(url: str | Path) -> Iterator[Database]:
    """A database to read from, left as it is: a file of an older schema is upgraded in a copy."""
    target = parse_target(url)
    database = connect(target, create=False, read_only=target.path is not None)
    try:
        if target.path is None or is_current(database):
            ensure_schema(database)
            _check_rows(database)
            yield database
            return
    finally:
        database.close()
    with tempfile.TemporaryDirectory(prefix="paceline-") as directory:
        copy = Path(directory) / target.path.name
        copy_file(target.path, copy)
        upgraded = connect(parse_target(copy), create=False, read_only=False)
        try:
            ensure_schema(upgraded)
            _check_rows(upgraded)
            yield upgraded
        finally:
            upgraded.close()


def _check_rows(database: Database) -> None:
    """A wrong value must not come into our own history."""
    if database.is_sqlite:
        with database.reading():
            check_rows(database)


def copy_file(path: Path, copy: Path) -> None:
    """A consistent copy of a SQLite file, whoever writes to it meanwhile."""
    target = Target(url="", path=path)
    with (
        translated(target),
        closing(sqlite3.connect(readable_address(path), uri=True)) as source,
        closing(sqlite3.connect(copy)) as made,
    ):
        source.backup(made)
