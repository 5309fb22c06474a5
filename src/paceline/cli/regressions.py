"""`paceline regressions`: what changed in the history, when, how surely, and what may be the cause."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from paceline.cli.database import (
    case_option,
    chosen_repository,
    db_option,
    find_cases,
    json_option,
    known_cases,
    metric_option,
    moment_of,
    open_database,
    repo_option,
)
from paceline.cli.history.log import sparkline
from paceline.cli.output import wants_colour, write_json, write_lines
from paceline.model import State
from paceline.numbers import change, count, interval, number, p_value, percent
from paceline.report.format import aligned, visible

if TYPE_CHECKING:
    from paceline.finding import Finding
    from paceline.findings.order import Order
    from paceline.findings.replay import Replay
    from paceline.history import Store

EPILOG = """\b
Examples:
  paceline regressions                          everything that changed, newest first
  paceline regressions --state new --since 7d   what nobody has looked at, of this week
  paceline regressions --case 'join*' --json
  paceline regressions --markdown > changes.md
  paceline regressions --replay                 how good the detector is, by your own verdicts

\b
'paceline verdict ID STATE --why TEXT' stores what you think of one. The states: new; acknowledged (known, to be
looked at); expected (meant to be so); fixed (set by itself when a later change undoes it); false (no change at all).
"""

_WINDOW = 16
_MOST_SUSPECTS = 8
_COLOURS = {"worse": "red", "better": "green"}
_MARKS = {"worse": "🔺", "better": "🟢"}


@click.command("regressions", epilog=EPILOG)
@click.option("--since", metavar="TIME", help="Only changes since this time: 2026-11-01, or 7d, 2w, 3m ago.")
@case_option
@metric_option
@click.option(
    "--state",
    "states",
    type=click.Choice(get_args(State)),
    multiple=True,
    help="Only this state. Repeatable.",
)
@click.option(
    "--replay", is_flag=True, help="Run the detector over the past, night by night, and say how good it was."
)
@click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request.")
@json_option
@repo_option
@db_option
def command(
    since: str | None,
    cases: tuple[str, ...],
    metrics: tuple[str, ...],
    states: tuple[str, ...],
    replay: bool,
    markdown: bool,
    as_json: bool,
    repo: Path | None,
    db: str | None,
) -> int:
    """List the lasting changes in the history, those for the better too; exit 1 if a worse one is new.

    Series are judged in the order of commits where a repository has known them, else in time; runs of other branches
    than the default one are left out. Only metrics with a direction are judged, failed records and points before a
    reset are left out.
    """
    if as_json and markdown:
        raise click.UsageError("choose --json or --markdown")
    from paceline.findings.detection import detect
    from paceline.findings.order import read_order, why_in_time
    from paceline.findings.telling import tell
    from paceline.record.codec import finding_json

    with open_database(db) as store:
        repository = chosen_repository(repo)
        if replay:
            from paceline.findings.replay import replay as run_replay

            order = read_order(store, repository)
            done = run_replay(store, order, cases=cases or None, metrics=metrics or None)
            if as_json:
                write_json(_replay_json(done))
            else:
                write_lines(visible(line) for line in _replay_lines(done))
            return 0
        detect(store, repository)
        order = read_order(store)
        if note := why_in_time(order, repository):
            click.echo(visible(note), err=True)
        named = tuple(key for name in cases for key in (name, *known_cases(store, name)))
        found = _chosen(store.findings(), named, metrics, states, since)
        for name in () if found else cases:
            find_cases(store, name)  # raises: of a case that does not exist, 'nothing changed' would be wrong
        found = tell(store, found)
        if as_json:
            write_json([finding_json(one) for one in found])
        else:
            write_lines(_markdown_lines(found) if markdown else _table_lines(store, order, found))
    return 1 if any(one.fails for one in found) else 0


def _chosen(
    found: "list[Finding]",
    cases: tuple[str, ...],
    metrics: tuple[str, ...],
    states: tuple[str, ...],
    since: str | None,
) -> "list[Finding]":
    """The findings that were asked for, newest change first."""
    from paceline.history.store.names import matcher

    case, metric = matcher(cases or None).fullmatch, matcher(metrics or None).fullmatch
    from_when = moment_of(since)
    entries = {f"{name}[" for name in cases}
    chosen = [
        one
        for one in found
        if (case(one.case) or f"{one.case.partition('[')[0]}[" in entries)
        and metric(one.metric)
        and (not states or (one.state in states and (one.is_open or one.state != "new")))
        and one.first_bad.time >= from_when
    ]
    return sorted(chosen, key=lambda one: (one.first_bad.time, one.id), reverse=True)


def _table_lines(
    store: "Store",
    order: "Order",
    found: "Sequence[Finding]",
) -> Iterator[str]:
    """The changes, those of one incident together, with what may have caused them and a sparkline of each."""
    from paceline.findings.telling import read_curve

    if not found:
        yield "nothing changed"
        return
    rows: list[tuple[str, ...]] = [("id", "case", "metric", "", "change", "p", "state", "")]
    found = _by_incident(found)
    for one in found:
        case = one.case + (f" ({one.series.variant})" if one.series.variant else "")
        values = read_curve(store, one, order, window=_WINDOW).values
        names = (one.id, visible(case), visible(one.metric), one.word)
        size, chance = interval(one.effect, one.low, one.high), p_value(one.p_value)
        size += " drift" if one.kind == "drift" else ""
        if one.kind == "stopped":
            size, chance = f"since {one.last_good.time[:10]}", ""
        rows.append((*names, size, chance, _standing(one), sparkline(values) if values else ""))
    title, *lines = aligned(rows)
    yield title
    for _, members in groupby(zip(found, lines, strict=True), lambda pair: pair[0].incident):
        yield from _incident_lines(list(members))
    yield from ("", _summary(found))


def _standing(one: "Finding") -> str:
    """What became of a finding: what somebody said, or how far it was followed up."""
    if one.state != "new" or one.stage == "suspected":
        return one.state
    return f"new, {one.stage}" if one.is_open else "–"


def _by_incident(found: "Sequence[Finding]") -> "list[Finding]":
    """In the order given, but with those of an incident after its first."""
    order: dict[str, int] = {}
    for one in found:
        order.setdefault(one.incident, len(order))
    return sorted(found, key=lambda one: order[one.incident])


def _incident_lines(members: "Sequence[tuple[Finding, str]]") -> Iterator[str]:
    from paceline.findings.telling import culprit_text, place_text, suspect_text

    first = members[0][0]
    between = f"after {place_text(first.last_good)}, by {place_text(first.first_bad)}"
    yield from ("", visible(f"incident {first.incident}: {between}, {first.first_bad.time[:10]}"))
    culprits = {repr(one.culprit): one.culprit for one, _ in members if one.culprit}
    yield from (f"    {visible(culprit_text(culprit))}" for culprit in culprits.values())
    for one, line in members:
        colour = _COLOURS.get(one.verdict) if one.state in ("new", "acknowledged") else None
        yield click.style(line, fg=colour) if colour and wants_colour() else line
        if one.said:
            why = f": {one.said.why}" if one.said.why else ""
            yield visible(f"    {one.said.state} by {one.said.who or 'somebody'} on {one.said.at[:10]}{why}")
    yield from (visible(f"    question: {one.question}") for one, _ in members if one.question)
    listed = [suspect for one, _ in members if one.stage != "not_reproduced" for suspect in one.suspects]
    suspects = [] if culprits else list({repr(suspect): suspect for suspect in listed}.values())
    yield from (f"    suspect: {visible(suspect_text(one))}" for one in suspects[:_MOST_SUSPECTS])
    if len(suspects) > _MOST_SUSPECTS:
        yield f"    … and {len(suspects) - _MOST_SUSPECTS} more suspects (--json lists all)"


def _summary(found: "Sequence[Finding]") -> str:
    words, incidents = Counter(one.word for one in found), len({one.incident for one in found})
    new = sum(1 for one in found if one.fails)
    changes = f"{words['worse']:,} worse ({new:,} new) and {words['better']:,} better"
    changes += f" and {count(words['question'], 'question')}" if words["question"] else ""
    changes += f" and {words['not reproduced']:,} not reproduced" if words["not reproduced"] else ""
    changes += f" and {words['stopped']:,} stopped" if words["stopped"] else ""
    return f"{changes} in {count(incidents, 'incident')}"


def _markdown_lines(found: "Sequence[Finding]") -> Iterator[str]:
    """The changes as a table of Markdown, an incident after the other."""
    from paceline.findings.telling import culprit_text, place_text, suspects_text
    from paceline.report.markdown import escape

    yield from ("## Changes", "")
    if not found:
        yield "Nothing changed."
        return
    yield from (f"{_summary(found)}.", "")
    yield "| | case | metric | change | between | suspects | state | id |"
    yield "|---|---|---|---:|---|---|---|---|"
    for one in _by_incident(found):
        mark = _MARKS.get(one.verdict, "❔")
        between = f"{place_text(one.last_good)} and {place_text(one.first_bad)}"
        size = f"{change(one.effect)}<br>{change(one.low)} to {change(one.high)}"
        size = "stopped" if one.kind == "stopped" else size
        why = f": {one.said.why}" if one.said and one.said.why else ""
        causes = one.question or (
            culprit_text(one.culprit)
            if one.culprit
            else suspects_text(one.suspects)
            if one.stage != "not_reproduced"
            else ""
        )
        cells = (one.case, one.metric, between, causes, _standing(one) + why)
        case, metric, between, suspects, state = map(escape, cells)
        yield f"| {mark} | {case} | {metric} | {size} | {between} | {suspects} | {state} | `{one.id}` |"


def _replay_json(done: "Replay") -> dict[str, Any]:
    return {
        "precision": done.precision,
        "recall": done.recall,
        "real_found": done.real_found,
        "real_missed": [one.id for one in done.real_missed],
        "false_raised": done.false_raised,
        "false_avoided": done.false_avoided,
        "unlabelled": done.unlabelled,
        "median_delay": done.median_delay,
        "series": done.series,
        "nights": done.nights,
        "alarms": [
            {
                "case": alarm.series.case,
                "metric": alarm.series.metric,
                "verdict": alarm.verdict,
                "effect": alarm.effect,
                "at": alarm.at_time,
                "raised_at": alarm.raised_at,
                "delay": alarm.delay,
                "finding": alarm.label or None,
            }
            for alarm in done.alarms
        ],
    }


def _replay_lines(done: "Replay") -> Iterator[str]:
    """How good the detector is, by what people said about its findings."""

    def part(value: float | None, some: int, of: int) -> str:
        return "nothing" if value is None else f"{percent(value)} ({some:,} of {of:,})"

    if not done.series:
        yield "nobody has said anything yet that the detector could be held against: see 'paceline verdict'"
        return
    found, raised = done.real_found, done.false_raised
    precision = part(done.precision, found, found + raised)
    recall = part(done.recall, found, found + len(done.real_missed))
    yield f"replayed {done.series:,} series over {count(done.nights, 'night')}"
    yield f"precision  {precision} of its alarms that somebody judged were real"
    yield f"recall     {recall} of the real changes were found"
    yield f"false      {raised:,} of {raised + done.false_avoided:,} changes that somebody called false were raised"
    yield f"unjudged   {count(done.unlabelled, 'alarm')}"
    if done.median_delay is not None:
        yield f"delay      {number(done.median_delay)} results at the median, from the first of the new level"
    for one in done.real_missed:
        yield f"missed     {one.id} {one.case} {one.metric} {change(one.effect)}"
