"""A stored finding in the words and forms in which others get it, with the values around it for those who draw them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.findings.belief import find_questions
from paceline.findings.segments import ordered_points, series_key
from paceline.history import Store
from paceline.history.findings import Place, StoredFinding
from paceline.history.store.names import read_names
from paceline.model import Finding
from paceline.numbers import interval
from paceline.record.codec import plain

JUDGE = "change points"
MOST_SUSPECTS = 3
OLD_NEWS = 30
"""A change that had more results behind it when it was found is of a past that was imported: no session's fault."""
_SHORT = 10
_DRAWN = 30
"""Values on each side of a change that a report carries."""
_MOST_CURVES = 50
"""Nobody looks at more pictures than that; each is read from the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values in the order in which they are judged; the new level begins at `index`, or is not among them."""

    values: tuple[float, ...] = ()
    index: int | None = None


def read_curve(store: Store, one: StoredFinding, places: Mapping[str, int], *, window: int) -> Curve:
    """As many values before and after a change as `window` says, if there are so many."""
    for series in store.iter_series(cases=[one.series.case], metrics=[one.series.metric], judged_only=True):
        if series_key(series) == one.series:
            points = ordered_points(series, dict(places))
            at = next((i for i, point in enumerate(points) if point.record_id == one.at_record), None)
            middle = len(points) if at is None else at
            first = max(0, middle - window)
            values = tuple(point.value for point in points[first : middle + window])
            return Curve(values=values, index=None if at is None else at - first)
    return Curve()


def finding_json(one: StoredFinding, question: str = "") -> dict[str, Any]:
    """A finding as `paceline regressions --json` prints it; one that raises a question is not an improvement."""
    told: dict[str, Any] = {
        "id": one.id,
        "incident": one.incident,
        "case": one.series.case,
        "metric": one.series.metric,
        "verdict": "inconclusive" if question else one.verdict,
        "effect": plain(one.effect),
        "low": plain(one.low),
        "high": plain(one.high),
        "p_value": one.p_value,
        "last_good": _place_json(one.last_good),
        "first_bad": _place_json(one.first_bad),
        "suspects": [dict(suspect) for suspect in one.suspects],
        "state": one.state,
        "variant": one.series.variant or None,
        "version": one.series.version,
        "unit": one.series.unit or None,
        "environment_class": one.series.environment_class,
        "found_at": one.found_at,
        "found_after": one.found_after,
        "fixed_at": one.fixed_at or None,
    }
    said = one.said
    words = {"why": said.why, "who": said.who, "at": said.at, "state": said.state} if said else None
    return {**told, "said": words, **({"question": question} if question else {})}


def _place_json(place: Place) -> dict[str, str]:
    return {"revision": place.revision, "session": place.session, "time": place.time}


def to_finding(one: StoredFinding, curve: Curve, question: str = "") -> Finding:
    """A finding as a report has it, with the values around it for those who draw them."""
    kept = (
        "incident",
        "p_value",
        "last_good",
        "first_bad",
        "suspects",
        "variant",
        "version",
        "environment_class",
    )
    told = finding_json(one, question)
    return Finding(
        judge=JUDGE,
        case=one.series.case,
        metric=one.series.metric,
        verdict=told["verdict"],
        effect=one.effect,
        low=one.low,
        high=one.high,
        evidence={
            **{name: told[name] for name in kept},
            "values": [plain(value) for value in curve.values],
            "index": curve.index,
            **({"question": question} if question else {}),
        },
        message=f"{question} {message(one)}" if question else message(one),
        id=one.id,
        state=one.state,
    )


def message(one: StoredFinding) -> str:
    """The finding in a sentence."""
    between = f"between {place_text(one.last_good)} and {place_text(one.first_bad)}"
    causes = suspects_text(one.suspects)
    return f"{change_text(one)} {between}" + (f"; suspects: {causes}" if causes else "") + f" [{one.id}]"


def change_text(one: StoredFinding) -> str:
    """The size of a change, with its interval."""
    return interval(one.effect, one.low, one.high)


def place_text(place: Place) -> str:
    """Where a point was measured, for people."""
    return f"{place.session} ({place.revision[:_SHORT]})" if place.revision else place.session


def suspects_text(suspects: Sequence[Mapping[str, Any]], most: int = MOST_SUSPECTS) -> str:
    """The first few suspects of each kind: packages and facts of the machine are fewer and often the cause."""
    commits = [one for one in suspects if one["kind"] in ("commit", "commits")]
    others = [one for one in suspects if one["kind"] not in ("commit", "commits")]
    shown = [*commits[:most], *others[:most]]
    more = len(suspects) - len(shown)
    return ", ".join([*map(suspect_text, shown), *([f"and {more} more"] if more else [])])


def suspect_text(suspect: Mapping[str, Any]) -> str:
    """One suspect, for people."""
    kind = suspect["kind"]
    if kind == "commit":
        return f"{suspect['revision'][:_SHORT]} {suspect['subject'][:60]!r} by {suspect['author']}"
    if kind == "commits":
        count = f"{suspect['count']:,} " if "count" in suspect else ""
        return f"{count}commits {suspect['from'][:_SHORT]}..{suspect['to'][:_SHORT]}"
    if kind == "packages":
        return f"{suspect['count']:,} more packages"
    if kind == "source":
        return "the benchmark's own source"
    before, after = (_worded(suspect[name]) for name in ("before", "after"))
    return f"{suspect['name']} {before} → {after}"


def _worded(value: Any) -> str:
    return "nothing" if value is None else str(value)[:60]


_OF_SESSION = """
SELECT DISTINCT c.key, c.variant, c.version, e.class_id FROM record r JOIN session s ON s.id = r.session_id
JOIN "case" c ON c.id = r.case_id JOIN environment e ON e.id = r.environment_id WHERE s.ident = ?"""


def session_findings(store: Store, session_id: str) -> tuple[Finding, ...]:
    """What a session's report tells of the series that it added to.

    Regressions are told until somebody says what they are, or a later change undoes them; improvements once.
    """
    with store.database.reading():
        rows = store.database.rows(_OF_SESSION, (bytes.fromhex(session_id),))
        names = read_names(store.database)
    ran = {(names.current(key), variant, version, class_id) for key, variant, version, class_id in rows}
    told = [
        one
        for one in store.findings()
        if (*one.series[:3], one.series.environment_class) in ran and _is_told(one, session_id)
    ]
    told.sort(key=lambda one: -abs(one.effect))
    questions = find_questions(store, told, suspect_text)
    return tuple(
        to_finding(one, _curve(store, one, place), questions.get(one.id, ""))
        for place, one in enumerate(told)
    )


def _curve(store: Store, one: StoredFinding, place: int) -> Curve:
    return read_curve(store, one, {}, window=_DRAWN) if place < _MOST_CURVES else Curve()


def _is_told(one: StoredFinding, session_id: str) -> bool:
    if not one.stands or one.state != "new":
        return False
    return one.found_after <= OLD_NEWS if one.verdict == "worse" else one.found_in == session_id
