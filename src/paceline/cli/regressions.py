"""`paceline regressions`: what changed in the history, when, how surely, and what may be the cause."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from paceline.cli.history.db import (
    case_option,
    db_option,
    find_cases,
    json_option,
    metric_option,
    open_database,
)
from paceline.cli.history.edit import moment_of
from paceline.cli.output import write
from paceline.model import State

if TYPE_CHECKING:
    from paceline.findings.commits import Repository
    from paceline.history import Store
    from paceline.history.findings import StoredFinding

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

repo_option = click.option(
    "--repo",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The git repository whose commits the revisions are. [default: the one of the current directory]",
)


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

    Series are judged in the order of commits where the repository knows all their revisions, else in time.
    Only metrics with a direction are judged, failed records and points before a reset are left out.
    """
    if as_json and markdown:
        raise click.UsageError("choose --json or --markdown")
    with open_database(db) as store:
        repository = chosen_repository(repo)
        if replay:
            from paceline.cli.regressions_replay import print_replay

            print_replay(store, repository, cases, metrics, as_json=as_json)
            return 0
        found = _chosen(find_changes(store, repository), cases, metrics, states, since)
        for name in () if found else cases:
            find_cases(store, name)  # that nothing changed is no answer about a case that does not exist
        _print(store, repository, found, as_json=as_json, markdown=markdown)
    return 1 if any(one.verdict == "worse" and one.state == "new" for one in found) else 0


def chosen_repository(repo: Path | None) -> "Repository | None":
    """The repository asked for, else that of the current directory."""
    from paceline.findings.commits import find_repository, open_repository

    return find_repository(Path.cwd()) if repo is None else open_repository(repo)


def find_changes(store: "Store", repository: "Repository | None") -> list["StoredFinding"]:
    """What the history holds after a look at what is new in it."""
    from paceline.findings.detection import detect

    detect(store, repository)
    return store.findings()


def _chosen(
    found: "list[StoredFinding]",
    cases: tuple[str, ...],
    metrics: tuple[str, ...],
    states: tuple[str, ...],
    since: str | None,
) -> "list[StoredFinding]":
    """The findings that were asked for, newest change first."""
    from paceline.history.store.names import matcher

    case, metric = matcher(cases or None).fullmatch, matcher(metrics or None).fullmatch
    from_when = moment_of(since)
    entries = {f"{name}[" for name in cases}
    chosen = [
        one
        for one in found
        if (case(one.series.case) or f"{one.series.case.partition('[')[0]}[" in entries)
        and metric(one.series.metric)
        and (not states or one.state in states)
        and one.first_bad.time >= from_when
    ]
    return sorted(chosen, key=lambda one: (one.first_bad.time, one.id), reverse=True)


def _print(
    store: "Store",
    repository: "Repository | None",
    found: "list[StoredFinding]",
    *,
    as_json: bool,
    markdown: bool,
) -> None:
    from paceline.findings.telling import finding_json

    if as_json:
        write(json.dumps([finding_json(one) for one in found], indent=2) + "\n")
        return
    from paceline.cli.regressions_text import markdown_lines, table_lines
    from paceline.report.format import spelled_for

    lines = markdown_lines(found) if markdown else table_lines(store, repository, found)
    for line in lines:
        write(f"{spelled_for(sys.stdout.encoding, line)}\n")
