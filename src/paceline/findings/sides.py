"""What the two sides of a comparison are: sessions, revisions, branches, environments, files."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.errors import HistoryError, PacelineError
from paceline.findings.commits import Repository
from paceline.history import SessionInfo, Store
from paceline.history.importers import DATABASE, read, recognise
from paceline.history.session_files import read_environments, read_selection
from paceline.history.store.environments import to_stored
from paceline.history.store.names import read_names
from paceline.model import Record
from paceline.record import below, codec, layout

ENVIRONMENT = "env:"
LAST, PREVIOUS = "last", "previous"
_ALIKE = """
SELECT DISTINCT s.ident FROM record r JOIN session s ON s.id = r.session_id WHERE r.case_id IN
(SELECT r.case_id FROM record r JOIN session s ON s.id = r.session_id WHERE s.ident = ?)"""
_SHORTEST_REVISION = 4
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A record, and the class of the machine that it was made on; empty if that is unknown."""

    record: Record
    environment_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison. `about` says what it was taken to be."""

    name: str
    about: str
    measured: tuple[Measured, ...]
    machines: Mapping[str, Mapping[str, Any]]
    """What makes machines comparable, by their class."""
    is_environment: bool = False
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What is known of the environments that records name, by their ids."""
    selections: tuple[Mapping[str, Any], ...] = ()
    """What each of its sessions was asked to run; empty where that was the whole suite."""

    @property
    def classes(self) -> frozenset[str]:
        return frozenset(one.environment_class for one in self.measured if one.environment_class)


class Sides:
    """Finds what a name means, in the history, in a repository and on disk."""

    def __init__(
        self,
        store: Store | None,
        repository: Repository | None,
        find_session: Callable[[str], Path | None],
    ) -> None:
        self._store = store
        self._repository = repository
        self._find_session = find_session

    def find(self, name: str) -> Side:
        """The side of that name; a name that means nothing is an error that says what was looked for."""
        ways = (self._environment, self._path, self._stored_session, self._session_on_disk)
        for way in (*ways, self._recent, self._revision, self._branch):
            found = way(name)
            if found is not None:
                return self._renamed(found)
        if self._store is None:
            hint = "'paceline list' shows the sessions here; there is no history, which 'paceline run' makes"
            raise PacelineError(f"{name!r} is no session or file here: {hint}")
        raise PacelineError(
            f"{name!r} is no session, revision, branch or file here or in {self._store.database.target}: "
            "'paceline history list --sessions' shows those there are"
        )

    def of_sessions(self, name: str, sessions: Iterable[SessionInfo]) -> Side:
        """The side that these sessions of the history are."""
        return self._renamed(self._of_sessions(name, name, sessions))

    def case_patterns(self, given: Iterable[str]) -> list[str]:
        """Names or globs of cases, with those that the history leads to from them."""
        if self._store is None:
            return list(given)
        with self._store.database.reading():
            names = read_names(self._store.database)
        return [one for text in given for one in names.patterns(text)]

    def _renamed(self, side: Side) -> Side:
        """The side with the names that its cases go by now."""
        if not side.measured:
            raise PacelineError(f"{side.about} has no results to compare")
        if self._store is None:
            return side
        with self._store.database.reading():
            names = read_names(self._store.database)
        measured = tuple(_under(one, names.current(one.record.case.key)) for one in side.measured)
        return replace(side, measured=measured)

    def _path(self, name: str) -> Side | None:
        path = Path(name)
        if not path.exists() or not (path.is_file() or os.sep in name or layout.is_session(path)):
            return None
        documents = _documents(path)
        if documents is not None:
            return documents
        if path.is_file() and recognise(path) == DATABASE:
            raise HistoryError(f"{path} is a whole history: name a session or a revision, and --db {path}")
        found = _Found()
        for batch in read(path):
            found.add((batch.environment, *batch.others), batch.records, batch.session.meta)
        return found.side(name, str(path))

    def _stored_session(self, name: str) -> Side | None:
        found = self._store.session(name) if self._store else None
        return None if found is None else self._of_sessions(name, f"session {found.name}", [found])

    def _recent(self, name: str) -> Side | None:
        """The newest session in the history, or the newest before it that ran some of the same cases."""
        sessions = self._store.sessions() if self._store and name in (LAST, PREVIOUS) else []
        if not sessions or name == LAST:
            return self._of_sessions(name, f"session {sessions[0].name}", sessions[:1]) if sessions else None
        assert self._store is not None
        with self._store.database.reading():
            rows = self._store.database.rows(_ALIKE, (bytes.fromhex(sessions[0].id),))
        alike = {bytes(ident).hex() for (ident,) in rows}
        for one in sessions[1:]:
            if one.id in alike and one.kind == sessions[0].kind:
                return self._of_sessions(name, f"session {one.name}", [one])
        return None

    def _session_on_disk(self, name: str) -> Side | None:
        path = self._find_session(name)
        return None if path is None else self._path(str(path.absolute()))

    def _revision(self, name: str) -> Side | None:
        """The sessions of a revision, by the first digits of its hash or by what the repository calls it."""
        if self._store is None:
            return None
        sessions = self._store.sessions()
        resolved = self._repository.resolve(name) if self._repository else ""
        is_hash = len(name) >= _SHORTEST_REVISION and set(name.lower()) <= _HEX
        for start in filter(None, (name.lower() if is_hash else "", resolved)):
            found = [one for one in sessions if one.revision.startswith(start)]
            revisions = {one.revision for one in found}
            if len(revisions) > 1:
                raise PacelineError(f"{name!r} may be any of {', '.join(sorted(revisions))}: give more of it")
            if found:
                return self._of_sessions(name, f"revision {found[0].revision[:10]}", found)
        return None

    def _branch(self, name: str) -> Side | None:
        """The newest revision of a branch that has results."""
        of_branch = [one for one in self._store.sessions() if one.branch == name] if self._store else []
        if not of_branch:
            return None
        newest = of_branch[0]
        same = [one for one in of_branch if one.revision == newest.revision] if newest.revision else [newest]
        return self._of_sessions(name, f"branch {name} at {newest.revision[:10] or newest.name}", same)

    def _environment(self, name: str) -> Side | None:
        """All results of an environment, or of a class of machines, by the first characters of its id."""
        if not name.startswith(ENVIRONMENT):
            return None
        start = name.removeprefix(ENVIRONMENT)
        if self._store is None or not start:
            raise PacelineError(f"{name!r} needs a history and the id of an environment in it")
        with self._store.database.reading():
            rows = self._store.database.rows("SELECT ident, class_id FROM environment")
        idents = {ident for ident, class_id in rows if ident.startswith(start) or class_id.startswith(start)}
        ran = {session for session, ident in self._session_environments() if ident in idents}
        sessions = [one for one in self._store.sessions() if one.id in ran]
        side = self._of_sessions(name, f"environment {start}", sessions)
        kept = tuple(one for one in side.measured if one.record.environment in idents)
        return replace(side, measured=kept, is_environment=True)

    def _session_environments(self) -> Iterator[tuple[str, str]]:
        """Which session has records of which environment."""
        assert self._store is not None
        select = """
SELECT DISTINCT s.ident, e.ident FROM record r JOIN session s ON s.id = r.session_id
JOIN environment e ON e.id = r.environment_id"""
        with self._store.database.reading():
            rows = self._store.database.rows(select)
        return ((bytes(session).hex(), ident) for session, ident in rows)

    def _of_sessions(self, name: str, about: str, sessions: Iterable[SessionInfo]) -> Side:
        assert self._store is not None
        found, count = _Found(), 0
        for session in sessions:
            count += 1
            records = self._store.records(session)
            found.add(({}, *self._store.environments(session)), records, session.meta)
        return found.side(name, about + (f" ({count} sessions)" if count > 1 else ""))


