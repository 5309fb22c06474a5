"""Every data file of the site by its name, made from the history when it is asked for."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

from paceline.dashboard.artifacts import Artifact, find_artifacts
from paceline.dashboard.broken import Broken
from paceline.dashboard.frame import Frame, Head, Options
from paceline.dashboard.incidents import Incidents
from paceline.dashboard.overview import Overview, Summaries
from paceline.dashboard.record_pages import pack_case, session_page
from paceline.dashboard.run_files import EXECUTION, SessionPath, find_session, run_files
from paceline.dashboard.search import Latest
from paceline.history.store.columns import (
    CaseGroup,
    read_case,
    read_environment,
    read_source,
)
from paceline.history.store.store import Store
from paceline.model import Case, CaseKind
from paceline.record import below
from paceline.record.codec import load
from paceline.record.environment import without_others
from paceline.record.redact import Redactor, mask_urls

SHARD = 512
"""Sessions of one file."""

Address = Callable[[int, Artifact], str | None]
"""Where a page finds a file of the record at a place; None if nowhere."""


def _nowhere(place: int, found: Artifact) -> str | None:
    return None


class Pages:
    """Makes pages from one frame."""

    def __init__(self, store: Store, frame: Frame, options: Options) -> None:
        self.frame = frame
        self._store = store
        self._database = store.database
        self._options = options

    @cached_property
    def latest(self) -> Latest:
        return Latest(self._database, self.frame)

    @cached_property
    def incidents(self) -> Incidents:
        return Incidents(self._store, self.frame, self.latest.facets, self._options.results)

    def overview(self, summaries: Summaries) -> dict[str, Any]:
        return Overview(self._store, self.frame, self._options).page(
            summaries, self.incidents, Broken(self._database, self.frame, self.latest.facets)
        )

    def search(self, trends: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
        """All cases; those whose trends are known need not be read again."""
        if trends is None:
            trends = {group.key: self.latest.trend(group) for group in self.frame.groups}
        return self.latest.index(trends)

    def case(self, group: CaseGroup, split: int) -> dict[str, Any]:
        """A case's page: what is known of it, and its records after the number `split`."""
        epochs = {
            *self.frame.epochs.get(group.key, ()),
            *self.frame.epochs.get(group.key.partition("[")[0], ()),
        }
        ids = self.frame.of_case(group).ids
        with self._database.reading():
            columns = read_case(self._database, group, ids[ids > split])
        return {
            "case": group.key,
            "entry": group.entry,
            "params": load(group.params.encode()) if group.params else {},
            "kinds": [{"version": version, "variant": variant} for _, version, variant in group.rows],
            "epochs": [{"at": at, "why": why} for at, why in sorted(epochs)],
            "findings": self.frame.verdicts.of_case(group.key),
            "names": self.frame.verdicts.names.get(group.key, ()),
            "restless": self.frame.verdicts.restless.get(group.key, ()),
            "records": pack_case(group, columns),
        }

    def case_body(self, group: CaseGroup, split: int) -> dict[str, Any]:
        """A case's records up to a number; there for each case, so that a page can load both files at once."""
        ids = self.frame.of_case(group).ids
        with self._database.reading():
            return pack_case(group, read_case(self._database, group, ids[ids <= split]))

    def session(self, head: Head) -> tuple[dict[str, Any], dict[str, Any]]:
        """A session's page and its summary; one of evals names its attentions in both."""
        page, summary = session_page(self._database, self.frame, head)
        found = self.find(head)
        if found is None or not below.is_file(*found.path / EXECUTION):
            return page, summary
        # Imported here, since it takes longer than a small night.
        from paceline.dashboard.evals_pages import attentions_of

        attentions = attentions_of(found.path)
        more = {"attentions": attentions} if len(attentions) > 1 else {}
        return {**page, **more}, {**summary, **more}

    def evals(self, head: Head) -> dict[str, Any]:
        """The scores of an execution's samples; only of a session that has attentions."""
        from paceline.dashboard.evals_pages import evals_page

        found = self.find(head)
        return evals_page(found.path) if found else {}

    def find(self, head: Head) -> SessionPath | None:
        """A session's own files, if they are within reach."""
        options = self._options
        return find_session(head.directory, head.name, options.results, options.artifacts_dir)

    def files(
        self, head: Head, page: dict[str, Any], address: Address = _nowhere
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """What the files of a session have of each of its records, by the record's place in the session's page.

        `address` says where the page finds a file of the record at a place.
        """
        session = self.find(head)
        if session is None:
            return
        for place in {name: place for place, name in enumerate(page["case"])}.values():
            found = run_files(session, _case_at(page, place), partial(address, place))
            if found:
                yield place, found

    def artifacts(self, head: Head, page: dict[str, Any], place: int) -> tuple[Redactor, list[Artifact]]:
        """The files of the case at a place of the session's page, and what masks the session's secrets in them."""
        session = self.find(head)
        if session is None or place >= len(page["case"]):
            return Redactor(), []
        return session.redactor, find_artifacts(session.entry(_case_at(page, place)))

    def sessions(self, shard: int, summaries: Summaries) -> list[dict[str, Any]]:
        """The sessions whose numbers lie in a shard."""
        numbers = range(shard * SHARD, (shard + 1) * SHARD)
        heads = [self.frame.sessions[number] for number in numbers if number in self.frame.sessions]
        return [{**self.frame.pack_head(head), **summaries.get(head.id, {})} for head in heads]

    def heads(self, shard: int) -> list[dict[str, Any]]:
        """The same without their summaries, which the page of a case does not need."""
        return self.sessions(shard, {})

    def environment(self, number: int) -> dict[str, Any]:
        with self._database.reading():
            data, packages = read_environment(self._database, number)
        return {**(without_others(load(data.encode())) if data else {}), "packages": mask_urls(packages)}

    def source(self, number: int) -> dict[str, Any]:
        with self._database.reading():
            hash_, text = read_source(self._database, number)
        return {"hash": hash_, "text": text}


def _case_at(page: dict[str, Any], place: int) -> Case:
    """As much of a case as it takes to know its directory."""
    name = page["case"][place]
    kind: CaseKind = "data_setup" if place in page["setup"] else "entry"
    bare = name.removeprefix("data_setup/") if kind == "data_setup" else name
    return Case(name=bare, entry=bare, key=bare, kind=kind)


def shards(frame: Frame) -> list[int]:
    """The shards that have sessions."""
    return sorted({number // SHARD for number in frame.sessions})
