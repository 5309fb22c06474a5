"""What was found in the series, what people said about it, and whether a case has anything new to look at."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast
from uuid import uuid5

from paceline.errors import HistoryError
from paceline.history.session_info import NAMESPACE
from paceline.history.store import schema
from paceline.history.store.database import Database, Row
from paceline.history.store.entries import clean, json_text
from paceline.history.store.names import CaseNames, read_epochs, read_names
from paceline.model import State, Verdict
from paceline.record.codec import load
from paceline.record.events import iso_time, utc_now

_SHORTEST_PREFIX = 4

# A digest is a large number, and a sum of them would be too large; a replaced record changes the rest all the same.
_RECORDS = """
SELECT c.id, c.key, count(*), max(r.id), sum(r.digest & 1048575)
FROM "case" c JOIN record r ON r.case_id = c.id WHERE c.kind = 'entry' GROUP BY c.id, c.key ORDER BY c.id"""
_DIRECTIONS = "SELECT case_id, id, direction FROM series WHERE direction <> '' ORDER BY id"


class SeriesKey(NamedTuple):
    """Which series: all that tells it from the others, in words that are the same in every database."""

    case: str
    variant: str
    version: str
    metric: str
    unit: str
    environment_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A point of a series: where its value was measured."""

    revision: str = ""
    session: str = ""
    time: str = ""
    session_id: str = ""
    environment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanVerdict:
    """What somebody said about a finding."""

    state: State
    why: str
    who: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFinding:
    """A lasting change of one series.

    It lies after `last_good` and not after `first_bad`; `at_record` is the most likely first record of the new level.
    `stands` says whether the detector still sees it, `own_state` what it says by itself, `state` what counts.
    """

    id: str
    incident: str = ""
    series: SeriesKey
    epoch: int = 0
    verdict: Verdict
    effect: float
    low: float
    high: float
    p_value: float
    last_good: Place
    first_bad: Place
    at_record: str = ""
    at_time: str = ""
    found_at: str = ""
    found_in: str = ""
    suspects: tuple[Mapping[str, Any], ...] = ()
    own_state: State = "new"
    fixed_at: str = ""
    stands: bool = True
    found_after: int = 0
    """How many results the new level had when the change was found."""
    said: HumanVerdict | None = None

    @property
    def state(self) -> State:
        """A human's word counts; that a later change undid it is better news than that somebody knows of it."""
        if self.said is None or (self.said.state == "acknowledged" and self.own_state == "fixed"):
            return self.own_state
        return self.said.state


def finding_id(series: SeriesKey, verdict: str, at_record: str) -> str:
    """The id of a change that is found for the first time; it keeps it when it is later placed a little differently."""
    return hashlib.sha256("\0".join((*series, verdict, at_record)).encode()).hexdigest()[:10]


def read_findings(
    database: Database, *, cases: Sequence[str] | None = None, withdrawn: bool = False
) -> list[StoredFinding]:
    """Findings by the time of their change; of these cases only, and with those that the detector took back."""
    said, names = _latest_words(database), read_names(database)
    rows = database.rows(f"SELECT {_COLUMNS} FROM finding ORDER BY at_time, ident")
    found = (_from_row(row, names, said.get(row[0])) for row in rows)
    wanted = None if cases is None else frozenset(cases)
    return [
        one
        for one in found
        if (wanted is None or one.series.case in wanted) and (one.stands or withdrawn or one.said)
    ]