def _under(one: Measured, key: str) -> Measured:
    """The same, with another name of its case."""
    case = replace(one.record.case, key=key)
    return replace(one, record=replace(one.record, case=case))


class _Found:
    """What a name was found to mean, session by session."""

    def __init__(self) -> None:
        self._measured: list[Measured] = []
        self._machines: dict[str, Mapping[str, Any]] = {}
        self._environments: dict[str, Mapping[str, Any]] = {}
        self._selections: list[Mapping[str, Any]] = []

    def add(
        self,
        environments: Sequence[Mapping[str, Any]],
        records: Iterable[Record],
        meta: Mapping[str, Any],
    ) -> None:
        """A session's records, each on the machine that it names; the first environment is that of the session."""
        selection = meta.get("selection")
        self._selections.append(selection if isinstance(selection, Mapping) else {})
        known = {str(one.get("id") or ""): one for one in environments}
        self._environments |= known
        classes = {ident: _class_of(one, self._machines) for ident, one in known.items()}
        own = _class_of(environments[0], self._machines)
        for record in records:
            ident = record.environment
            # A node of a pool that nobody describes is comparable only with itself.
            is_unknown_node = "node" in record.details and ident and ident not in classes
            class_id = ident if is_unknown_node else classes.get(ident, own)
            self._measured.append(Measured(record=record, environment_class=class_id))

    def side(self, name: str, about: str) -> Side:
        return Side(
            name=name,
            about=about,
            measured=tuple(_last_attempts(self._measured)),
            machines=self._machines,
            environments=self._environments,
            selections=tuple(self._selections),
        )


def _last_attempts(measured: Iterable[Measured]) -> Iterator[Measured]:
    """Of a case that was tried several times in a session, the last one."""
    last: dict[tuple[str, ...], Measured] = {}
    for one in measured:
        record = one.record
        key = (record.session, record.case.key, record.case.variant or "", record.case.version)
        if key not in last or record.attempt >= last[key].record.attempt:
            last[key] = one
    return iter(last.values())


def _class_of(environment: Mapping[str, Any], machines: dict[str, Mapping[str, Any]]) -> str:
    """The class of an environment; it is noted what is known of that class."""
    if not environment:
        return ""
    class_id = to_stored(environment).class_id
    comparable = environment.get("comparable")
    machines.setdefault(class_id, comparable if isinstance(comparable, Mapping) else {})
    return class_id


def _documents(path: Path) -> Side | None:
    """A `record.json` or `report.json` of ours; None if the file is something else."""
    if not path.is_file() or path.suffix != ".json":
        return None
    try:
        data = codec.load(path.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or "session" not in data:
        return None
    listed = data.get("records", [data] if "case" in data else None)
    if not isinstance(listed, list):
        return None
    parents = path.absolute().parents[:3]
    around = next((one for one in parents if below.is_file(one, "environment.json")), None)
    environment, others = ({}, ()) if around is None else read_environments(around)
    found = _Found()
    meta = {} if around is None else read_selection(around)
    found.add((environment, *others), [codec.from_json(one) for one in listed], meta)
    return found.side(str(path), str(path))
