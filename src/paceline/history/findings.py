"""What was found in the series, what people said about it, and whether a case has anything new to look at."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import uuid5

from paceline.errors import HistoryError
from paceline.finding import Finding, HumanVerdict, Place, SeriesKey, Stage, State
from paceline.history.session_info import NAMESPACE
from paceline.history.store import schema
from paceline.history.store.database import Database, Row
from paceline.history.store.entries import clean, json_text
from paceline.history.store.names import CaseNames, read_epochs, read_names
from paceline.record.codec import load
from paceline.record.events import iso_time, utc_now

_SHORTEST_PREFIX = 4
_LEFT = "\x1f"
"""Before the name of a case: its row has what a search left of it, not its mark."""

# A digest is a large number, and a sum of them would be too large; a replaced record changes the rest all the same.
_RECORDS = """
SELECT c.id, c.current_key, count(*), max(r.id), sum(r.digest & 1048575)
FROM "case" c JOIN record r ON r.case_id = c.id WHERE c.kind = 'entry' GROUP BY c.id, c.current_key ORDER BY c.id"""
_ADDED = """
SELECT count(*), sum(digest & 1048575), min(started_at), max(started_at), max(attempt) FROM record
WHERE case_id = ? AND id > ?"""
_CASES = "SELECT id, current_key, variant, version FROM \"case\" WHERE kind = 'entry' ORDER BY id"
_DIRECTIONS = "SELECT case_id, id, direction FROM series WHERE direction <> '' ORDER BY id"


def finding_id(series: SeriesKey, verdict: str, at_record: str) -> str:
    """The id of a change that is found for the first time; it keeps it when it is later placed a little differently."""
    return hashlib.sha256("\0".join((*series, verdict, at_record)).encode()).hexdigest()[:10]


def read_findings(
    database: Database, *, cases: Sequence[str] | None = None, withdrawn: bool = False, ident: str = ""
) -> list[Finding]:
    """Findings by the time of their change; of these cases or of this id only, and with those that the detector took
    back."""
    said, names = _latest_words(database), read_names(database)
    which, given = ("WHERE ident = ?", (ident,)) if ident else ("", ())
    rows = database.rows(f"SELECT {_COLUMNS} FROM finding {which} ORDER BY at_time, ident", given)
    found = (_from_row(row, names, said.get(row[0])) for row in rows)
    wanted = None if cases is None else frozenset(cases)
    return [
        one
        for one in found
        if (wanted is None or one.case in wanted)
        and (one.stands or withdrawn or one.said or one.stage in ("confirmed", "bisected", "undecided"))
    ]


def read_culprits(database: Database) -> dict[str, Mapping[str, Any]]:
    """The culprit of each incident that has one."""
    rows = database.rows("SELECT incident, culprit FROM finding WHERE culprit IS NOT NULL AND incident <> ''")
    return {incident: load(culprit.encode()) for incident, culprit in rows}


def find_finding(database: Database, wanted: str) -> Finding:
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


def write_findings(database: Database, findings: Iterable[Finding]) -> None:
    """Insert or replace findings, within a transaction that is open."""
    rows = [_to_row(one) for one in findings]
    database.many("DELETE FROM finding WHERE ident = ?", [(row[0],) for row in rows])
    database.insert(schema.finding, rows)


def add_verdict(database: Database, wanted: str, state: State, why: str, who: str) -> Finding:
    """Store a human's word about a finding; the last one counts, all are kept."""
    with database.writing():
        found = find_finding(database, wanted)
        said = HumanVerdict(state=state, why=clean(why), who=clean(who), at=_time_after(found.said))
        write_verdicts(database, [(found.id, said)])
    return replace(found, said=said)


