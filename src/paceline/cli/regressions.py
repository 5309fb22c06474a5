"""`paceline regressions`: what changed in the history, when, how surely, and what may be the cause."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from paceline.cli.completion import complete_finding
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
    share_of,
)
from paceline.cli.incidents import NEED_SOMEBODY, blocks, markdown_lines, summary_lines, table_lines
from paceline.cli.output import page_lines, write_json, write_lines
from paceline.model import State
from paceline.numbers import change, count, number, percent
from paceline.report.format import visible
from paceline.report.table import screen_of

if TYPE_CHECKING:
    from paceline.finding import Finding
    from paceline.findings.commits import Repository
    from paceline.findings.order import Order
    from paceline.findings.ranking import Incident
    from paceline.findings.replay import Replay
    from paceline.history import Store

EPILOG = """\b
Examples:
  paceline regressions                          what got worse and nobody has answered, the most urgent first
  paceline regressions --above 5% --top 20      a longer list of larger changes
  paceline regressions i6c0e8f3a                all findings of an incident
  paceline regressions --since 7d               what changed this week
  paceline regressions --all                    what got better, what was answered and what stopped, too
  paceline regressions --case 'join*' --json
  paceline regressions --markdown > changes.md
  paceline regressions --replay                 how good the detector is, by your own verdicts

\b
'paceline verdict ID STATE --why TEXT' stores what you think of one. The states: new; acknowledged (known, to be
looked at); expected (meant to be so); fixed (set by itself when a later change undoes it); false (no change at all).
"""

_TOP = 10
_WINDOW = 8


@click.command("regressions", epilog=EPILOG)
@click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=complete_finding)
@click.option("--since", metavar="TIME", help="Only changes since this time: 2026-11-01, or 7d, 2w, 3m ago.")
@click.option(
    "--above", metavar="SHARE", callback=share_of, help="Only changes of at least this size, such as 5%."
)
@click.option("--top", metavar="N", type=click.IntRange(min=1), help=f"List N incidents.  [default: {_TOP}]")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="List all that changed, for the better too, and what was answered.",
)
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
    ids: tuple[str, ...],
    since: str | None,
    above: float | None,
    top: int | None,
    everything: bool,
    cases: tuple[str, ...],
    metrics: tuple[str, ...],
    states: tuple[str, ...],
    replay: bool,
    markdown: bool,
    as_json: bool,
    repo: Path | None,
    db: str | None,
) -> int:
    """List what got worse for good and nobody has answered, or the changes with these IDs; exit 1 if one is new.

    Changes of one cause are an incident. Those come first that are large, sure, seen in many series and recent. --json
    lists all changes that were chosen, those for the better and those that were answered too.

    Series are judged in the order of commits where a repository has known them, else in time; runs of other branches
    than the default one are left out. Only metrics with a direction are judged, failed records and points before a
    reset are left out.
    """
    if as_json and markdown:
        raise click.UsageError("choose --json or --markdown")
    from paceline.findings import ranking
    from paceline.findings.detection import detect
    from paceline.findings.order import read_order, why_in_time
    from paceline.findings.stopped import overdue
    from paceline.findings.telling import tell
    from paceline.record.codec import finding_json

    with open_database(db) as store:
        repository = chosen_repository(repo)
        if replay:
            _print_replay(store, repository, cases, metrics, as_json)
            return 0
        detect(store, repository)
        order = read_order(store)
        for note in filter(None, (why_in_time(order, repository), overdue(store, datetime.now(UTC)))):
            click.echo(visible(note), err=True)
        named = tuple(key for name in cases for key in (name, *known_cases(store, name)))
        told = tell(store, _of_ids(store, ids))
        found = _chosen(told, named, metrics, states, moment_of(since), above)
        for name in () if found else cases:
            find_cases(store, name)  # raises: of a case that does not exist, 'nothing changed' would be wrong
        incidents = ranking.rank(found, ranking.newest_time(store))
        if as_json:
            write_json([finding_json(one) for incident in incidents[:top] for one in incident.findings])
        else:
            is_whole = bool(everything or states or ids)
            listed = incidents if is_whole else [one for one in incidents if one.kind in NEED_SOMEBODY]
            shown = listed if ids else listed[: top or _TOP]
            summary = list(summary_lines(ranking.count(incidents), listed, len(shown), is_whole=is_whole))
            if markdown:
                write_lines(markdown_lines(shown, summary))
            else:
                page_lines(_lines(_with_curves(store, order, shown), summary, db, whole=bool(ids)))
    return 1 if any(one.kind == "worse" for one in incidents) else 0


def _lines(
    shown: "Sequence[Incident]", summary: Sequence[str], db: str | None, *, whole: bool
) -> Iterator[str]:
    """What it comes to first, then the incidents, then what is not listed, and what to do about the worst."""
    screen = screen_of(sys.stdout)
    listed = list(blocks(shown, screen) if whole else table_lines(shown, screen))
    bad = next((one.id for one in shown if one.kind == "worse"), "")
    yield screen.paint(summary[0], "bad" if bad else "bold")
    rest = list(summary[1:])
    if bad:
        step = f"verdict {bad} STATE --why TEXT" if whole else f"regressions {bad}"
        rest.append(visible(f"Next: paceline {step}{f' --db {shlex.quote(db)}' if db else ''}"))
    for part in filter(None, (listed, rest if listed else ())):
        yield from ("", *part)
    yield from () if listed else rest


def _with_curves(store: "Store", order: "Order", shown: "Sequence[Incident]") -> "list[Incident]":
    """The incidents with the values around their first changes; each case is read once."""
    from paceline.findings.telling import read_curves

    wanted = [one for incident in shown for one in incident.findings[:1]]
    curves = {one.id: one for one in read_curves(store, wanted, order, window=_WINDOW)}
    return [
        replace(incident, findings=tuple(curves.get(one.id, one) for one in incident.findings))
        for incident in shown
    ]


def _of_ids(store: "Store", ids: Sequence[str]) -> "list[Finding]":
    """All findings, or those of these ids and incidents; an id that means nothing is an error."""
    every = store.findings()
    incidents = {one.incident for one in every}
    named = {store.finding(ident).id for ident in ids if ident not in incidents}
    return [one for one in every if not ids or one.id in named or one.incident in ids]


def _chosen(
    found: "Sequence[Finding]",
    cases: tuple[str, ...],
    metrics: tuple[str, ...],
    states: tuple[str, ...],
    since: str,
    above: float | None,
) -> "list[Finding]":
    """The findings that were asked for."""
    from paceline.history.store.names import matcher

    case, metric = matcher(cases or None).fullmatch, matcher(metrics or None).fullmatch
    entries = {f"{name}[" for name in cases}
    return [
        one
        for one in found
        if (case(one.case) or f"{one.case.partition('[')[0]}[" in entries)
        and metric(one.metric)
        and (not states or (one.state in states and (one.is_open or one.state != "new")))
        and one.first_bad.when >= since
        and (above is None or abs(one.effect or 0.0) >= above)
    ]


def _print_replay(
    store: "Store",
    repository: "Repository | None",
    cases: tuple[str, ...],
    metrics: tuple[str, ...],
    as_json: bool,
) -> None:
    from paceline.findings.order import read_order
    from paceline.findings.replay import replay

    done = replay(store, read_order(store, repository), cases=cases or None, metrics=metrics or None)
    if as_json:
        write_json(_replay_json(done))
    else:
        write_lines(visible(line) for line in _replay_lines(done))


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
