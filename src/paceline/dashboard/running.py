"""Sessions that are running now, read from their files: the history has them once they are over."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from paceline.dashboard.artifacts import Artifact
from paceline.dashboard.frame import Head, Options, Verdicts, read_frame
from paceline.dashboard.moment import served_at
from paceline.dashboard.pages import Pages
from paceline.history import SessionInfo, Store, open_store
from paceline.history.session_files import find_sessions, read_session
from paceline.record import layout
from paceline.record.codec import load
from paceline.record.events import read_events
from paceline.record.lock import is_running


class RunningSessions:
    """Looks for them in the results directory; keeps a small history of its own for them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._opened = ExitStack()
        self._store: Store | None = None
        self._known: dict[str, Path] = {}

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

    def artifacts(self, ident: str, place: int) -> list[Artifact] | None:
        """The files of a record of a session that runs; None if it does not run."""
        path = self._look().get(ident)
        if path is None:
            return None
        pages, head = self._read(path)
        return pages.artifacts(head, pages.session(head)[0], place)

    def _look(self) -> dict[str, Path]:
        results = self._options.results
        paths = [path for path in find_sessions(results) if is_running(path)] if results else []
        self._known = {read_session(path).session.id: path for path in paths}
        return self._known

    def _head(self, ident: str, path: Path) -> dict[str, Any]:
        info = read_session(path).session
        waiting = list(_unfinished(path))
        planned = len(_planned(path))
        told = {"id": ident, "name": info.name, "started": info.started_at, "planned": planned}
        return {**told, "done": planned - len(waiting), "current": [one for one in waiting if one["started"]]}

    def _read(self, path: Path) -> tuple[Pages, Head]:
        store = self._store or self._open()
        files = read_session(path)
        store.add(files.session, files.environment, files.records)
        frame = read_frame(store, Verdicts())
        return Pages(store.database, frame, self._options), _head_of(frame.sessions, files.session)

    def _open(self) -> Store:
        directory = self._opened.enter_context(TemporaryDirectory(prefix="paceline-running-"))
        self._store = self._opened.enter_context(open_store(Path(directory) / "running.db"))
        return self._store


def _head_of(heads: Mapping[int, Head], info: SessionInfo) -> Head:
    return next(head for head in heads.values() if head.id == info.id)


def _planned(path: Path) -> list[str]:
    """The names of the cases of a session's plan."""
    try:
        plan = load((path / "plan.json").read_bytes())
    except (OSError, ValueError):
        return []
    return [str(case["name"]) for case in plan.get("cases", ())]


def _unfinished(path: Path) -> Iterator[dict[str, Any]]:
    """The cases that have not ended, with when they began if they have."""
    started: dict[str, str] = {}
    for event in read_events(path / layout.EVENTS):
        case = str(event.get("case", ""))
        if event.get("event") == "case_finished":
            started.pop(case, None)
        elif case and event.get("event") == "run_started":
            started.setdefault(case, str(event.get("time", "")))
    done = {file.parent.name for file in path.glob(f"*/{layout.RECORD}")}
    for name in _planned(path):
        if layout.safe_name(name) not in done:
            yield {"case": name, "started": started.get(name, "")}
