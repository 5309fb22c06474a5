"""What was found in the series, what people said about it, and whether a case has anything new to look at."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import datetime, timedelta
from typing import Any
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

# A digest is a large number, and a sum of them would be too large; a replaced record changes the rest all the same.
_RECORDS = """
SELECT c.id, c.key, count(*), max(r.id), sum(r.digest & 1048575)
FROM "case" c JOIN record r ON r.case_id = c.id WHERE c.kind = 'entry' GROUP BY c.id, c.key ORDER BY c.id"""
_CASES = "SELECT id, key, variant, version FROM \"case\" WHERE kind = 'entry' ORDER BY id"
_DIRECTIONS = "SELECT case_id, id, direction FROM series WHERE direction <> '' ORDER BY id"


def finding_id(series: SeriesKey, verdict: str, at_record: str) -> str:
    """The id of a change that is found for the first time; it keeps it when it is later placed a little differently."""
    return hashlib.sha256("\0".join((*series, verdict, at_record)).encode()).hexdigest()[:10]


def read_findings(
    database: Database, *, cases: Sequence[str] | None = None, withdrawn: bool = False
) -> list[Finding]:
    """Findings by the time of their change; of these cases only, and with those that the detector took back."""
    said, names = _latest_words(database), read_names(database)
    rows = database.rows(f"SELECT {_COLUMNS} FROM finding ORDER BY at_time, ident")
    found = (_from_row(row, names, said.get(row[0])) for row in rows)
    wanted = None if cases is None else frozenset(cases)
    return [
        one
        for one in found
        if (wanted is None or one.case in wanted)
        and (one.stands or withdrawn or one.said or one.stage in ("confirmed", "bisected"))
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
    database: Database, finding: Finding, stage: Stage, culprit: Mapping[str, Any] | None = None
) -> Finding:
    """Keep what runs made for a finding have shown: the newest outcome replaces the former one.

    That it was confirmed once more does not take back its culprit. One that the history does not have is added, unless
    it did not reproduce.
    """
    with database.writing():
        known = next((one for one in read_findings(database, withdrawn=True) if one.id == finding.id), None)
        if known is None and stage == "not_reproduced":
            return replace(finding, stage=stage, culprit=None)
        known = known or finding
        if stage == "confirmed" and known.stage == "bisected":
            stage, culprit = "bisected", known.culprit
        authors = {one.get("revision"): one.get("author") for one in known.suspects}
        if culprit is not None and culprit.get("author") is None:
            culprit = {**culprit, "author": authors.get(culprit.get("revision", ""))}
        settled = replace(known, stage=stage, culprit=culprit)
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
    followed = [(one.stage, _to_column(one.culprit, "culprit"), one.id) for one in given if one.id in known]
    database.many(
        "UPDATE finding SET stage = ?, culprit = ? WHERE ident = ? AND stage = 'suspected'", followed
    )
    write_verdicts(database, verdicts)


def read_marks(database: Database) -> dict[str, str]:
    """How each case looked when it was last searched for changes."""
    return dict(database.rows("SELECT case_key, mark FROM detection"))


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
    names = read_names(database)
    found: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for case_id, key, variant, version in database.rows(_CASES) if asked else ():
        newest = "SELECT setting_id FROM record WHERE case_id = ? ORDER BY id DESC LIMIT 1"
        for (setting,) in database.rows(newest, (case_id,)):
            found[names.current(key), variant, version] = asked.get(setting, ())
    return found


def _latest_words(database: Database) -> dict[str, HumanVerdict]:
    return dict(read_verdicts(database))


_NAMES = tuple(column.name for column in schema.finding.columns)
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
            "suspects": tuple(load(found["suspects"].encode())) if found["suspects"] else (),
            "culprit": load(found["culprit"].encode()) if found["culprit"] else None,
            "stands": bool(found["stands"]),
            **{name: found[name] or None for name in ("variant", "unit", "fixed_at")},
        },
        said=said,
    )


_PLACE_FIELDS = tuple(field.name for field in fields(Place))


def _place(text: str) -> Place:
    return Place(**{name: str(value) for name, value in load(text.encode()).items() if name in _PLACE_FIELDS})


def case_marks(database: Database, sums: Iterable[Sequence[Any]] | None = None) -> dict[str, str]:
    """For each case that has records and something to judge: a text that changes when its series do.

    It ends with the number of records.

    `sums` are the rows of the statement above, from somebody who has seen all records already.
    """
    names = read_names(database)
    epochs = read_epochs(database, names)
    judged: defaultdict[int, list[str]] = defaultdict(list)
    for case_id, series_id, direction in database.rows(_DIRECTIONS):
        judged[case_id].append(f"{series_id}{direction}")
    told: defaultdict[str, list[str]] = defaultdict(list)
    records: Counter[str] = Counter()
    for case_id, key, *numbers in database.rows(_RECORDS) if sums is None else sums:
        if case_id in judged:
            name, (count, *others) = names.current(key), map(int, numbers)
            told[name].append(repr((case_id, [count, *others], judged[case_id])))
            records[name] += count
    return {key: f"{_digest([*parts, *epochs.of(key)])}-{records[key]}" for key, parts in told.items()}


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
