"""A finding in the words in which people get it, with the values around it for those who draw them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from paceline.finding import Finding, Place
from paceline.findings.belief import find_questions
from paceline.findings.branches import branch_findings
from paceline.findings.order import Order, read_order
from paceline.findings.segments import series_key
from paceline.history import Store
from paceline.history.findings import read_culprits
from paceline.history.store.names import read_names
from paceline.numbers import chance, count, interval

MOST_SUSPECTS = 3
_SHORT = 10
_DRAWN = 30
"""Values on each side of a change that a report carries."""
_MOST_CURVES = 50
"""Nobody looks at more pictures than that; each is read from the history."""


def tell(store: Store, findings: Iterable[Finding]) -> list[Finding]:
    """Findings of the history as every reader gets them: each with its message, and with the question it raises.

    Neither what raises a question nor what did not reproduce is a verdict. Once the cause is known, it is the only
    suspect; a finding of the same incident shares it if it was one of its own suspects.
    """
    known = list(findings)
    with store.database.reading():
        found = read_culprits(store.database)
    questions = find_questions(store, known, suspect_text)
    return [_told(one, found.get(one.incident), questions.get(one.id, "")) for one in known]


def _told(one: Finding, shared: Mapping[str, Any] | None, question: str) -> Finding:
    culprit = one.culprit
    if culprit is None and shared and one.stage in ("suspected", "confirmed"):
        is_suspect = shared.get("revision") in {suspect.get("revision") for suspect in one.suspects}
        culprit = shared if shared.get("revision") and is_suspect else None
    told = replace(
        one,
        verdict="inconclusive" if question or one.stage == "not_reproduced" else one.verdict,
        culprit=culprit,
        suspects=(culprit,) if culprit else one.suspects,
        question=question,
    )
    return replace(told, message=message(told))


def read_curve(store: Store, one: Finding, order: Order, *, window: int) -> Finding:
    """The finding with as many values before and after its change as `window` says, if there are so many."""
    for series in store.iter_series(cases=[one.case], metrics=[one.metric], judged_only=True):
        if series_key(series) == one.series:
            points = order.points(series)
            at = next((i for i, point in enumerate(points) if point.record_id == one.at_record), None)
            middle = len(points) if at is None else at
            first = max(0, middle - window)
            values = tuple(point.value for point in points[first : middle + window])
            return replace(one, values=values, index=None if at is None else at - first)
    return one


def message(one: Finding) -> str:
    """The finding in a sentence, its cause first where that is known."""
    if one.kind == "stopped":
        sessions = count(one.found_after, "session")
        since = f"no results since {place_text(one.last_good)} on {one.last_good.time[:10]}"
        return f"{since}, while its suite went on for {sessions} [{one.id}]"
    size = interval(one.effect, one.low, one.high)
    between = f"between {place_text(one.last_good)} and {place_text(one.first_bad)}"
    text = f"{size} {between}" if one.kind != "drift" else f"{size}, little by little, {between}"
    if one.culprit:
        text = f"{size}: {culprit_text(one.culprit)}; {between}"
    elif one.stage == "not_reproduced":
        text = f"{text}; did not reproduce"
    elif one.suspects:
        text = f"{text}; suspects: {suspects_text(one.suspects)}"
    return f"{one.question} {text} [{one.id}]".lstrip()


def place_text(place: Place) -> str:
    """Where a point was measured, for people."""
    return f"{place.session} ({place.revision[:_SHORT]})" if place.revision else place.session


def culprit_text(culprit: Mapping[str, Any]) -> str:
    """What a bisection found to be the cause, and how surely."""
    probability, runs = culprit.get("probability"), culprit.get("runs")
    sure = f"{chance(probability)} sure" if isinstance(probability, float) else "how surely is not known"
    return f"culprit {suspect_text(culprit)} ({sure}{f', {runs:,} runs' if runs else ''})"


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
        by = f" by {suspect['author']}" if suspect.get("author") else ""
        return f"{suspect['revision'][:_SHORT]} {(suspect.get('subject') or '')[:60]!r}{by}"
    if kind == "commits":
        some = f"{suspect['count']:,} " if "count" in suspect else ""
        return f"{some}commits {suspect['from'][:_SHORT]}..{suspect['to'][:_SHORT]}"
    if kind == "packages":
        return f"{suspect['count']:,} more packages"
    if kind == "source":
        return "the benchmark's own source"
    if "before" not in suspect:
        return str(suspect.get("subject") or suspect.get("name"))
    before, after = (_worded(suspect[name]) for name in ("before", "after"))
    return f"{suspect['name']} {before} → {after}"


def _worded(value: Any) -> str:
    return "nothing" if value is None else str(value)[:60]


_OF_SESSION = """
SELECT DISTINCT c.key, c.variant, c.version, e.class_id FROM record r JOIN session s ON s.id = r.session_id
JOIN "case" c ON c.id = r.case_id JOIN environment e ON e.id = r.environment_id WHERE s.ident = ?"""


def session_findings(store: Store, session_id: str) -> tuple[Finding, ...]:
    """What a session's report says of the series that it added to.

    Regressions are reported until somebody says what they are, or a later change undoes them; improvements once. A
    session of another branch than the default one adds to no series, and is held against the level it began at.
    """
    with store.database.reading():
        rows = store.database.rows(_OF_SESSION, (bytes.fromhex(session_id),))
        names = read_names(store.database)
    ran = {(names.current(key), variant, version, class_id) for key, variant, version, class_id in rows}
    session, order = store.session(session_id), read_order(store)
    if session and session.revision in order.aside:
        return branch_findings(store, session, order, sorted({key for key, *_ in ran}))
    news = [
        one
        for one in store.findings()
        if ((*one.series[:3], one.environment_class) in ran or one.kind == "stopped")
        and _is_told(one, session_id)
    ]
    news.sort(key=lambda one: -abs(one.effect or 0.0))
    told = tell(store, news)
    drawn = (read_curve(store, one, order, window=_DRAWN) for one in told[:_MOST_CURVES])
    return (*drawn, *told[_MOST_CURVES:])


def _is_told(one: Finding, session_id: str) -> bool:
    if not one.stands or not one.is_open:
        return False
    # What the first search of a past finds is listed, and fails no session.
    return bool(one.found_in) if one.verdict == "worse" else one.found_in == session_id
