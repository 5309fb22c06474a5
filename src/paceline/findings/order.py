"""The one order in which the points of a series are judged, and which of them are; all readers of series ask here.

The order is that of commits where they are known, else that of time. A repository that is at hand says where revisions
lie; the history keeps that for readers who have none. Only the first-parent line of the default branch is judged: what
was measured on another branch says nothing about it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paceline.finding import Place
from paceline.findings.commits import Repository
from paceline.history import Store
from paceline.history.places import (
    CommitPlace,
    read_branches,
    read_places,
    read_revisions,
    read_state,
    write_places,
    write_state,
)
from paceline.history.series import Column, Point, Series
from paceline.metrics import is_steady

_REVISION, _STATUS, _DISTURBED = (
    Point._fields[2:].index(name) for name in ("revision", "status", "disturbed")
)
_MEASURED = frozenset({"passed", "requirement_failed"})
_USUAL_NAMES = frozenset({"main", "master", "trunk"})
_GENERATION = "order"
_APART = 1 << 32
"""More commits than any repository has: those of different ones lie so far apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The places of the revisions that are known, and the revisions of other branches than the default one."""

    places: Mapping[str, int] = field(default_factory=dict)
    aside: frozenset[str] = frozenset()
    generation: int = 0
    """Changes when revisions that were searched before come in another order."""
    revisions: int = 0
    unknown: int = 0

    def points(self, series: Series | Column) -> list[Point]:
        """The points that are judged, in the order in which they are.

        Left out are those that were not measured, those of disturbed runs where a disturbance tells, and those of
        other branches.
        """
        points = series.points() if isinstance(series, Column) else list(series.points)
        chosen = self.chosen([point[2:] for point in points], is_steady(series.metric, series.unit or None))
        return points if chosen is None else [points[i] for i in chosen]

    def arrange(self, points: Sequence[Point]) -> list[Point]:
        """All of these points, in that order."""
        found = [self.places.get(point.revision) for point in points] if self.places else [None] * len(points)
        return [points[i] for i in by_commits(found)]

    def chosen(self, fields: Sequence[tuple[str, ...]], steady: bool) -> list[int] | None:
        """The same for points that are given in time, as the places of those chosen; None for all as they are."""
        aside = self.aside
        chosen = [
            i
            for i, one in enumerate(fields)
            if one[_STATUS] in _MEASURED and (steady or not one[_DISTURBED]) and one[_REVISION] not in aside
        ]
        if self.places:
            found = [self.places.get(fields[i][_REVISION]) for i in chosen]
            chosen = [chosen[i] for i in by_commits(found)]
        return None if chosen == list(range(len(fields))) else chosen

    def ranks(self, store: Store) -> dict[str, int]:
        """The place of each session among all of them, by its id; none if no commit is known."""
        sessions = store.sessions()[::-1]
        order = by_commits([self.places.get(one.revision) for one in sessions]) if self.places else []
        return {sessions[i].id: rank for rank, i in enumerate(order)}


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
        kept, generation = read_places(store.database), int(read_state(store.database).get(_GENERATION, 0))
    revisions = sorted({*measured, *(base for _, _, base, _ in branches if base)})
    told = repository.order(revisions) if repository else {}
    found = {one: told.get(one) or kept.get(one) or CommitPlace() for one in revisions}
    changed = {revision: one for revision, one in found.items() if kept.get(revision) != one}
    if changed and _is_other(kept, found):
        generation += 1
    if changed and (repository or searches) and not store.database.read_only:
        with store.database.writing():
            write_places(store.database, changed)
            write_state(store.database, {_GENERATION: generation})
    places = _joined(found, branches)
    return Order(
        places=places,
        aside=_aside(measured, found, branches),
        generation=generation,
        revisions=len(measured),
        unknown=sum(1 for revision in measured if revision not in places),
    )


def _is_other(kept: Mapping[str, CommitPlace], found: Mapping[str, CommitPlace]) -> bool:
    """Whether revisions that were there before lie in another order now, or on another branch."""
    both = [revision for revision in kept if revision in found]
    if any(
        (kept[one].repository, kept[one].is_main) != (found[one].repository, found[one].is_main)
        for one in both
    ):
        return True
    before, now = (
        sorted(both, key=lambda one: (places[one].repository, places[one].place, one))
        for places in (kept, found)
    )
    return before != now


def _joined(
    found: Mapping[str, CommitPlace], branches: Iterable[tuple[str, str, str, str]]
) -> dict[str, int]:
    """One number for each revision that has a place; repositories follow each other as their first sessions do."""
    began: dict[str, str] = {}
    for revision, _, _, started in branches:
        name = found[revision].repository
        began[name] = min(began.get(name, started), started)
    numbers = {
        name: number for number, name in enumerate(sorted(began, key=lambda name: (began[name], name)))
    }
    return {
        revision: numbers.get(one.repository, len(numbers)) * _APART + one.place
        for revision, one in found.items()
        if one.repository
    }


def _aside(
    measured: Iterable[str],
    found: Mapping[str, CommitPlace],
    branches: Iterable[tuple[str, str, str, str]],
) -> frozenset[str]:
    """The revisions of other branches; none if nothing was measured on the default one, which then is not meant."""
    elsewhere = {revision for revision, *told in branches if not _says_main(revision, *told)}
    on_main = {revision for revision, *told in branches if _says_main(revision, *told)}
    others = {
        one
        for one in measured
        if (not found[one].is_main if found[one].repository else one in elsewhere - on_main)
    }
    return frozenset(others) if len(others) < len(set(measured)) else frozenset()


def _says_main(revision: str, branch: str, merge_base: str, _: str) -> bool:
    """Whether a session was one of the default branch, as far as it knew."""
    return branch in _USUAL_NAMES or merge_base in ("", revision)


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
