"""The one order in which the points of a series are judged, and which of them are; all readers of series ask here.

The order is that of commits where they are known, else that of time. A repository that is at hand says where revisions
lie; the history keeps that for readers who have none. Revisions that no repository knows lie where the time of their
commit puts them, which sessions and other tools' files tell. Only the first-parent line of the default branch is
judged: what was measured on another branch says nothing about it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, TypeVar

from paceline.finding import Place
from paceline.findings.commits import Repository
from paceline.history import Store
from paceline.history.findings import read_culprits
from paceline.history.places import (
    CommitPlace,
    Measured,
    Tag,
    drop_state,
    read_branches,
    read_places,
    read_revisions,
    read_state,
    write_places,
    write_state,
)
from paceline.history.series import Point, Points, Records, Series
from paceline.metrics import is_steady
from paceline.record.repository import default_branch

_MEASURED = frozenset({"passed", "requirement_failed"})
_USUAL_NAMES = frozenset({"main", "master", "trunk"})
_GENERATION = "order"
_BRANCH = "default branch "
"""Before the name of the default branch that somebody declared: readers without their configuration go by it."""

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The places of the revisions that are known, and the revisions of other branches than the default one."""

    places: Mapping[str, int] = field(default_factory=dict)
    aside: frozenset[str] = frozenset()
    commit_times: Mapping[str, str] = field(default_factory=dict)
    """When revisions were committed, where that is known."""
    tags: Mapping[str, tuple[Tag, ...]] = field(default_factory=dict)
    """The tags of revisions, each at the first measured revision that has it."""
    generation: int = 0
    """Changes when revisions that were searched before come in another order."""
    revisions: int = 0
    unknown: int = 0

    def points(self, series: Series) -> Points:
        """The points that are judged, in the order in which they are.

        Left out are those that were not measured, those of disturbed runs where a disturbance tells, and those of
        other branches.
        """
        return Points(series, self.chosen(series.records, is_steady(series.metric, series.unit)))

    def sort(
        self,
        items: Iterable[_Item],
        *,
        revision: Callable[[_Item], str] = attrgetter("revision"),
        time: Callable[[_Item], Any] = attrgetter("time"),
    ) -> list[_Item]:
        """All of these points, records, sessions or whatever has a revision and a time, in that order."""
        in_time = sorted(items, key=time)
        if not self.places:
            return in_time
        return [in_time[i] for i in by_commits([self.places.get(revision(one)) for one in in_time])]

    def chosen(self, records: Records, steady: bool) -> list[int] | None:
        """The same as the places of the points chosen; None for all as they are."""
        chosen = list(range(len(records)))
        if not _MEASURED.issuperset(records.statuses):
            chosen = [i for i in chosen if records.statuses[i] in _MEASURED]
        if not steady and any(records.disturbed):
            chosen = [i for i in chosen if not records.disturbed[i]]
        if self.places or self.aside:
            revisions = records.revisions()
            chosen = [i for i in chosen if revisions[i] not in self.aside]
            chosen = [chosen[i] for i in by_commits([self.places.get(revisions[i]) for i in chosen])]
        return None if chosen == list(range(len(records))) else chosen

    def last(self, records: Records, chosen: Sequence[int] | None) -> str | None:
        """The revision of the last of the points chosen; empty if no place of one is known, None if that of some is."""
        revisions = records.revisions() if self.places else ()
        told = (
            [revisions[i] for i in (range(len(records)) if chosen is None else chosen)] if revisions else []
        )
        known = sum(one in self.places for one in told)
        return told[-1] if known and known == len(told) else None if known else ""

    def ranks(self, store: Store) -> dict[str, int]:
        """The place of each session among all of them, by its id; none if no commit is known."""
        if not self.places:
            return {}
        sessions = self.sort(store.sessions()[::-1], time=attrgetter("started_at"))
        return {session.id: rank for rank, session in enumerate(sessions)}


def by_commits(places: Sequence[int | None]) -> list[int]:
    """The order of points that are given in time by their places; those without one stay between their neighbours."""
    in_time = [i for i, place in enumerate(places) if place is not None]
    if len(in_time) == len(places):
        return sorted(in_time, key=places.__getitem__)  # type: ignore[arg-type]
    if not in_time:
        return list(range(len(places)))
    rank = {i: rank for rank, i in enumerate(sorted(in_time, key=places.__getitem__))}  # type: ignore[arg-type]
    keys, passed = [], 0
    for i, place in enumerate(places):
        if place is not None:
            keys.append(2 * rank[i] + 1)
            passed += 1
            continue
        before = rank[in_time[passed - 1]] if passed else rank[in_time[0]] - 1
        # Measured from the newest commit to the oldest: between the same two, the other way round.
        backwards = 0 < passed < len(in_time) and rank[in_time[passed]] == before - 1
        keys.append(2 * before + (0 if backwards else 2))
    return sorted(range(len(places)), key=keys.__getitem__)


def position_of(points: Sequence[Point], place: Place) -> int | None:
    """Which of the points was measured there; None if it is not among them."""
    return next((i for i, one in enumerate(points) if one.session_id == place.session_id), None)


