"""What all pages of the site are made from: which cases, sessions and environments there are, and what judges found."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from paceline.dashboard.encoding import file_id
from paceline.errors import HistoryError
from paceline.finding import Finding
from paceline.findings.commits import Repository
from paceline.findings.order import Order, read_order
from paceline.findings.ranking import Incident, newest_time, rank
from paceline.findings.screening import read_unrest
from paceline.findings.telling import tell
from paceline.history.findings import case_marks, read_findings
from paceline.history.findings import read_marks as read_search_marks
from paceline.history.naming import read_machine_names, read_series_names
from paceline.history.store.columns import (
    CaseGroup,
    Ints,
    Marks,
    groups,
    read_case_names,
    read_environment_heads,
    read_groups,
    read_marks,
    read_session_heads,
    read_source_heads,
)
from paceline.history.store.store import Store
from paceline.record.codec import finding_json

_ID_LENGTH = 32
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A session as the history has it, without its records; the fields are the columns of `read_session_heads`."""

    number: int
    id: str
    name: str
    kind: str
    started_at: str
    revision: str
    branch: str
    commit_time: str
    directory: str
    ci_run_url: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user chose: `files_of` is of how many of the newest sessions logs and curves are kept.

    Files of a run up to `largest_file_bytes` are copied into a site on disk. No file outside `results` is read, but for
    logs under `artifacts_dir`, where the suite has such.
    """

    title: str = "Benchmarks"
    results: Path | None = None
    artifacts_dir: Path | None = None
    files_of: int = 30
    largest_file_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What judges found: incidents in the order that `paceline regressions` gives them, and how many there are.

    `places` is the order of the sessions, by their ids, if commits are known; `unsearched` counts cases with records
    that no search has looked at.
    """

    incidents: Sequence[Incident] = ()
    by_case: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """The findings of each case as `paceline regressions --json` prints them, newest first."""
    order: Order = field(default_factory=Order)
    places: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    """The series of each case in words."""
    restless: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """The series of each case whose level moves by itself, with how much within a week, as a share."""
    machines: Mapping[str, str] = field(default_factory=dict)
    """Classes of machines in words."""
    repository: Repository | None = None
    newest: str = ""
    unsearched: int = 0

    def of_case(self, key: str) -> Sequence[Mapping[str, Any]]:
        return self.by_case.get(key, ())


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The history at one moment, as far as all pages need it."""

    marks: Marks
    groups: Sequence[CaseGroup]
    sessions: Mapping[int, Head]
    environments: Sequence[Sequence[Any]]
    case_names: Mapping[int, tuple[str, str, str]]
    """Key, variant and kind of each row of a case."""
    epochs: Mapping[str, Sequence[tuple[str, str]]]
    verdicts: Verdicts
    sources: Sequence[Sequence[Any]] = ()
    by_case: Mapping[int, Ints] = field(default_factory=dict)
    by_session: Mapping[int, Ints] = field(default_factory=dict)

    @cached_property
    def versions(self) -> dict[int, str]:
        """The version of each row of a case."""
        return {number: version for group in self.groups for number, version, _ in group.rows}

    def of_case(self, group: CaseGroup) -> Marks:
        """The marks of a case's records, in order."""
        places = [self.by_case[row[0]] for row in group.rows if row[0] in self.by_case]
        return self.marks.at(np.sort(np.concatenate([_NONE, *places])))

    def of_session(self, number: int) -> Marks:
        """The marks of a session's records, in order."""
        return self.marks.at(self.by_session.get(number, _NONE))

    def pack_head(self, head: Head) -> dict[str, Any]:
        """A session for a list; `place` is that in the order of commits."""
        facts = {
            **{"number": head.number, "id": head.id, "name": head.name, "kind": head.kind},
            **{"started": head.started_at, "revision": head.revision, "branch": head.branch},
            **{"committed": head.commit_time, "tool": head.tool, "ci": head.ci_run_url},
            "place": self.verdicts.places.get(head.id, ""),
        }
        return {name: fact for name, fact in facts.items() if fact != ""}

    def session_ranks(self) -> dict[int, int]:
        """The place of each session in the one order, by its number: that of commits if they are known, else time."""
        places = self.verdicts.places
        heads = sorted(
            self.sessions.values(), key=lambda head: (places.get(head.id, -1), head.started_at, head.number)
        )
        return {head.number: rank for rank, head in enumerate(heads)}

    def newest(self) -> list[Head]:
        """All sessions, the newest first."""
        return sorted(self.sessions.values(), key=lambda head: (head.started_at, head.number), reverse=True)


