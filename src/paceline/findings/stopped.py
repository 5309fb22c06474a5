"""What reports no more while others go on: cases, cases on a class of machines, metrics of cases.

Each is a finding of its own, which fails nothing. Whether a night is overdue, only the clock tells.
"""

import statistics
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from paceline.finding import Finding, Place, SeriesKey
from paceline.findings.order import Order
from paceline.history import SessionInfo, Store
from paceline.history.findings import finding_id
from paceline.history.store.names import read_names
from paceline.metrics import AUTOMATIC
from paceline.numbers import count, duration

_SESSIONS = 30
"""The newest sessions, among which a case must have been to be missed."""
_FEWEST = 3
"""Results that tell how often a case runs; and so many of its turns it must have missed."""
_COMPANY = 2
"""Others that it takes to speak of a suite: of two cases, somebody may run one alone for a week."""
_DAY_S = 24 * 3600
_OVERDUE = 3
"""So many times as long as sessions usually take to come one is overdue."""
_CASES = """
SELECT DISTINCT c.key, c.variant, c.version, e.class_id FROM record r JOIN session s ON s.id = r.session_id
JOIN "case" c ON c.id = r.case_id JOIN environment e ON e.id = r.environment_id
WHERE s.ident = ? AND c.kind = 'entry'"""
_LAST_VALUES = """
SELECT d.id, d.case_id, d.name, d.unit, c.key, c.variant, c.version,
  (SELECT max(m.record_id) FROM metric m WHERE m.series_id = d.id)
FROM series d JOIN "case" c ON c.id = d.case_id WHERE d.direction <> '' AND c.kind = 'entry'"""
_LAST_RECORDS = """
SELECT case_id, max(id) FROM record WHERE status IN ('passed', 'requirement_failed') GROUP BY case_id"""
_RECORDS = """
SELECT r.id, e.class_id, s.ident FROM record r JOIN session s ON s.id = r.session_id
JOIN environment e ON e.id = r.environment_id
WHERE r.case_id = ? AND r.status IN ('passed', 'requirement_failed') ORDER BY r.id DESC LIMIT ?"""
_VALUES = "SELECT record_id FROM metric WHERE series_id = ? AND record_id >= ?"

