"""`paceline nightly`: a suite's session, and the cause of what got worse in it."""

from typing import Any

import click

from paceline.cli.inputs import (
    SuiteCommand,
    history_option,
    jobs_option,
    make_request,
    masked_errors,
    suite_inputs,
)
from paceline.cli.run import console_options, open_console, print_json, taken_console_options

EPILOG = """\b
Examples:
  paceline nightly nightly.yaml                  run, confirm, bisect, report
  paceline nightly nightly.yaml --no-bisect      confirm only
  paceline nightly nightly.yaml --json > report.json

\b
A suite like any other; its section 'nightly' says which repository and packages are measured
and how much time the search for a cause may take. Every night is recorded in the history.
What looks worse than the nights before is run again, in turns with the last good state; if
that confirms it, the commit or package version that did it is searched. The session's report,
with the culprit in it, then goes to the sinks. Exit code 0: nothing got worse; 1: something
did, or failed; 2: usage or configuration; 130: interrupted.
"""


@click.command("nightly", cls=SuiteCommand, epilog=EPILOG)
@suite_inputs
@jobs_option
@click.option("--no-bisect", is_flag=True, help="Confirm what looks worse, but search for no cause.")
@history_option
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the report as JSON; everything else goes to standard error.",
)
@console_options
def command(*, as_json: bool, no_bisect: bool, **options: Any) -> int:
    """Run the cases of one or more CONFIG files, and find out what made any of them worse.

    Without a file, paceline.yaml in the current directory is run.
    """
    from paceline.experiments.nightly.night import run_nightly

    view = taken_console_options(options)
    request = make_request(options)
    with masked_errors(request.configs), open_console(view, as_json=as_json) as console:
        report = run_nightly(request, console, bisects=not no_bisect)
    return print_json(report) if as_json else report.exit_code