def find_finding(database: Database, wanted: str) -> StoredFinding:
    """The finding of that id, or of the only id that begins so."""
    known = read_findings(database, withdrawn=True)
    found = [one for one in known if one.id == wanted]
    if not found and len(wanted) >= _SHORTEST_PREFIX:
        found = [one for one in known if one.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    several = ", ".join(one.id for one in found)
    problem = (
        f"{wanted!r} may be any of {several}" if found else f"no finding {wanted!r} in {database.target}"
    )
    raise HistoryError(f"{problem}: 'paceline regressions' shows their ids")


def write_findings(database: Database, findings: Iterable[StoredFinding]) -> None:
    """Insert or replace findings, within a transaction that is open."""
    rows = [_to_row(one) for one in findings]
    database.many("DELETE FROM finding WHERE ident = ?", [(row[0],) for row in rows])
    database.insert(schema.finding, rows)


def add_verdict(database: Database, wanted: str, state: State, why: str, who: str) -> StoredFinding:
    """Store a human's word about a finding; the last one counts, all are kept."""
    with database.writing():
        found = find_finding(database, wanted)
        said = HumanVerdict(state=state, why=clean(why), who=clean(who), at=_time_after(found.said))
        write_verdicts(database, [(found.id, said)])
    return replace(found, said=said)


def _time_after(said: HumanVerdict | None) -> str:
    """Now; a millisecond after the last word if that is not over yet (or was said by a clock that goes ahead)."""
    now = utc_now()
    if said is None or said.at < now:
        return now
    return iso_time(datetime.fromisoformat(said.at) + timedelta(milliseconds=1))


def read_verdicts(database: Database) -> list[tuple[str, HumanVerdict]]:
    """All that was ever said: the finding's id with each word, oldest first."""
    rows = database.rows("SELECT finding_ident, state, why, who, at FROM human_verdict ORDER BY at, ident")
    return [(row[0], HumanVerdict(state=row[1], why=row[2], who=row[3], at=row[4])) for row in rows]


def write_verdicts(database: Database, verdicts: Iterable[tuple[str, HumanVerdict]]) -> None:
    """Add what is not there yet, within a transaction that is open."""
    known = {memoryview(row[0]).tobytes() for row in database.rows("SELECT ident FROM human_verdict")}
    given = {_verdict_id(finding, one): (finding, one) for finding, one in verdicts}
    rows = [
        (ident, finding, one.state, one.why, one.who, one.at)
        for ident, (finding, one) in given.items()
        if ident not in known
    ]
    database.insert(schema.human_verdict, rows)


def _verdict_id(finding: str, said: HumanVerdict) -> bytes:
    return uuid5(NAMESPACE, "\0".join(("verdict", finding, said.state, said.who, said.at, said.why))).bytes


def merge_findings(
    database: Database, findings: Iterable[StoredFinding], verdicts: Iterable[tuple[str, HumanVerdict]]
) -> None:
    """Add another database's findings and words; the next detection says which of them still stand."""
    known = {row[0] for row in database.rows("SELECT ident FROM finding")}
    write_findings(database, [one for one in findings if one.id not in known])
    write_verdicts(database, verdicts)


def read_marks(database: Database) -> dict[str, str]:
    """How each case looked when it was last searched for changes."""
    return dict(database.rows("SELECT case_key, mark FROM detection"))


def write_marks(database: Database, marks: Mapping[str, str]) -> None:
    database.many("DELETE FROM detection WHERE case_key = ?", [(key,) for key in marks])
    database.insert(schema.detection, list(marks.items()))


def _latest_words(database: Database) -> dict[str, HumanVerdict]:
    return dict(read_verdicts(database))


_COLUMNS = ", ".join(column.name for column in schema.finding.columns)


def _to_row(one: StoredFinding) -> Row:
    numbers = (one.effect, one.low, one.high, one.p_value)
    places = (json_text(_place_json(one.last_good)), json_text(_place_json(one.first_bad)))
    suspects = json_text([dict(suspect) for suspect in one.suspects]) if one.suspects else None
    return (
        *(one.id, one.incident, *one.series, one.epoch, one.verdict, *numbers, *places),
        *(one.at_record, one.at_time, one.found_at, one.found_in, suspects),
        *(one.own_state, one.fixed_at, int(one.stands), one.found_after),
    )


def _from_row(row: Row, names: CaseNames, said: HumanVerdict | None) -> StoredFinding:
    ident, incident, case, *rest = row
    series, (epoch, verdict, effect, low, high, p_value, last_good, first_bad, *told) = rest[:5], rest[5:]
    at_record, at_time, found_at, found_in, suspects, state, fixed_at, stands, found_after = told
    return StoredFinding(
        id=ident,
        incident=incident,
        series=SeriesKey(names.current(case), *series),
        epoch=epoch,
        verdict=cast(Verdict, verdict),
        effect=effect,
        low=low,
        high=high,
        p_value=p_value,
        last_good=_place(last_good),
        first_bad=_place(first_bad),
        at_record=at_record,
        at_time=at_time,
        found_at=found_at,
        found_in=found_in,
        suspects=tuple(load(suspects.encode())) if suspects else (),
        own_state=cast(State, state),
        fixed_at=fixed_at,
        stands=bool(stands),
        found_after=found_after,
        said=said,
    )


_PLACE_FIELDS = tuple(field.name for field in fields(Place))


def _place_json(place: Place) -> dict[str, str]:
    return {name: getattr(place, name) for name in _PLACE_FIELDS}


def _place(text: str) -> Place:
    return Place(**{name: str(value) for name, value in load(text.encode()).items() if name in _PLACE_FIELDS})


def case_marks(database: Database, sums: Iterable[Sequence[Any]] | None = None) -> dict[str, str]:
    """For each case that has records and something to judge: a text that changes when its series do.

    `sums` are the rows of the statement above, from somebody who has seen all records already.
    """
    names = read_names(database)
    epochs = read_epochs(database, names)
    judged: defaultdict[int, list[str]] = defaultdict(list)
    for case_id, series_id, direction in database.rows(_DIRECTIONS):
        judged[case_id].append(f"{series_id}{direction}")
    told: defaultdict[str, list[str]] = defaultdict(list)
    for case_id, key, *numbers in database.rows(_RECORDS) if sums is None else sums:
        if case_id in judged:
            told[names.current(key)].append(
                repr((case_id, [int(number) for number in numbers], judged[case_id]))
            )
    return {key: _digest([*parts, *epochs.of(key)]) for key, parts in told.items()}


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
