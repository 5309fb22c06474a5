"""The site made page by page as it is asked for, with the sessions that are running now."""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from paceline.dashboard.artifacts import MOST_MASKED_BYTES, Artifact, SafePath, read_artifact, read_ending
from paceline.dashboard.badges_and_feed import badge_files, feed_file
from paceline.dashboard.compared import compare_asked
from paceline.dashboard.encoding import data_file, file_id
from paceline.dashboard.frame import Head, Options, Verdicts, read_frame, read_verdicts
from paceline.dashboard.overview import SESSIONS_SHOWN
from paceline.dashboard.pages import Pages
from paceline.dashboard.site import shell
from paceline.errors import PacelineError
from paceline.finding import State
from paceline.findings.answering import answer
from paceline.findings.commits import Repository
from paceline.history import Store, open_store
from paceline.history.session_files import find_sessions, read_session
from paceline.history.store.columns import read_marks
from paceline.history.store.foreign import WRONG_VALUE, explain
from paceline.record import below, layout
from paceline.record.codec import dump_plain, load
from paceline.record.environment import user_name
from paceline.record.files import read_lines
from paceline.record.lock import is_running
from paceline.record.redact import Redactor

_DATA = re.compile(r"data/(overview|search|[a-z]+/[0-9a-f]+(?:-old|/[0-9]+)?)\.js")
_ARTIFACT = re.compile(r"artifacts/([0-9a-f]+)/([0-9]{1,9})/([0-9a-f]{16})\.[a-z]{3}")
_EXTRAS = frozenset({"feed.xml", "badges/session.svg", "badges/regressions.svg"})
_STATE = """
SELECT (SELECT count(*) FROM record), (SELECT max(id) FROM record), (SELECT sum(digest & 1048575) FROM record),
  (SELECT count(*) FROM finding), (SELECT count(*) FROM human_verdict),
  (SELECT count(*) FROM finding WHERE stage = 'confirmed'), (SELECT count(*) FROM finding WHERE stage = 'bisected'),
  (SELECT count(*) FROM finding WHERE stage = 'not_reproduced'), (SELECT sum(length(culprit)) FROM finding)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the history comes from: how to open it, and whether its database is there by now."""

    opened: Callable[[], AbstractContextManager[Store]]
    exists: Callable[[], bool]
    repository: Repository | None = None


class FoundArtifact(NamedTuple):
    """A file of a run, and what masks the secrets of its session."""

    name: str
    path: SafePath
    redactor: Redactor

    def read(self) -> bytes | None:
        """What it holds; None if it is not there any more, or too large to be searched for secrets."""
        try:
            return read_artifact(self.path, self.redactor)
        except OSError:
            return None


class LiveSite:
    """All files of the site by their paths; used by one thread."""

    def __init__(self, origin: Origin, options: Options) -> None:
        self._origin = origin
        self._options = options
        self._opened = ExitStack()
        self._store: Store | None = None
        self._existed = False
        self._moment: Moment | None = None
        self.token = secrets.token_urlsafe(24)
        """What a page of this server has, and no other: with it, it may say something about a finding."""
        self._shell = dict(shell(token=self.token))
        self._running = RunningSessions(options)

    def close(self) -> None:
        self._running.close()
        self._opened.close()

    def file(self, path: str) -> bytes | None:
        """The content of a file; None if there is none of that name."""
        try:
            return self._file(path)
        except WRONG_VALUE as error:
            if self._store:
                explain(self._store.database, error)
            raise

    def _file(self, path: str) -> bytes | None:
        if path in self._shell:
            return self._shell[path]
        if path == "live.json":
            return dump_plain({"version": self._now().version, "running": self._running.heads()})
        if path in _EXTRAS:
            overview = self._now().overview()
            return feed_file(overview) if path == "feed.xml" else dict(badge_files(overview))[path]
        found = _DATA.fullmatch(path)
        value = self._data(found[1]) if found else None
        return data_file(found[1], value) if found and value is not None else None

    def compared(self, query: Mapping[str, Sequence[str]]) -> bytes | None:
        """What a page asks about two sides, as JSON; None if it is not a question that has an answer."""
        found = compare_asked(self._current_store(), query)
        return None if found is None else dump_plain(found)

    def say(self, ident: str, state: State, why: str) -> int:
        """Store what the user of this machine says about a finding or an incident; how many findings it is about."""
        if not self._origin.exists():
            raise PacelineError("there is no database to keep it in: 'paceline history import' makes one")
        return len(answer(self._current_store(), [ident], state, why=why, who=user_name()))

    def artifact(self, path: str) -> FoundArtifact | None:
        """The file of a run that an address means: one of those its page lists, and none besides."""
        found = _ARTIFACT.fullmatch(path)
        if found is None:
            return None
        ident, place = found[1], int(found[2])
        running = self._running.artifacts(ident, place)
        redactor, several = self._now().artifacts(ident, place) if running is None else running
        named = (one for one in several if file_id(one.name) == found[3])
        return next((FoundArtifact(one.name, one.path, redactor) for one in named), None)

    def _data(self, name: str) -> Any:
        kind, _, rest = name.partition("/")
        running = self._running.data(kind, rest)
        return running if running is not None else self._now().data(kind, rest)

    def _now(self) -> "Moment":
        """The history as it is; what was made of it is used again as long as nobody has written since."""
        store = self._current_store()
        version = version_of(store)
        if self._moment is None or self._moment.version != version:
            self._moment = Moment(store, self._options, self._origin.repository, version)
        return self._moment

    def _current_store(self) -> Store:
        """The history; opened again once its database has come into being."""
        exists = self._origin.exists()
        if self._store is None or exists != self._existed:
            self._opened.close()
            self._moment = None
            self._store = self._opened.enter_context(self._origin.opened())
            self._existed = exists
        return self._store


