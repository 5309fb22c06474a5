"""Incidents for people: two lines each, all that is known of one, and as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from paceline.numbers import change, count, interval, range_of
from paceline.report.format import sparkline, visible
from paceline.report.table import Cell, Column, Layout, Meaning, Screen, shorten

if TYPE_CHECKING:
    from paceline.finding import Finding
    from paceline.findings.ranking import Incident, Totals

NEED_SOMEBODY = ("worse", "question", "stopped")
_OTHERS = ("better", "acknowledged", "ended", "closed")
_MOST_SUSPECTS = 3
_MEANINGS: Mapping[str, Meaning] = {"worse": "bad", "better": "good"}
_MARKS = {"worse": "🔺", "better": "🟢"}
_SIZES = ((1.0, "×2"), (0.2, "20 %"), (0.05, "5 %"))
_INDENT = " " * 4
_COLUMNS = (
    Column(title="incident"),
    Column(title="change", right=True),
    Column(title="verdict", least=6, cut="end"),
    Column(title="case", least=24, weight=3),
    Column(title="metric", least=8, leaves=1),
    Column(title="age"),
    Column(leaves=2),
)


def table_lines(incidents: "Sequence[Incident]", screen: Screen) -> Iterator[str]:
    """Two lines for each incident: what changed, and below it what may be the cause."""
    rows = [_row(one) for one in incidents]
    layout = Layout(_COLUMNS, rows, screen)
    yield from filter(None, [layout.title if rows else ""])
    for incident, row in zip(incidents, rows, strict=True):
        yield layout.line(row)
        below = f"{_INDENT}{visible(_cause(incident))}"
        yield screen.paint(below if screen.width is None else shorten(below, screen.width, 0), "dim")


def _row(incident: "Incident") -> list[Cell]:
    one = incident.lead
    meaning = _meaning(one)
    return [
        Cell(incident.id),
        Cell("" if one.kind == "stopped" else change(one.effect), meaning),
        Cell(_word(one), meaning),
        Cell(visible(one.case)),
        Cell(visible(one.metric), "dim"),
        Cell(_age(incident.age_days)),
        Cell(_bars(one), "dim"),
    ]


def _cause(incident: "Incident") -> str:
    """What is known of the cause, and how far the change reaches."""
    from paceline.findings.telling import culprit_text, place_text, suspects_text

    one = incident.lead
    suspects = incident.suspects if one.stage != "not_reproduced" else ()
    cause = f"suspect: {suspects_text(suspects, 1)}" if suspects else f"by {place_text(one.first_bad)}"
    cause = culprit_text(incident.culprit) if incident.culprit else cause
    cause = (
        f"since {one.first_bad.time[:10]}, {place_text(one.first_bad)}" if one.kind == "stopped" else cause
    )
    several = f"{incident.series:,} series" if incident.series > 1 else ""
    known = one.kind != "stopped" and one.low is not None and one.high is not None
    size = range_of(one.low, one.high) if known else ""
    ended = f"ended {one.ended[:10]}" if one.ended else ""
    return " · ".join(filter(None, (cause, *_said(one), ended, size, several, one.series_name or "")))


def _word(one: "Finding") -> str:
    """What it is, and what became of it."""
    if one.kind == "stopped":
        return "stopped"
    became = [text.partition(" ")[0] for text in standing(one)]
    return ", ".join([one.word, *(["drift"] if one.kind == "drift" else []), *became])


def standing(one: "Finding") -> list[str]:
    """What somebody said, or how far it was followed up, if there is anything to say."""
    if one.state != "new":
        return [one.state]
    if one.ended:
        return [f"ended {one.ended[:10]}"]
    return [one.stage] if one.stage in ("confirmed", "bisected") else []


def blocks(incidents: "Sequence[Incident]", screen: Screen) -> Iterator[str]:
    """All that is known of each incident."""
    for number, incident in enumerate(incidents):
        yield from ("",) if number else ()
        yield from _block(incident, screen)


def _block(incident: "Incident", screen: Screen) -> Iterator[str]:
    """An incident: how much, since when, which series, and what may have caused it."""
    from paceline.findings.telling import culprit_text, place_text, suspect_text

    lead = incident.lead
    size = interval(lead.effect, lead.low, lead.high)
    several = f"{incident.series:,} series" if incident.series > 1 else ""
    age = f"{_age(incident.age_days)} old" if incident.age_days >= 1 else "new"
    when = ", ".join(filter(None, (lead.first_bad.when[:10], age, several)))
    what = "stopped" if lead.kind == "stopped" else f"{size} {', '.join([lead.word, *standing(lead)])}"
    yield screen.paint("  ".join(filter(None, (incident.id, what, when))), _meaning(lead))
    yield from (f"{_INDENT}{bars}" for bars in [_bars(lead)] if bars)
    yield f"{_INDENT}after {visible(place_text(lead.last_good))}, by {visible(place_text(lead.first_bad))}"
    if incident.culprit:
        yield f"{_INDENT}{visible(culprit_text(incident.culprit))}"
    suspects = incident.suspects if not incident.culprit and lead.stage != "not_reproduced" else ()
    yield from (f"{_INDENT}suspect: {visible(suspect_text(one))}" for one in suspects[:_MOST_SUSPECTS])
    if len(suspects) > _MOST_SUSPECTS:
        yield f"{_INDENT}… {len(suspects) - _MOST_SUSPECTS:,} more suspects: --json lists them"
    columns = (
        *(Column(), Column(right=True), Column(least=6, cut="end")),
        *(Column(least=20, weight=3), Column(least=8), Column(least=8, leaves=1)),
    )
    rows = [
        [
            Cell(f"{_INDENT}{one.id}"),
            Cell(change(one.effect), _meaning(one)),
            Cell(_word(one), _meaning(one)),
            *(Cell(visible(text)) for text in (one.case, one.metric, one.series_name or "")),
        ]
        for one in incident.findings
    ]
    layout = Layout(columns, rows, screen)
    for one, row in zip(incident.findings, rows, strict=True):
        yield layout.line(row)
        yield from (f"{_INDENT * 2}{visible(text)}" for text in _said(one))


def _said(one: "Finding") -> Iterator[str]:
    if one.said:
        why = f": {one.said.why}" if one.said.why else ""
        yield f"{one.said.state} by {one.said.who or 'somebody'} on {one.said.at[:10]}{why}"
    if one.question:
        yield f"question: {one.question}"


def _meaning(one: "Finding") -> Meaning:
    return _MEANINGS.get(one.verdict, "") if one.state in ("new", "acknowledged") else ""


def _bars(one: "Finding") -> str:
    return sparkline(one.values) if one.values else ""


def _age(days: float) -> str:
    """How long ago, counted from the newest result."""
    if days < 2:
        return "new" if days < 1 else "1 day"
    if days < 60:
        return f"{days:.0f} days"
    return f"{days / 30.4:.0f} months" if days < 730 else f"{days / 365.25:.0f} years"


def summary_lines(
    totals: "Totals", listed: "Sequence[Incident]", shown: int, *, is_whole: bool
) -> Iterator[str]:
    """How many there are in all; what is not listed is counted."""
    if not totals.incidents:
        yield "nothing changed"
        return
    if is_whole:
        yield f"{count(len(listed), 'incident')}: {_counted(totals, ('open', *NEED_SOMEBODY[1:], *_OTHERS))}"
    elif not totals.open:
        more = _counted(totals, NEED_SOMEBODY[1:])
        yield f"no open regressions{', ' * bool(more)}{more}"
    else:
        recent = f", {totals.recent:,} of the last 30 days" if totals.recent else ""
        more = _counted(totals, NEED_SOMEBODY[1:])
        opened = f"{count(totals.open, 'open regression')} in {totals.open_findings:,} series{recent}"
        yield f"{opened}{'; ' * bool(more)}{more}"
    if len(listed) > shown:
        sizes = [(abs(one.lead.effect or 0.0), one) for one in listed]
        large = [sum(1 for size, _ in sizes if size >= bound) for bound, _ in _SIZES]
        parts = [f"{n:,} of {name} or more" for n, (_, name) in zip(large, _SIZES, strict=True) if n]
        yield f"… {len(listed) - shown:,} more: --top {len(listed)} lists all; in all {', '.join(parts)}"
    if not is_whole and (others := _counted(totals, _OTHERS)):
        yield f"not listed: {others} (--all)"
    if totals.past:
        which = "the open ones" if totals.past == totals.open else f"{totals.past:,} of the open ones"
        yield f"{which} were there when the history was first searched: they fail no session"


def _counted(totals: "Totals", names: Sequence[str]) -> str:
    counts = [(name, getattr(totals, name)) for name in names]
    words = {"question": "questions" if totals.question > 1 else "question", "ended": "in series that ended"}
    return ", ".join(f"{number:,} {words.get(name, name)}" for name, number in counts if number)


def markdown_lines(shown: "Sequence[Incident]", summary: Sequence[str]) -> Iterator[str]:
    """The incidents as a table of Markdown; one with several series names the worst and counts the others."""
    from paceline.findings.telling import culprit_text, place_text, suspects_text
    from paceline.report.markdown import escape

    yield from ("## Changes", "", f"{summary[0][0].upper()}{summary[0][1:]}.", "")
    if not shown:
        return
    yield "| | case | metric | change | between | suspects | state | id |"
    yield "|---|---|---|---:|---|---|---|---|"
    for incident in shown:
        one = incident.lead
        size = f"{change(one.effect)}<br>{change(one.low)} to {change(one.high)}"
        size = "stopped" if one.kind == "stopped" else size
        more = f" and {incident.series - 1:,} more series" if incident.series > 1 else ""
        name = f" ({one.series_name})" if one.series_name else ""
        causes = suspects_text(incident.suspects) if one.stage != "not_reproduced" else ""
        causes = culprit_text(incident.culprit) if incident.culprit else one.question or causes
        why = f": {one.said.why}" if one.said and one.said.why else ""
        between = f"{place_text(one.last_good)} and {place_text(one.first_bad)}"
        state = ", ".join(standing(one)) or (one.word if one.stage == "not_reproduced" else one.state)
        cells = (f"{one.case}{name}{more}", one.metric, between, causes, state + why)
        case, metric, between, causes, state = map(escape, cells)
        mark = _MARKS.get(one.verdict, "❔")
        yield f"| {mark} | {case} | {metric} | {size} | {between} | {causes} | {state} | `{incident.id}` |"
    yield from ("", *summary[1:])