def read_frame(store: Store, verdicts: Verdicts, marks: Marks | None = None) -> Frame:
    """Read what all pages need; marks that were read before need not be read again."""
    database = store.database
    with database.reading():
        marks = read_marks(database) if marks is None else marks
        cases = read_groups(database)
        columns = [one.name for one in fields(Head)]
        heads = [
            Head(**dict(zip(columns, (number, _session_id(ident), *rest), strict=True)))
            for number, ident, *rest in read_session_heads(database)
        ]
        environments = read_environment_heads(database)
        names = read_case_names(database)
        sources = read_source_heads(database)
    epochs: dict[str, list[tuple[str, str]]] = {}
    for epoch in store.epochs():
        epochs.setdefault(epoch.case_key, []).append((epoch.at, epoch.why))
    _check_files(cases)
    by_case = _grouped(marks.cases)
    return Frame(
        marks=marks,
        groups=[group for group in cases if any(row[0] in by_case for row in group.rows)],
        sessions={head.number: head for head in heads},
        environments=environments,
        case_names=names,
        epochs=epochs,
        verdicts=verdicts,
        sources=sources,
        by_case=by_case,
        by_session=_grouped(marks.sessions),
    )


def _session_id(ident: bytes) -> str:
    """The id of a session, which becomes a part of names of files."""
    text = memoryview(ident).hex()
    if len(text) != _ID_LENGTH:
        raise ValueError(f"{text!r:.80} is not the id of a session")
    return text


def _grouped(owners: Ints) -> dict[int, Ints]:
    """For each case, or each session, the places of its records among the marks."""
    order, starts = groups(owners)
    if not len(starts):
        return {}
    return dict(zip(owners[order[starts]].tolist(), np.split(order, starts[1:]), strict=True))


def _check_files(groups: Sequence[CaseGroup]) -> None:
    """Two names with one file would show each other's numbers."""
    seen: dict[str, str] = {}
    for group in groups:
        other = seen.setdefault(file_id(group.key), group.key)
        if other != group.key:
            raise HistoryError(
                f"the names {other!r} and {group.key!r} have one hash: rename one of them with 'paceline history alias'"
            )


def read_verdicts(store: Store, repository: Repository | None = None, marks: Marks | None = None) -> Verdicts:
    """All findings that stand in their incidents, the order of the revisions, and what series are called."""
    with store.database.reading():
        found = read_findings(store.database)
        unsearched = _unsearched(store, read_marks(store.database) if marks is None else marks)
        series, machines = read_series_names(store.database), read_machine_names(store.database)
    told = tell(store, reversed(found))
    by_case: dict[str, list[Mapping[str, Any]]] = {}
    for one in told:
        by_case.setdefault(one.case, []).append(pack_finding(one))
    names: dict[str, list[Mapping[str, str]]] = {}
    for (case, variant, version, class_id), named in series.items():
        told_of = {"variant": variant, "version": version, "class": class_id}
        names.setdefault(case, []).append({**told_of, "name": named.name, "newest": named.newest})
    restless: dict[str, list[Mapping[str, Any]]] = {}
    for key, unrest in read_unrest(store).items():
        told_of = {"variant": key.variant, "version": key.version, "class": key.environment_class}
        told_of |= {"metric": key.metric, "unit": key.unit}
        restless.setdefault(key.case, []).append({**told_of, "unrest": unrest})
    order, newest = read_order(store, repository), newest_time(store)
    return Verdicts(
        incidents=rank(told, newest),
        by_case=by_case,
        order=order,
        places=order.ranks(store),
        names=names,
        restless=restless,
        machines=machines,
        repository=repository,
        newest=newest,
        unsearched=unsearched,
    )


def _unsearched(store: Store, marks: Marks) -> int:
    """How many cases have records that no search has looked at."""
    rows = store.database.rows("SELECT id, current_key FROM \"case\" WHERE kind = 'entry'")
    keys: dict[int, str] = dict(rows)
    sums = [(case, keys[case], *numbers) for case, *numbers in marks.sums() if case in keys]
    searched = {case: mark.rpartition(":")[2] for case, mark in read_search_marks(store.database).items()}
    return sum(1 for case, mark in case_marks(store.database, sums).items() if searched.get(case) != mark)


def pack_finding(one: Finding) -> dict[str, Any]:
    """A finding as `paceline regressions --json` has it, without what is empty; a chart needs the ids of sessions."""
    told = {**finding_json(one), "last_good": asdict(one.last_good), "first_bad": asdict(one.first_bad)}
    return {name: fact for name, fact in told.items() if fact not in (None, "", []) and name != "evidence"}