def settle(
    database: Database,
    finding: Finding,
    stage: Stage,
    culprit: Mapping[str, Any] | None = None,
    runs: int = 0,
) -> Finding:
    """Keep what runs made for a finding have shown, and how many: the newest outcome replaces the former one.

    That it was confirmed once more does not take back its culprit. One that the history does not have is added, unless
    it did not reproduce.
    """
    with database.writing():
        known = next(iter(read_findings(database, withdrawn=True, ident=finding.id)), None)
        if known is None and stage == "not_reproduced":
            return replace(finding, stage=stage, culprit=None)
        known = known or finding
        if stage == "confirmed" and known.stage in ("bisected", "undecided"):
            stage, culprit = known.stage, known.culprit
        authors = {one.get("revision"): one.get("author") for one in known.suspects}
        if culprit is not None and culprit.get("author") is None:
            culprit = {**culprit, "author": authors.get(culprit.get("revision", ""))}
        settled = replace(known, stage=stage, culprit=culprit, runs=known.runs + runs)
        write_findings(database, [settled])
    return settled


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
    database: Database, findings: Iterable[Finding], verdicts: Iterable[tuple[str, HumanVerdict]]
) -> None:
    """Add another database's findings and words; the next detection says which of them still stand.

    What runs have shown there of a finding that is only suspected here is taken over.
    """
    known = {row[0] for row in database.rows("SELECT ident FROM finding")}
    given = list(findings)
    write_findings(database, [one for one in given if one.id not in known])
    followed = [
        (one.stage, _to_column(one.culprit, "culprit"), one.runs, one.id) for one in given if one.id in known
    ]
    database.many(
        "UPDATE finding SET stage = ?, culprit = ?, runs = ? WHERE ident = ? AND stage = 'suspected'",
        followed,
    )
    write_verdicts(database, verdicts)


def read_marks(database: Database) -> dict[str, str]:
    """How each case looked when it was last searched for changes."""
    rows = database.rows("SELECT case_key, mark FROM detection")
    return {key: mark for key, mark in rows if not key.startswith(_LEFT)}


def read_left(database: Database) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What the last search left of each case for the next one."""
    for key, text in database.rows("SELECT case_key, mark FROM detection"):
        if key.startswith(_LEFT):
            found = load(text.encode())
            yield key.removeprefix(_LEFT), found if isinstance(found, dict) else {}


def write_left(database: Database, left: Mapping[str, Mapping[str, Any]]) -> None:
    """Insert or replace it, within a transaction that is open."""
    write_marks(database, {f"{_LEFT}{key}": json_text(told) for key, told in left.items()})


def write_marks(database: Database, marks: Mapping[str, str]) -> None:
    database.many("DELETE FROM detection WHERE case_key = ?", [(key,) for key in marks])
    database.insert(schema.detection, list(marks.items()))


def series_count(database: Database) -> int:
    """How many series there are that can be judged; machines and variants of a case are not told apart."""
    ((count,),) = database.rows("SELECT count(*) FROM series WHERE direction <> ''")
    return int(count)


def read_watched(database: Database) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """For each case whose newest record names metrics to watch, by key, variant and version: those names."""
    rows = database.rows("SELECT id, data FROM setting WHERE data LIKE ?", ('%"watch":%',))
    asked = {number: tuple(map(str, load(data.encode()).get("watch", ()))) for number, data in rows}
    found: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for case_id, key, variant, version in database.rows(_CASES) if asked else ():
        newest = "SELECT setting_id FROM record WHERE case_id = ? ORDER BY id DESC LIMIT 1"
        for (setting,) in database.rows(newest, (case_id,)):
            found[key, variant, version] = asked.get(setting, ())
    return found


def _latest_words(database: Database) -> dict[str, HumanVerdict]:
    return dict(read_verdicts(database))


_NAMES = tuple(schema.finding.names)
_COLUMNS = ", ".join(_NAMES)


_NUMBERS = frozenset({"effect", "low", "high", "p_value"})
_JSON = frozenset({"suspects", "culprit"})
_FIELDS = {"ident": "id", "case_key": "case", "state": "own_state"}
"""The fields of a finding by the columns that have another name."""


def _to_row(one: Finding) -> Row:
    return tuple(_to_column(getattr(one, _FIELDS.get(name, name)), name) for name in _NAMES)


def _to_column(value: Any, name: str) -> Any:
    if isinstance(value, Place):
        return json_text(asdict(value))
    if name in _JSON:
        return json_text(value) if value else None
    if name in _NUMBERS:
        return value if value is None else float(value)
    return int(value) if isinstance(value, bool) else "" if value is None else value


def _from_row(row: Row, names: CaseNames, said: HumanVerdict | None) -> Finding:
    found = {_FIELDS.get(name, name): value for name, value in zip(_NAMES, row, strict=True)}
    return Finding(
        **{
            **found,
            "case": names.current(found["case"]),
            "last_good": _place(found["last_good"]),
            "first_bad": _place(found["first_bad"]),
            "suspects": _suspects(found["suspects"]) if found["suspects"] else (),
            "culprit": load(found["culprit"].encode()) if found["culprit"] else None,
            "stands": bool(found["stands"]),
            **{name: found[name] or None for name in ("variant", "unit", "fixed_at")},
        },
        said=said,
    )


_PLACE_FIELDS = tuple(field.name for field in fields(Place))


@lru_cache(maxsize=8192)
def _suspects(text: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(load(text.encode()))


@lru_cache(maxsize=8192)
def _place(text: str) -> Place:
    return Place(**{name: str(value) for name, value in load(text.encode()).items() if name in _PLACE_FIELDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHead:
    """What a case's records are, without reading them: by the number of each of its rows how many there are, the
    highest number and the sum of their digests; `rest` stands for its series and its resets."""

    rows: Mapping[int, tuple[int, int, int]]
    rest: str

    @property
    def mark(self) -> str:
        """A text that changes when the case's series do; it ends with the number of records."""
        count = sum(numbers[0] for numbers in self.rows.values())
        return f"{_digest([repr(sorted(self.rows.items())), self.rest])}-{count}"


