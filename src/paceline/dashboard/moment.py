"""The history at one moment, as pages by their names; each is made once."""

from functools import partial
from typing import Any

from paceline.dashboard.artifacts import Artifact, read_ending
from paceline.dashboard.encoding import file_id
from paceline.dashboard.frame import Head, Options, read_frame
from paceline.dashboard.overview import SESSIONS_SHOWN
from paceline.dashboard.pages import Pages
from paceline.dashboard.verdicts import read_verdicts
from paceline.findings.commits import Repository
from paceline.history.store.columns import read_marks
from paceline.history.store.store import Store

_STATE = """
SELECT (SELECT count(*) FROM record), (SELECT max(id) FROM record), (SELECT sum(digest & 1048575) FROM record),
  (SELECT count(*) FROM finding), (SELECT count(*) FROM human_verdict)"""


def version_of(store: Store) -> str:
    """A text that changes when anybody has written."""
    database = store.database
    with database.reading():
        known = database.version() or database.rows(_STATE)
    return str(known)


class Moment:
    """Pages of one state of the history."""

    def __init__(self, store: Store, options: Options, repository: Repository | None, version: str) -> None:
        self.version = version
        with store.database.reading():
            marks = read_marks(store.database)
        frame = read_frame(store, read_verdicts(store, repository, marks), marks)
        self._pages = Pages(store.database, frame, options)
        self._groups = {file_id(group.key): group for group in frame.groups}
        self._heads = {head.id: head for head in frame.sessions.values()}
        self._sessions: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._overview: dict[str, Any] | None = None

    def overview(self) -> dict[str, Any]:
        if self._overview is None:
            shown = self._pages.frame.newest()[:SESSIONS_SHOWN]
            self._overview = self._pages.overview({head.id: self._session(head)[1] for head in shown})
        return self._overview

    def data(self, kind: str, rest: str) -> Any:
        """The value of a data file; None if there is none of that name."""
        if kind == "overview":
            return self.overview()
        if kind == "search":
            return self._pages.search()
        if kind == "case":
            return self._case(rest)
        if kind == "session":
            return self._session_page(rest)
        if kind == "evals":
            return self._evals(rest)
        return self._side(kind, rest)

    def _case(self, name: str) -> Any:
        group = self._groups.get(name.removesuffix("-old"))
        if group is None:
            return None
        return self._pages.case_body(group, 0) if name.endswith("-old") else self._pages.case(group, 0)

    def _side(self, kind: str, rest: str) -> Any:
        if kind == "files":
            ident, _, place = rest.partition("/")
            return self._session_files(ident, place) if ident in self._heads else None
        if not rest.isdecimal():
            return None
        if kind == "sessions":
            summaries = {ident: told[1] for ident, told in self._sessions.items()}
            return self._pages.sessions(int(rest), summaries)
        if kind == "heads":
            return self._pages.heads(int(rest))
        if kind == "environment":
            return self._pages.environment(int(rest))
        return self._pages.source(int(rest)) if kind == "source" else None

    def _session(self, head: Head) -> tuple[dict[str, Any], dict[str, Any]]:
        if head.id not in self._sessions:
            self._sessions[head.id] = self._pages.session(head)
        return self._sessions[head.id]

    def _session_page(self, ident: str) -> dict[str, Any] | None:
        head = self._heads.get(ident)
        if head is None:
            return None
        page = self._session(head)[0]
        return {**page, "files": [place for place, _ in self._pages.files(head, page)]}

    def _evals(self, ident: str) -> dict[str, Any] | None:
        head = self._heads.get(ident)
        return self._pages.evals(head) if head and "attentions" in self._session(head)[0] else None

    def _session_files(self, ident: str, place: str) -> dict[str, Any] | None:
        head = self._heads[ident]
        found = self._pages.files(head, self._session(head)[0], partial(served_at, ident))
        return next((files for at, files in found if str(at) == place), None)

    def artifacts(self, ident: str, place: int) -> list[Artifact]:
        """The files of a record."""
        head = self._heads.get(ident)
        return self._pages.artifacts(head, self._session(head)[0], place) if head else []


def served_at(ident: str, place: int, found: Artifact) -> str:
    """The address of a file of a run on a live server; no name from the data is in it."""
    return f"artifacts/{ident}/{place}/{file_id(found.name)}.{read_ending(found.path)}"