_Case = tuple[str, str, str]
_Unit = tuple[str, str, str, str]
"""A case on a class of machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """A session, and the cases that reported in it, and on which machines."""

    session: SessionInfo
    cases: frozenset[_Case]
    units: frozenset[_Unit] = frozenset()


def _place(told: SessionInfo) -> Place:
    return Place(revision=told.revision, session=told.name, time=told.started_at, session_id=told.id)


def find_stopped(
    store: Store, order: Order, known: Iterable[Finding], searched: Container[str]
) -> Iterator[Finding]:
    """A finding for each case that has missed several of its turns; those that are known stand until it reports again.

    What the first search finds is of the past, and found in no session; `searched` are the cases that had one.
    """
    sessions = [one for one in store.sessions() if one.kind == "session" and one.revision not in order.aside]
    ran = _read_ran(store, sessions)
    found = {one.id: one for one in (*_missing(ran), *_silent_metrics(store, sessions))}
    for before in known:
        if before.id in found or before.stands:
            yield replace(before, stands=before.id in found or not _reports(store, ran, before))
        found.pop(before.id, None)
    for one in found.values():
        yield one if one.case in searched else replace(one, found_in="")


def _reports(store: Store, ran: Sequence[_Ran], before: Finding) -> bool:
    """Whether what had stopped goes on."""
    case, class_id = (before.case, before.variant or "", before.version), before.environment_class
    since = before.last_good.time
    if before.metric:
        several = store.iter_columns(cases=[before.case], metrics=[before.metric], since=since)
        return any(one.key == before.series and one.records.times[-1] > since for one in several)
    return any(
        one.session.started_at > since and ((*case, class_id) in one.units if class_id else case in one.cases)
        for one in ran
    )


def _missing(ran: Sequence[_Ran]) -> Iterator[Finding]:
    """Cases that stopped everywhere, and cases that stopped on a class of machines and go on elsewhere.

    The sessions of a suite are those that have most of the cases which ran beside one when it last did.
    """
    last = {case: number for number, one in enumerate(ran) for case in one.cases}
    last_on = {unit: number for number, one in enumerate(ran) for unit in one.units}
    ended: defaultdict[int, set[_Case | _Unit]] = defaultdict(set)
    for case, number in last.items():
        ended[number].add(case)
    for unit, number in last_on.items():
        if number < last[unit[:3]]:
            ended[number].add(unit)
    for number, cases in ended.items():
        beside = {case for case in ran[number].cases if last[case] > number}
        if len(beside) < max(_COMPANY, len(cases) / 2):
            continue
        suite = [i for i, one in enumerate(ran) if 3 * len(one.cases & beside) >= 2 * len(beside)]
        missed = [i for i in suite if i > number]
        for one in sorted(cases):
            turns = [place for place, i in enumerate(suite) if one in ran[i].cases | ran[i].units]
            if _is_missed(turns, len(missed)):
                key = SeriesKey(*one[:3], "", "", *one[3:] or ("",))
                of = (ran[number].session, ran[missed[0]].session, ran[-1].session)
                yield _finding(key, *of, len(missed))


def _is_missed(turns: Sequence[int], missed: int) -> bool:
    """Whether what had these turns of a row, and none of so many after them, has stopped."""
    usual = max((b - a for a, b in pairwise(turns)), default=0)
    return len(turns) >= _FEWEST and missed >= _FEWEST * usual


def _silent_metrics(store: Store, sessions: Iterable[SessionInfo]) -> Iterator[Finding]:
    """Metrics that a case no longer has, while it passes. Those that are taken of every run come and go."""
    database, known = store.database, {one.id: one for one in sessions}
    with database.reading():
        names = read_names(database)
        newest: dict[int, int] = dict(database.rows(_LAST_RECORDS))
        for series, case_id, metric, unit, key, variant, version, last in database.rows(_LAST_VALUES):
            if metric in AUTOMATIC or last is None or last >= newest.get(case_id, 0):
                continue
            rows = [
                (record, class_id, known[session])
                for record, class_id, ident in reversed(database.rows(_RECORDS, (case_id, _SESSIONS)))
                if (session := memoryview(ident).hex()) in known
            ]
            if not rows or rows[0][0] > last:
                continue
            there = {record for (record,) in database.rows(_VALUES, (series, rows[0][0]))}
            for class_id in sorted({row[1] for row in rows}):
                told = [(record in there, session) for record, of, session in rows if of == class_id]
                turns = [place for place, (has, _) in enumerate(told) if has]
                missed = told[turns[-1] + 1 :] if turns else []
                if missed and _is_missed(turns, len(missed)):
                    of_series = SeriesKey(names.current(key), variant, version, metric, unit, class_id)
                    yield _finding(of_series, told[turns[-1]][1], missed[0][1], missed[-1][1], len(missed))


def overdue(store: Store, now: datetime) -> str:
    """Since when no session came, in a line, if that is much longer than it usually takes; else empty."""
    told = [one.started_at for one in store.sessions()[:_SESSIONS] if one.kind == "session"]
    try:
        times = [datetime.fromisoformat(one) for one in told]
        gaps = [(later - earlier).total_seconds() for later, earlier in pairwise(times)]
        waited_s = (now - times[0]).total_seconds() if times else 0.0
    except (ValueError, TypeError):  # Times of other tools may say anything, and no zone.
        return ""
    # One that is run now and then, on no days in particular, is never overdue.
    if len(gaps) < 2 * _FEWEST or waited_s <= _OVERDUE * max(sorted(gaps)[: 1 + len(gaps) * 9 // 10]):
        return ""
    waited, usual = (
        count(round(seconds / _DAY_S), "day") if seconds > 1.5 * _DAY_S else duration(seconds)
        for seconds in (waited_s, statistics.median(gaps))
    )
    return f"no session since {told[0][:10]}, {waited} ago; before, one came about every {usual}"


def _read_ran(store: Store, sessions: Sequence[SessionInfo]) -> list[_Ran]:
    """The newest sessions of the default branch, the oldest first."""
    with store.database.reading():
        names = read_names(store.database)
        rows = [
            (one, store.database.rows(_CASES, (bytes.fromhex(one.id),))) for one in sessions[:_SESSIONS][::-1]
        ]
    return [
        _Ran(
            session=one,
            cases=frozenset((names.current(key), variant, version) for key, variant, version, _ in found),
            units=frozenset((names.current(key), *told) for key, *told in found),
        )
        for one, found in rows
        if found
    ]


def _finding(
    key: SeriesKey, last: SessionInfo, missed: SessionInfo, newest: SessionInfo, sessions: int
) -> Finding:
    return Finding(
        id=finding_id(key, "stopped", last.id),
        **key.parts,
        kind="stopped",
        verdict="inconclusive",
        last_good=_place(last),
        first_bad=_place(missed),
        at_time=missed.started_at,
        found_at=newest.started_at,
        found_in=newest.id,
        found_after=sessions,
    )
