"""What all pages of the site are made from: which cases, sessions and environments there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paceline.dashboard.encoding import file_id
from paceline.errors import HistoryError
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A session as the history has it, without its records."""

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

    Files of a run up to `largest_file_bytes` are copied into a site on disk.
    """

    title: str = "Benchmarks"
    results: Path | None = None
    files_of: int = 30
    largest_file_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What judges found: findings as `paceline regressions --json` prints them, newest first.

    `places` is the order of the revisions as a repository has it; `unsearched` counts cases with records that no
    search has looked at.
    """

    findings: tuple[Mapping[str, Any], ...] = ()
    places: Mapping[str, int] = field(default_factory=dict)
    unsearched: int = 0

    def of_case(self, key: str) -> list[Mapping[str, Any]]:
        return [finding for finding in self.findings if finding.get("case") == key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The history at one moment, as far as all pages need it."""

    marks: Marks
    groups: Sequence[CaseGroup]
    sessions: Mapping[int, Head]
    environments: Sequence[Sequence[Any]]
    case_names: Mapping[int, tuple[str, str, str]]
    epochs: Mapping[str, Sequence[tuple[str, str]]]
    verdicts: Verdicts
    sources: Sequence[Sequence[Any]] = ()
    by_case: Mapping[int, Ints] = field(default_factory=dict)
    by_session: Mapping[int, Ints] = field(default_factory=dict)

    def of_case(self, group: CaseGroup) -> Marks:
        """The marks of a case's records, in order."""
        places = [self.by_case[row[0]] for row in group.rows if row[0] in self.by_case]
        return self.marks.at(np.sort(np.concatenate([_NONE, *places])))

    def of_session(self, number: int) -> Marks:
        """The marks of a session's records, in order."""
        return self.marks.at(self.by_session.get(number, _NONE))

    def pack_head(self, head: Head) -> dict[str, Any]:
        """A session for a list; `place` is that of its revision in the order of commits."""
        facts = {
            **{"number": head.number, "id": head.id, "name": head.name, "kind": head.kind},
            **{"started": head.started_at, "revision": head.revision, "branch": head.branch},
            **{"committed": head.commit_time, "tool": head.tool, "ci": head.ci_run_url},
            "place": self.verdicts.places.get(head.revision, ""),
        }
        return {name: fact for name, fact in facts.items() if fact != ""}

    def newest(self) -> list[Head]:
        """All sessions, the newest first."""
        return sorted(self.sessions.values(), key=lambda head: (head.started_at, head.number), reverse=True)


def read_frame(store: Store, verdicts: Verdicts, marks: Marks | None = None) -> Frame:
    """Read what all pages need; marks that were read before need not be read again."""
    database = store.database
    with database.reading():
        marks = read_marks(database) if marks is None else marks
        cases = read_groups(database)
        heads = [Head(**_named(row)) for row in read_session_heads(database)]
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


_HEAD = (
    *("number", "id", "name", "kind", "started_at", "revision"),
    *("branch", "commit_time", "directory", "ci_run_url", "tool"),
)


def _named(row: Sequence[Any]) -> dict[str, Any]:
    fields = dict(zip(_HEAD, row, strict=True))
    return {**fields, "id": bytes(fields["id"]).hex()}


def _grouped(owners: Ints) -> dict[int, Ints]:
    """For each case, or each session, the places of its records among the marks."""
    order, starts = groups(owners)
    if not len(starts):
        return {}
    return dict(zip(owners[order[starts]].tolist(), np.split(order, starts[1:]), strict=True))


_NONE = np.zeros(0, dtype=np.int64)


def _check_files(groups: Sequence[CaseGroup]) -> None:
    """Two names with one file would show each other's numbers."""
    seen: dict[str, str] = {}
    for group in groups:
        other = seen.setdefault(file_id(group.key), group.key)
        if other != group.key:
            raise HistoryError(
                f"the names {other!r} and {group.key!r} have one hash: rename one of them with 'paceline history alias'"
            )
