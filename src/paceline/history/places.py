"""What the history keeps of the order of its revisions, and of how searches for changes went."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from paceline.history.store import schema
from paceline.history.store.database import Database
from paceline.history.store.entries import json_text, utc
from paceline.record.codec import load

_REVISIONS = """
SELECT revision FROM session UNION SELECT revision FROM record WHERE revision IS NOT NULL"""
_BRANCHES = """
SELECT revision, branch, merge_base, min(started_at), max(commit_time) FROM session
GROUP BY revision, branch, merge_base"""


class Tag(NamedTuple):
    """A name that somebody gave a commit, and when that commit was made."""

    name: str
    time: str


class Measured(NamedTuple):
    """What sessions that are alike say of the revision that they measured."""

    revision: str
    branch: str
    merge_base: str
    started_at: str
    """When the first of them began."""
    commit_time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlace:
    """Where a revision lies: its place among the commits of a repository, which is named by its first commit.

    A revision that no repository has known yet has no repository; its sessions may know when it was committed.
    """

    repository: str = ""
    place: int = 0
    is_main: bool = False
    """Whether it lies on the first-parent line of the default branch."""
    commit_time: str = ""
    tags: tuple[Tag, ...] = ()
    """Those of the commit, and of the commits since the measured one before it."""
    order_time: str = ""
    """The time that orders it among all: that of its commit, unless its clock was wrong."""


def read_revisions(database: Database) -> list[str]:
    """Every revision that was measured."""
    return sorted(revision for (revision,) in database.rows(_REVISIONS) if revision)


def read_branches(database: Database) -> list[Measured]:
    """What the sessions say of their revisions, those that are alike together."""
    rows = (Measured._make(row) for row in database.rows(_BRANCHES))
    return [one._replace(commit_time=utc(one.commit_time)) for one in rows if one.revision]


def read_places(database: Database) -> dict[str, CommitPlace]:
    rows = database.rows(f"SELECT {', '.join(schema.commit_place.names)} FROM commit_place")
    return {
        revision: CommitPlace(
            repository=repository,
            place=place,
            is_main=bool(is_main),
            commit_time=commit_time or "",
            tags=tuple(Tag(str(name), str(time)) for name, time in load(tags.encode())) if tags else (),
            order_time=order_time or "",
        )
        for revision, repository, place, is_main, commit_time, tags, order_time in rows
    }


def write_places(database: Database, places: Mapping[str, CommitPlace]) -> None:
    """Insert or replace places, within a transaction that is open."""
    database.many("DELETE FROM commit_place WHERE revision = ?", [(revision,) for revision in places])
    rows = [
        (
            *(revision, one.repository, one.place, int(one.is_main), one.commit_time or None),
            json_text(one.tags) if one.tags else None,
            one.order_time or None,
        )
        for revision, one in places.items()
    ]
    database.insert(schema.commit_place, rows)


def merge_places(database: Database, places: Mapping[str, CommitPlace]) -> None:
    """Add another database's places of repositories that this one knows nothing of."""
    known = read_places(database)
    repositories = {one.repository for one in known.values()}
    new = {
        revision: one
        for revision, one in places.items()
        if one.repository not in repositories and not known.get(revision, CommitPlace()).repository
    }
    write_places(database, new)


def read_state(database: Database) -> dict[str, float]:
    """The numbers that a search leaves for the next one."""
    return dict(database.rows("SELECT name, value FROM search_state"))


def drop_state(database: Database, name: str) -> None:
    """Forget a number, within a transaction that is open."""
    database.rows("DELETE FROM search_state WHERE name = ?", (name,))


def write_state(database: Database, state: Mapping[str, float]) -> None:
    """Insert or replace numbers, within a transaction that is open."""
    database.many("DELETE FROM search_state WHERE name = ?", [(name,) for name in state])
    database.insert(schema.search_state, list(state.items()))
