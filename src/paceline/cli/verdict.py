"""`paceline verdict`: what somebody thinks of a change that was found."""

import json
from typing import cast, get_args

import click

from paceline.cli.completion import complete_finding
from paceline.cli.database import db_option, json_option, open_database
from paceline.cli.output import write
from paceline.model import State
from paceline.record.environment import user_name
from paceline.report.format import visible

EPILOG = """\b
Examples:
  paceline verdict 5ee787f59b acknowledged --why "looking into it"
  paceline verdict 5ee787f59b false --why "the backup ran that night"
  paceline verdict i6c0e8f3a expected --why "checks more rows now"   all findings of an incident
  paceline verdict 5ee787f59b 89da91a232 new --why "they were real after all"
"""


@click.command("verdict", epilog=EPILOG)
@click.argument("findings", metavar="ID...", nargs=-1, required=True, shell_complete=complete_finding)
@click.argument("state", type=click.Choice(get_args(State)))
@click.option("--why", metavar="TEXT", default="", help="The reason; needed for expected and false.")
@click.option("--who", metavar="NAME", help="Who says so. [default: the user]")
@db_option
@json_option
def command(
    findings: tuple[str, ...], state: str, why: str, who: str | None, db: str | None, as_json: bool
) -> None:
    """Store your word about findings (or incidents) that 'paceline regressions' lists.

    One that is acknowledged, expected, fixed or false fails nothing any more. The last word counts; all are kept, and
    'paceline regressions --replay' holds the detector against them.
    """
    from paceline.findings.answering import NEED_A_REASON, answer

    if state in NEED_A_REASON and not why.strip():
        raise click.UsageError(f"say --why it is {state}: others will ask")
    with open_database(db) as store:
        who = user_name() if who is None else who
        for finding in answer(store, findings, cast(State, state), why=why, who=who):
            if as_json:
                write(json.dumps({"id": finding.id, "state": finding.state, "why": why}) + "\n")
            else:
                what = visible(f"{finding.series.case} {finding.series.metric}")
                write(f"{finding.id} {what} is now {finding.state}\n")
