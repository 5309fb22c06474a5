"""A finding in the words in which people get it, with the values around it for those who draw them."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from paceline.finding import Finding, Place, SeriesKey
from paceline.findings.belief import find_questions
from paceline.findings.branches import branch_findings
from paceline.findings.order import Order, position_of, read_order
from paceline.findings.ranking import days_between
from paceline.history import Store
from paceline.history.findings import read_culprits
from paceline.history.naming import Named, read_series_names
from paceline.history.series import Points
from paceline.history.store.names import read_names
from paceline.numbers import chance, change, count, interval

MOST_SUSPECTS = 3
ENDED_DAYS = 60
"""A series without results for so long, while others got some, gets none any more: its machine or variant is gone."""
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
        names = read_series_names(store.database, {one.case for one in known}) if known else {}
        rows = store.database.rows("SELECT ident, commit_time, started_at FROM session")
    commit_times = {memoryview(ident).hex(): time for ident, time, _ in rows}
    newest = max((started for _, _, started in rows), default="")
    questions = find_questions(store, known, suspect_text)
    return [
        replace(
            _told(one, found.get(one.incident), questions.get(one.id, "")),
            last_good=_dated(one.last_good, commit_times),
            first_bad=_dated(one.first_bad, commit_times),
            series_name=named.name,
            ended=named.newest if days_between(named.newest, newest) > ENDED_DAYS else "",
        )
        for one in known
        for named in (names.get((*one.series[:3], one.environment_class), Named("", "")),)
    ]


def _dated(place: Place, commit_times: Mapping[str, str]) -> Place:
    return replace(place, committed=commit_times.get(place.session_id, ""))


def _told(one: Finding, shared: Mapping[str, Any] | None, question: str) -> Finding:
    culprit = one.culprit
    if culprit is None and shared and one.stage in ("suspected", "confirmed", "undecided"):
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


def read_curves(store: Store, findings: Sequence[Finding], order: Order, *, window: int) -> list[Finding]:
    """The findings with as many values before and after their changes as `window` says, if there are so many.

    Each case is read once, however many findings it has.
    """
    by_series: defaultdict[SeriesKey, list[int]] = defaultdict(list)
    for place, one in enumerate(findings):
        by_series[one.series].append(place)
    drawn = list(findings)
    cases = sorted({one.case for one in findings})
    for series in store.iter_columns(cases=cases, judged_only=True) if findings else ():
        if places := by_series.get(series.key):
            points = order.points(series)
            for place in places:
                values, at = _around(points, findings[place], window)
                drawn[place] = replace(findings[place], values=values, index=at)
    return drawn


def _around(points: Points, one: Finding, window: int) -> tuple[tuple[float, ...], int | None]:
    """The values around a change, and which of them is the first after it; of a drift all of it, from its begin."""
    values = points.values
    at = points.position(one.at_record) if one.at_record else None
    if one.kind == "drift":
        ends = [position_of(points, place) for place in (one.last_good, one.first_bad)]
        if ends[0] is not None and ends[1] is not None and ends[0] < ends[1]:
            first, last = max(0, ends[0] - window // 4), ends[1] + window // 4
            return _thinned(values[first:last], ends[0] - first, 2 * window)
    first = max(0, (len(values) if at is None else at) - window)
    return tuple(values[first : first + 2 * window if at is None else at + window]), (
        None if at is None else at - first
    )


def _thinned(values: Sequence[float], at: int, most: int) -> tuple[tuple[float, ...], int]:
    """At most so many values, each the median of those it stands for, and where one of them is then."""
    step = math.ceil(len(values) / most)
    parts = [values[begin : begin + step] for begin in range(0, len(values), step)]
    return tuple(median(part) for part in parts), min(at // step, len(parts) - 1)


def message(one: Finding) -> str:
    """The finding in a sentence, its cause first where that is known."""
    if one.kind == "stopped":
        sessions = count(one.found_after, "session")
        since = f"no results since {place_text(one.last_good)} on {one.last_good.time[:10]}"
        others = f"the suite went on for {sessions}" if not one.metric else f"the case went on for {sessions}"
        where = f" on machines of class {one.environment_class[:_SHORT]}" if one.environment_class else ""
        return f"{since}{where}, while {others} [{one.id}]"
    size = interval(one.effect, one.low, one.high)
    between = f"between {place_text(one.last_good)} and {place_text(one.first_bad)}"
    text = (
        f"{size} {between}"
        if one.kind != "drift"
        else f"{size}, little by little{_slope_text(one)}, {between}"
    )
    if one.culprit:
        text = f"{size}: {culprit_text(one.culprit)}; {between}"
    elif one.stage == "not_reproduced":
        text = f"{text}; did not reproduce"
    else:
        text += f"; cause not decided after {one.runs:,} runs" if one.stage == "undecided" else ""
        text += f"; suspects: {suspects_text(one.suspects)}" if one.suspects else ""
    return f"{one.question} {text} [{one.id}]".lstrip()


def _slope_text(one: Finding) -> str:
    """How fast a drift is; nothing where the times of its ends are not known."""
    weeks = days_between(one.last_good.time, one.first_bad.time) / 7
    if weeks <= 0 or one.effect is None or one.effect <= -1:
        return ""
    return f" (about {change(math.expm1(math.log1p(one.effect) / weeks))} a week)"


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
    told = tell(store, _stopped_once(news))
    return (*read_curves(store, told[:_MOST_CURVES], order, window=_DRAWN), *told[_MOST_CURVES:])


def _stopped_once(news: Sequence[Finding]) -> Iterator[Finding]:
    """Of what stopped together, such as all cases of a machine, one; `regressions` lists them all."""
    seen: set[str] = set()
    for one in news:
        if one.kind != "stopped" or one.incident not in seen:
            yield one
        if one.kind == "stopped":
            seen.add(one.incident)


def _is_told(one: Finding, session_id: str) -> bool:
    if not one.stands or not one.is_open:
        return False
    # What the first search of a past finds is listed, and fails no session.
    return bool(one.found_in) if one.verdict == "worse" else one.found_in == session_id
