"""The site made page by page as it is asked for, with the sessions that are running now."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

from paceline.dashboard.artifacts import Artifact
from paceline.dashboard.badges import badge_files
from paceline.dashboard.encoding import data_file, file_id
from paceline.dashboard.feed import feed_file
from paceline.dashboard.frame import Options
from paceline.dashboard.moment import Moment, version_of
from paceline.dashboard.running import RunningSessions
from paceline.dashboard.site import shell
from paceline.findings.commits import Repository
from paceline.history import Store
from paceline.record.codec import dump_plain

_DATA = re.compile(r"data/(overview|search|[a-z]+/[0-9a-f]+(?:-old|/[0-9]+)?)\.js")
_ARTIFACT = re.compile(r"artifacts/([0-9a-f]+)/([0-9]{1,9})/([0-9a-f]{16})\.[a-z]{3}")
_EXTRAS = frozenset({"feed.xml", "badges/session.svg", "badges/regressions.svg"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the history comes from: how to open it, and whether its database is there by now."""

    opened: Callable[[], AbstractContextManager[Store]]
    exists: Callable[[], bool]
    repository: Repository | None = None


class LiveSite:
    """All files of the site by their paths; used by one thread."""

    def __init__(self, origin: Origin, options: Options) -> None:
        self._origin = origin
        self._options = options
        self._opened = ExitStack()
        self._store: Store | None = None
        self._existed = False
        self._moment: Moment | None = None
        self._shell = dict(shell(live=True))
        self._running = RunningSessions(options)

    def close(self) -> None:
        self._running.close()
        self._opened.close()

    def file(self, path: str) -> bytes | None:
        """The content of a file; None if there is none of that name."""
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

    def artifact(self, path: str) -> Artifact | None:
        """The file of a run that an address means: one of those its page lists, and none besides."""
        found = _ARTIFACT.fullmatch(path)
        if found is None:
            return None
        ident, place = found[1], int(found[2])
        running = self._running.artifacts(ident, place)
        several = self._now().artifacts(ident, place) if running is None else running
        return next((one for one in several if file_id(one.name) == found[3]), None)

    def _data(self, name: str) -> Any:
        kind, _, rest = name.partition("/")
        running = self._running.data(kind, rest)
        return running if running is not None else self._now().data(kind, rest)

    def _now(self) -> Moment:
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
