"""Changes as a table for people and as Markdown."""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from paceline.cli.history.db import count
from paceline.cli.history.log import sparkline
from paceline.findings.commits import Repository
from paceline.findings.curves import read_curve
from paceline.findings.detection import known_places
from paceline.findings.telling import change_text, place_text, share, suspect_text, suspects_text
from paceline.history import Store
from paceline.history.findings import StoredFinding
from paceline.report.format import aligned, visible
from paceline.report.markdown import escape

_WINDOW = 16
_MOST_SUSPECTS = 8
_COLOURS = {"worse": "\x1b[31m", "better": "\x1b[32m"}
_RESET = "\x1b[0m"


def table_lines(store: Store, repository: Repository | None, found: Sequence[StoredFinding]) -> Iterator[str]:
    """The changes, those of one incident together, with what may have caused them and a sparkline of each."""
    if not found:
        yield "nothing changed"
        return
    places = known_places(store, repository)
    header = ("id", "case", "metric", "", "change", "p", "state", "")
    rows = [_row(one, _bars(store, one, places)) for one in found]
    title, *lines = aligned([header, *rows])
    yield title
    numbered = zip(found, lines, strict=True)
    for incident, members in groupby(_by_incident(list(numbered)), lambda pair: pair[0].incident):
        yield from _incident(incident, list(members))
    yield ""
    yield _summary(found)


def _by_incident(pairs: list[tuple[StoredFinding, str]]) -> list[tuple[StoredFinding, str]]:
    """In the order given, but with those of an incident after its first."""
    order: dict[str, int] = {}
    for one, _ in pairs:
        order.setdefault(one.incident, len(order))
    return sorted(pairs, key=lambda pair: order[pair[0].incident])


def _incident(name: str, members: list[tuple[StoredFinding, str]]) -> Iterator[str]:
    first = members[0][0]
    yield ""
    between = f"after {place_text(first.last_good)}, by {place_text(first.first_bad)}"
    yield visible(f"incident {name}: {between}, {first.first_bad.time[:10]}")
    for one, line in members:
        yield _painted(line, one)
        if one.said:
            why = f": {one.said.why}" if one.said.why else ""
            yield visible(f"    {one.said.state} by {one.said.who or 'somebody'} on {one.said.at[:10]}{why}")
    suspects = list({repr(suspect): suspect for one, _ in members for suspect in one.suspects}.values())
    yield from (f"    suspect: {visible(suspect_text(one))}" for one in suspects[:_MOST_SUSPECTS])
    if len(suspects) > _MOST_SUSPECTS:
        yield f"    … and {len(suspects) - _MOST_SUSPECTS} more suspects (--json lists all)"


def _row(one: StoredFinding, bars: str) -> tuple[str, ...]:
    variant = f" ({one.series.variant})" if one.series.variant else ""
    p_value = f"{one.p_value:.3f}" if one.p_value >= 0.001 else f"{one.p_value:.0e}" if one.p_value else "0"
    told = (one.id, visible(one.series.case + variant), visible(one.series.metric), one.verdict)
    return (*told, change_text(one), p_value, one.state, bars)


def _bars(store: Store, one: StoredFinding, places: dict[str, int]) -> str:
    """The values around the change."""
    values = read_curve(store, one, places, window=_WINDOW).values
    return sparkline(values) if values else ""


def _painted(line: str, one: StoredFinding) -> str:
    colour = (sys.stdout.isatty() and os.environ.get("TERM") != "dumb") or bool(os.environ.get("FORCE_COLOR"))
    if not colour or os.environ.get("NO_COLOR") or one.state not in ("new", "acknowledged"):
        return line
    return f"{_COLOURS.get(one.verdict, '')}{line}{_RESET}"


def _summary(found: Sequence[StoredFinding]) -> str:
    verdicts, incidents = Counter(one.verdict for one in found), len({one.incident for one in found})
    new = sum(1 for one in found if one.verdict == "worse" and one.state == "new")
    changes = f"{verdicts['worse']:,} worse ({new:,} new) and {verdicts['better']:,} better"
    return f"{changes} in {count(incidents, 'incident')}"


def markdown_lines(found: Sequence[StoredFinding]) -> Iterator[str]:
    """The changes as a table of Markdown, an incident after the other."""
    yield from ("## Changes", "")
    if not found:
        yield "Nothing changed."
        return
    yield from (f"{_summary(found)}.", "")
    yield "| | case | metric | change | between | suspects | state | id |"
    yield "|---|---|---|---:|---|---|---|---|"
    for one, _ in _by_incident([(one, "") for one in found]):
        mark = "🔺" if one.verdict == "worse" else "🟢"
        between = f"{place_text(one.last_good)} and {place_text(one.first_bad)}"
        interval = f"{share(one.effect)}<br>{share(one.low)} … {share(one.high)}"
        why = f": {one.said.why}" if one.said and one.said.why else ""
        cells = (one.series.case, one.series.metric, between, suspects_text(one.suspects), one.state + why)
        case, metric, between, suspects, state = map(escape, cells)
        yield f"| {mark} | {case} | {metric} | {interval} | {between} | {suspects} | {state} | `{one.id}` |"