def version_of(store: Store) -> str:
    """A text that changes when anybody has written."""
    database = store.database
    with database.reading():
        known = database.version() or database.rows(_STATE)
    return str(known)


class Moment:
    """The history at one moment, as pages by their names; each is made once."""

    def __init__(self, store: Store, options: Options, repository: Repository | None, version: str) -> None:
        self.version = version
        with store.database.reading():
            marks = read_marks(store.database)
        frame = read_frame(store, read_verdicts(store, repository, marks), marks)
        self._pages = Pages(store, frame, options)
        self._groups = {file_id(group.key): group for group in frame.groups}
        self._heads = {head.id: head for head in frame.sessions.values()}
        self._incidents = {file_id(one.id): one for one in frame.verdicts.incidents}
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
        if kind == "incident":
            return self._pages.incidents.page(self._incidents[rest]) if rest in self._incidents else None
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
            return self._files(ident, place)
        if not rest.isdecimal():
            return None
        if kind == "sessions":
            return self._pages.sessions(int(rest), {ident: one[1] for ident, one in self._sessions.items()})
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

    def _files(self, ident: str, place: str) -> dict[str, Any] | None:
        head = self._heads.get(ident)
        if head is None:
            return None
        every = self._pages.files(head, self._session(head)[0], partial(served_at, ident))
        return next((files for at, files in every if str(at) == place), None)

    def artifacts(self, ident: str, place: int) -> tuple[Redactor, list[Artifact]]:
        """The files of a record, and what masks secrets in them."""
        head = self._heads.get(ident)
        return self._pages.artifacts(head, self._session(head)[0], place) if head else (Redactor(), [])


def served_at(ident: str, place: int, found: Artifact) -> str | None:
    """The address of a file of a run on a live server; no name from the data is in it. None if it is too large."""
    if found.size_bytes > MOST_MASKED_BYTES:
        return None
    return f"artifacts/{ident}/{place}/{file_id(found.name)}.{read_ending(found.path)}"


class RunningSessions:
    """Sessions that are running now, read from their files: the history has them once they are over.

    Looks for them in the results directory; keeps a small history of its own for them.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._opened = ExitStack()
        self._store: Store | None = None

    def close(self) -> None:
        self._opened.close()

    def heads(self) -> list[dict[str, Any]]:
        """Each session that runs, with how far it is."""
        return [self._head(ident, path) for ident, path in self._look().items()]

    def data(self, kind: str, rest: str) -> Any:
        """The page of a session that runs, or files of one of its cases; None if it does not run."""
        if kind not in ("session", "files"):
            return None
        ident, _, place = rest.partition("/")
        path = self._look().get(ident)
        if path is None:
            return None
        pages, head = self._read(path)
        page = pages.session(head)[0]
        if kind == "files":
            every = pages.files(head, page, partial(served_at, ident))
            return next((found for at, found in every if str(at) == place), None)
        files = [at for at, _ in pages.files(head, page)]
        machines = [list(row) for row in pages.frame.environments]
        return {**page, "files": files, "running": list(_unfinished(path)), "environments": machines}

    def artifacts(self, ident: str, place: int) -> tuple[Redactor, list[Artifact]] | None:
        """The files of a record of a session that runs; None if it does not run."""
        path = self._look().get(ident)
        if path is None:
            return None
        pages, head = self._read(path)
        return pages.artifacts(head, pages.session(head)[0], place)

    def _look(self) -> dict[str, Path]:
        results = self._options.results
        paths = [path for path in find_sessions(results) if is_running(path)] if results else []
        return {read_session(path).session.id: path for path in paths}

    def _head(self, ident: str, path: Path) -> dict[str, Any]:
        info = read_session(path).session
        waiting = list(_unfinished(path))
        planned = len(_planned(path))
        return {
            **{"id": ident, "name": info.name, "started": info.started_at, "planned": planned},
            **{"done": planned - len(waiting), "current": [one for one in waiting if one["started"]]},
        }

    def _read(self, path: Path) -> tuple[Pages, Head]:
        if self._store is None:
            directory = self._opened.enter_context(TemporaryDirectory(prefix="paceline-running-"))
            self._store = self._opened.enter_context(open_store(Path(directory) / "running.db"))
        files = read_session(path)
        self._store.add(*files)
        frame = read_frame(self._store, Verdicts())
        head = next(head for head in frame.sessions.values() if head.id == files.session.id)
        return Pages(self._store, frame, self._options), head


def _planned(path: Path) -> list[str]:
    """The names of the cases of a session's plan."""
    try:
        return [str(case["name"]) for case in load(below.read(path, "plan.json"))["cases"]]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):  # anybody may have written it
        return []


def _unfinished(path: Path) -> Iterator[dict[str, Any]]:
    """The cases that have not ended, with when they began if they have."""
    started: dict[str, str] = {}
    for event in read_lines(path / layout.EVENTS):
        case = str(event.get("case", ""))
        if event.get("event") == "case_finished":
            started.pop(case, None)
        elif case and event.get("event") == "run_started":
            started.setdefault(case, str(event.get("time", "")))
    done = {name for name in below.names(path) if below.is_file(path, f"{name}/{layout.RECORD}")}
    for name in _planned(path):
        if layout.safe_name(name) not in done:
            yield {"case": name, "started": started.get(name, "")}