class Added(NamedTuple):
    """What came to a case: after the record of this number, from one time to another."""

    after: int
    since: str
    until: str


def case_marks(database: Database, sums: Iterable[Sequence[Any]] | None = None) -> dict[str, str]:
    """The mark of each case; see `case_heads`."""
    return {key: head.mark for key, head in case_heads(database, sums).items()}


def case_heads(database: Database, sums: Iterable[Sequence[Any]] | None = None) -> dict[str, CaseHead]:
    """The head of each case that has records and something to judge.

    `sums` are the rows of the statement above, from somebody who has seen all records already.
    """
    epochs = read_epochs(database, read_names(database))
    judged: defaultdict[int, list[str]] = defaultdict(list)
    for case_id, series_id, direction in database.rows(_DIRECTIONS):
        judged[case_id].append(f"{series_id}{direction}")
    rows: defaultdict[str, dict[int, tuple[int, int, int]]] = defaultdict(dict)
    for case_id, key, count, last, total in database.rows(_RECORDS) if sums is None else sums:
        if case_id in judged:
            rows[key][int(case_id)] = int(count), int(last), int(total)
    return {
        key: CaseHead(rows=of_case, rest=_digest([repr([judged[one] for one in of_case]), *epochs.of(key)]))
        for key, of_case in rows.items()
    }


def read_added(database: Database, before: CaseHead, now: CaseHead) -> Added | None:
    """What came to a case since, if nothing else happened: no record is gone, and none is told differently."""
    if before.rest != now.rest or before.rows.keys() != now.rows.keys():
        return None
    times: list[str] = []
    for case, (count, last, total) in now.rows.items():
        old_count, old_last, old_total = before.rows[case]
        ((new, digests, first, end, attempts),) = database.rows(_ADDED, (case, old_last))
        if (count - new, total - int(digests or 0)) != (old_count, old_total) or (new and attempts > 1):
            return None
        times += [first, end] if new else []
        del last
    after = max((numbers[1] for numbers in before.rows.values()), default=0)
    return Added(after, min(times), max(times)) if times else None


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
