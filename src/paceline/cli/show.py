"""`paceline show`: the report of a session on disk."""

import sys
from pathlib import Path

import click

from paceline.cli.output import flush
from paceline.cli.stored import find_session, read_session, results_dir_option
from paceline.report.terminal import make_console

EPILOG = """\b
Examples:
  paceline show                          the newest session of the suite here
  paceline show monday                   a session by its name
  paceline show /data/results/monday     or by its path; '.' is the session, or the results, here
  paceline show monday --json | python -m json.tool
"""


@click.command("show", epilog=EPILOG)
@click.argument("session", required=False)
@results_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(session: str | None, results_dir: Path | None, as_json: bool) -> int:
    """Print the report of a SESSION: a name or a path, the newest without one."""
    path = find_session(session, results_dir)
    report = read_session(path).report()
    if as_json:
        from paceline.cli.report_json import print_report

        print_report(report)
        return 0
    console = make_console(sys.stdout)
    console.session_finished(report, path)
    return 0 if flush(console.fault) else 1
