"""What the history keeps of the order of its revisions, and of how searches for changes went."""

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.history.store import schema
from paceline.history.store.database import Database

_REVISIONS = """
SELECT revision FROM session UNION SELECT revision FROM record WHERE revision IS NOT NULL"""
_BRANCHES = """
SELECT revision, branch, merge_base, min(started_at) FROM session GROUP BY revision, branch, merge_base"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlace:
    """Where a revision lies: its place among the commits of a repository, which is named by its first commit.

    A revision that no repository has known yet has no repository.
    """

    repository: str = ""
    place: int = 0
    is_main: bool = False
    """Whether it lies on the first-parent line of the default branch."""


def read_revisions(database: Database) -> list[str]:
    """Every revision that was measured."""
    return sorted(revision for (revision,) in database.rows(_REVISIONS) if revision)


def read_branches(database: Database) -> list[tuple[str, str, str, str]]:
    """Revision, branch, merge base and first start of the sessions, those that are alike together."""
    return [(row[0], row[1], row[2], row[3]) for row in database.rows(_BRANCHES) if row[0]]


def read_places(database: Database) -> dict[str, CommitPlace]:
    rows = database.rows("SELECT revision, repository, place, is_main FROM commit_place")
    return {
        revision: CommitPlace(repository=repository, place=place, is_main=bool(is_main))
        for revision, repository, place, is_main in rows
    }


def write_places(database: Database, places: Mapping[str, CommitPlace]) -> None:
    """Insert or replace places, within a transaction that is open."""
    database.many("DELETE FROM commit_place WHERE revision = ?", [(revision,) for revision in places])
    rows = [(revision, one.repository, one.place, int(one.is_main)) for revision, one in places.items()]
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


def write_state(database: Database, state: Mapping[str, float]) -> None:
    """Insert or replace numbers, within a transaction that is open."""
    database.many("DELETE FROM search_state WHERE name = ?", [(name,) for name in state])
    database.insert(schema.search_state, list(state.items()))
