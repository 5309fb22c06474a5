"""Cases that report no more while others of their suite go on: each is a finding of its own, which fails nothing."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from paceline.finding import Finding, Place, SeriesKey
from paceline.findings.order import Order
from paceline.history import SessionInfo, Store
from paceline.history.findings import finding_id
from paceline.history.store.names import read_names

_SESSIONS = 30
"""The newest sessions, among which a case must have been to be missed."""
_FEWEST = 3
"""Results that tell how often a case runs; and so many of its turns it must have missed."""
_COMPANY = 2
"""Others that it takes to speak of a suite: of two cases, somebody may run one alone for a week."""
_CASES = """
SELECT DISTINCT c.key, c.variant, c.version FROM record r JOIN session s ON s.id = r.session_id
JOIN "case" c ON c.id = r.case_id WHERE s.ident = ? AND c.kind = 'entry'"""

_Case = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """A session, and the cases that reported in it."""

    session: SessionInfo
    cases: frozenset[_Case]

    def place(self) -> Place:
        told = self.session
        return Place(revision=told.revision, session=told.name, time=told.started_at, session_id=told.id)


def find_stopped(
    store: Store, order: Order, known: Iterable[Finding], searched: Container[str]
) -> Iterator[Finding]:
    """A finding for each case that has missed several of its turns; those that are known stand until it reports again.

    What the first search finds is of the past, and found in no session; `searched` are the cases that had one.
    """
    ran = _read_ran(store, order)
    last = {case: number for number, one in enumerate(ran) for case in one.cases}
    found = {one.id: one for one in _missing(ran, last)}
    for before in known:
        number = last.get((before.case, before.variant or "", before.version), -1)
        reports = number >= 0 and ran[number].session.started_at > before.last_good.time
        if before.id in found or before.stands:
            yield replace(before, stands=not reports)
        found.pop(before.id, None)
    for one in found.values():
        yield one if one.case in searched else replace(one, found_in="")


def _missing(ran: Sequence[_Ran], last: Mapping[_Case, int]) -> Iterator[Finding]:
    """The sessions of a suite are those that have most of the cases which ran beside one when it last did."""
    ended: defaultdict[int, list[_Case]] = defaultdict(list)
    for case, number in last.items():
        ended[number].append(case)
    for number, cases in ended.items():
        beside = {case for case in ran[number].cases if last[case] > number}
        if len(beside) < max(_COMPANY, len(cases) / 2):
            continue
        suite = [i for i, one in enumerate(ran) if 3 * len(one.cases & beside) >= 2 * len(beside)]
        missed = [i for i in suite if i > number]
        for case in sorted(cases):
            turns = [place for place, i in enumerate(suite) if case in ran[i].cases]
            usual = max((b - a for a, b in pairwise(turns[-_FEWEST:])), default=0)
            if len(turns) >= _FEWEST and len(missed) >= _FEWEST * usual:
                yield _finding(case, ran[number], ran[missed[0]], ran[-1], len(missed))


def _read_ran(store: Store, order: Order) -> list[_Ran]:
    """The newest sessions of the default branch, the oldest first."""
    sessions = [one for one in store.sessions() if one.kind == "session" and one.revision not in order.aside]
    with store.database.reading():
        names = read_names(store.database)
        rows = [
            (one, store.database.rows(_CASES, (bytes.fromhex(one.id),))) for one in sessions[:_SESSIONS][::-1]
        ]
    return [
        _Ran(session=one, cases=frozenset((names.current(key), *told) for key, *told in found))
        for one, found in rows
        if found
    ]


def _finding(case: _Case, last: _Ran, missed: _Ran, newest: _Ran, count: int) -> Finding:
    key = SeriesKey(*case, "", "", "")
    return Finding(
        id=finding_id(key, "stopped", last.session.id),
        **key.parts,
        kind="stopped",
        verdict="inconclusive",
        last_good=last.place(),
        first_bad=missed.place(),
        at_time=missed.session.started_at,
        found_at=newest.session.started_at,
        found_in=newest.session.id,
        found_after=count,
    )