def read_order(store: Store, repository: Repository | None = None, *, searches: bool = False) -> Order:
    """The order of a history; what the repository knows of it is kept there.

    A search keeps which revisions nobody knows too: once they are known, their series are searched again.
    """
    with store.database.reading():
        measured = read_revisions(store.database)
        branches = read_branches(store.database)
        kept, state = read_places(store.database), read_state(store.database)
        culprits = {str(one.get("revision") or "") for one in read_culprits(store.database).values()}
    generation = int(state.get(_GENERATION, 0))
    repository = _declared(store, repository, state)
    bases = {one.merge_base for one in branches}
    revisions = sorted({*measured, *bases, *culprits} - {""})
    told = repository.order(revisions) if repository else {}
    committed: dict[str, str] = {}
    for one in branches:
        committed[one.revision] = max(one.commit_time, committed.get(one.revision, ""))
    found = {one: told.get(one) or kept.get(one) or CommitPlace() for one in revisions}
    found = {
        one: place if place.commit_time else replace(place, commit_time=committed.get(one, ""))
        for one, place in found.items()
    }
    times = _order_times(found)
    found = {revision: replace(one, order_time=times.get(revision, "")) for revision, one in found.items()}
    changed = {revision: one for revision, one in found.items() if kept.get(revision) != one}
    if changed and _is_other(kept, found):
        generation += 1
    if changed and (repository or searches) and not store.database.read_only:
        with store.database.writing():
            write_places(store.database, changed)
            write_state(store.database, {_GENERATION: generation})
    places = _ranked(found)
    return Order(
        places=places,
        aside=_aside(measured, found, branches),
        commit_times={revision: one.commit_time for revision, one in found.items() if one.commit_time},
        tags={revision: one.tags for revision, one in found.items() if one.tags},
        generation=generation,
        revisions=len(measured),
        unknown=sum(1 for revision in measured if revision not in places),
    )


def _declared(store: Store, repository: Repository | None, state: Mapping[str, float]) -> Repository | None:
    """The repository with the default branch that a suite declares, or declared when it was last run."""
    known = next((name for name in state if name.startswith(_BRANCH)), "")
    if repository is None or not (repository.branch or known):
        return repository
    if not repository.branch:
        return Repository(repository.root, known.removeprefix(_BRANCH))
    is_usual = default_branch(repository.root, {})[0] == repository.branch
    told = "" if is_usual else f"{_BRANCH}{repository.branch}"
    if told != known and not store.database.read_only:
        with store.database.writing():
            drop_state(store.database, known)
            write_state(store.database, {told: 1.0} if told else {})
    return repository


def _is_other(kept: Mapping[str, CommitPlace], found: Mapping[str, CommitPlace]) -> bool:
    """Whether revisions that were there before lie in another order now, or on another branch."""
    both = [revision for revision in kept if revision in found]
    if any(
        (kept[one].repository, kept[one].is_main) != (found[one].repository, found[one].is_main)
        for one in both
    ):
        return True
    before, now = (_ranked({one: places[one] for one in both}) for places in (kept, found))
    return before != now


def _ranked(found: Mapping[str, CommitPlace]) -> dict[str, int]:
    """One number for each revision whose commit is known: by time, and within a repository as its commits follow."""
    keys = {
        revision: (time, found[revision].repository, found[revision].place)
        for revision, time in _order_times(found).items()
    }
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys.values())))}
    return {revision: ranks[key] for revision, key in keys.items()}


def _order_times(found: Mapping[str, CommitPlace]) -> dict[str, str]:
    """When each revision was committed that has a place, as far as the times of its repository ascend."""
    told = {revision: one.commit_time for revision, one in found.items() if one.commit_time}
    repositories: dict[str, list[str]] = {}
    for revision, one in found.items():
        if one.repository:
            repositories.setdefault(one.repository, []).append(revision)
    for revisions in repositories.values():
        revisions.sort(key=lambda revision: found[revision].place)
        times = _ascending([found[revision].commit_time for revision in revisions])
        told.update(zip(revisions, times, strict=True))
    return told


def _ascending(times: Sequence[str]) -> list[str]:
    """The times of commits that follow each other; where a clock was wrong, that of the commit before it instead.

    As few as can be are called wrong: the others are the longest part of them that ascends.
    """
    last: list[str] = []  # for each length the smallest time that ends an ascending part so long
    lengths = []
    for time in times:
        length = bisect_right(last, time) if time else 0
        lengths.append(length)
        if time:
            last[length : length + 1] = [time]
    right, wanted = set(), len(last) - 1
    for i in range(len(times) - 1, -1, -1):
        if times[i] and lengths[i] == wanted and wanted >= 0:
            right.add(i)
            wanted -= 1
    known = min(right, default=None)
    told = "" if known is None else times[known]
    ascending = []
    for i, time in enumerate(times):
        told = time if i in right else told
        ascending.append(told)
    return ascending


def _aside(
    measured: Iterable[str],
    found: Mapping[str, CommitPlace],
    branches: Iterable[Measured],
) -> frozenset[str]:
    """The revisions of other branches; none if nothing was measured on the default one, which then is not meant."""
    elsewhere = {one.revision for one in branches if not _says_main(one)}
    on_main = {one.revision for one in branches if _says_main(one)}
    others = {
        one
        for one in measured
        if (not found[one].is_main if found[one].repository else one in elsewhere - on_main)
    }
    return frozenset(others) if len(others) < len(set(measured)) else frozenset()


def _says_main(one: Measured) -> bool:
    """Whether a session was one of the default branch, as far as it knew."""
    return one.branch in _USUAL_NAMES or one.merge_base in ("", one.revision)


def why_in_time(order: Order, repository: Repository | None) -> str:
    """Why points are in the order of time and not of commits, in a line; empty if all commits have their places.

    Without a repository nobody expects another order.
    """
    if repository is None or not order.unknown:
        return ""
    some = f"{order.unknown:,} of {order.revisions:,} revisions are in the order of time"
    if repository.is_shallow:
        return f"{some}: {repository.root} is a shallow clone, which lacks older commits"
    return f"{some}, between those it knows: {repository.root} does not know those commits"
