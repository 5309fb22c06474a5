"""A session's report on standard output: as lines while it runs, or as JSON when it is over."""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import click

from paceline.cli import output
from paceline.model import Report
from paceline.report.files import JsonWriter, pieces
from paceline.report.terminal import PlainConsole, make_console

if TYPE_CHECKING:
    from paceline.report.live import LiveConsole

Run = Callable[["PlainConsole | LiveConsole"], Report]


def print_report(report: Report) -> None:
    """Write what `report.json` holds; a session of any size takes no memory."""
    for part in pieces(JsonWriter(report), report.records):
        output.write_bytes(part)


def report_run(run: Run, *, quiet: bool, as_json: bool) -> Report:
    """Run a session and tell of it; what could not be printed does not change its outcome."""
    if not as_json:
        return _run_on_console(run, quiet)
    # Sinks and other plugins print too, and only the report belongs on standard output.
    with redirect_stdout(sys.stderr):
        report = _run_on_console(run, quiet)
    try:
        print_report(report)
        output.flush()
    except output.OutputError as error:
        click.echo(f"paceline: {error}", err=True)
    return report


def _run_on_console(run: Run, quiet: bool) -> Report:
    with make_console(sys.stdout, quiet=quiet) as console:
        report = run(console)
    output.flush(console.fault)
    return report
