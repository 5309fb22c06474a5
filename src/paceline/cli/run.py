"""`paceline run`: a suite becomes a session."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, TypeVar

import click

from paceline.cli import output
from paceline.cli.completion import complete_session
from paceline.cli.inputs import (
    SuiteCommand,
    add_options,
    history_option,
    jobs_option,
    make_request,
    masked_errors,
    suite_inputs,
)
from paceline.cli.revisions import revision_options, run_revisions, taken_revision_options

if TYPE_CHECKING:
    from paceline.model import Report
    from paceline.report.live import LiveConsole
    from paceline.report.log import LogConsole
    from paceline.report.terminal import LineConsole

EPILOG = """\b
Examples:
  paceline run                                   run ./paceline.yaml
  paceline run base.yaml laptop.yaml             the second file overrides the first
  paceline run nightly.yaml --only 'alm_*' --exclude tag:slow
  paceline run nightly.yaml --session-name monday --jobs 4
  paceline run nightly.yaml --resume monday      go on where it was cut short
  paceline run nightly.yaml --on ray-head:6379   on the nodes of a Ray cluster
  paceline run nightly.yaml --json > report.json
  paceline run --revisions v1.0..main --max 20   the suite at 20 commits, spread evenly
  paceline run --repo ../library --tags 'v*' --install .

\b
Every case ends with a record in RESULTS_DIR/SESSION/CASE/record.json; the session's report
is in report.md, report.json and junit.xml beside them. Ctrl-C ends the running case and writes
the session's end; a second Ctrl-C ends at once.
"""


_Function = TypeVar("_Function", bound=Callable[..., Any])


def console_options(function: _Function) -> _Function:
    """Give a command the options that say what it prints while it runs."""
    return add_options(function, _CONSOLE)


_CONSOLE = (
    click.option("--quiet", "-q", is_flag=True, help="Print failed cases, findings and a last line only."),
    click.option(
        "--verbose", "-v", is_flag=True, help="Print command lines, directories and all warnings, too."
    ),
    click.option(
        "--log",
        type=click.Choice(("auto", "plain")),
        default="auto",
        help="plain: print the log that is kept in logs/console.log, line by line.",
    ),
)


def taken_console_options(options: dict[str, Any]) -> dict[str, Any]:
    """What of a command's options is about what it prints, taken out of them."""
    return {name: options.pop(name) for name in ("quiet", "verbose", "log")}


@click.command("run", cls=SuiteCommand, epilog=EPILOG)
@suite_inputs
@click.option(
    "--resume",
    metavar="[SESSION]",
    shell_complete=complete_session,
    help="Go on with a session (name, path or URL), keeping what finished and has not changed since. "
    "Alone: --session-name, or else the newest session.",
)
@click.option(
    "--rerun-failed",
    is_flag=True,
    help="Go on with a session and run again what did not pass. Implies --resume.",
)
@jobs_option
@click.option(
    "--on",
    metavar="POOL",
    help="Run the cases on the nodes of a Ray cluster: HOST:PORT, ray://HOST:PORT, or auto for the one that "
    "RAY_ADDRESS names or that runs here. 'local' is this machine, whatever the configuration says.",
)
@history_option
@click.option("--no-history", is_flag=True, help="Do not record the session in the history.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the report as JSON; everything else goes to standard error.",
)
@revision_options
@console_options
def command(*, as_json: bool, no_history: bool, **options: Any) -> int:
    """Run the cases of one or more CONFIG files and record what happened.

    Without a file, paceline.yaml in the current directory is run. Exit code 0: all passed; 1: something
    failed; 2: the configuration or the command line is wrong; 130: interrupted.
    """
    from paceline.session.session import run

    view = taken_console_options(options)
    options["history"] = not no_history
    if asked := taken_revision_options(options):
        return run_revisions(asked, options, view, as_json=as_json)
    request = make_request(options)
    with masked_errors(request.configs), open_console(view, as_json=as_json) as console:
        report = run(request, console)
    return print_json(report) if as_json else report.exit_code


@contextmanager
def open_console(
    view: "Mapping[str, Any]", *, as_json: bool
) -> "Iterator[LogConsole | LineConsole | LiveConsole]":
    """What a session prints while it runs; what could not be printed does not change its outcome."""
    from paceline.report.terminal import make_console

    # Sinks and other plugins print too, and with --json only the report belongs on standard output.
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        with make_console(sys.stdout, **view) as console:
            yield console
        output.flush(console.fault)


def print_json(report: "Report") -> int:
    """Print a session's report as JSON, and hand back its exit code."""
    from paceline.report.files import JsonWriter, pieces

    try:
        for part in pieces(JsonWriter(report), report.records):
            output.write_encoded(part)
        output.flush()
    except output.OutputError as error:
        click.echo(f"paceline: {error}", err=True)
    return report.exit_code
