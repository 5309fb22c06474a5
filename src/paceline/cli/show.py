"""`paceline show`: the report of a session on disk."""

import sys
from pathlib import Path

import click

from paceline.cli.completing import complete_session, complete_session_case
from paceline.cli.output import flush, write
from paceline.cli.stored import StoredSession, files_of, find_session, read_session, results_dir_option
from paceline.errors import SessionError
from paceline.record.codec import dump, to_json
from paceline.record.directory import SessionDir
from paceline.report.terminal import make_console

EPILOG = """\b
Examples:
  paceline show                          the newest session of the suite here
  paceline show monday                   a session by its name
  paceline show /data/results/monday     or by its path; '.' is the session, or the results, here
  paceline show s3://bench/results/monday
  paceline show monday 'sort[n=10]'      one of its cases
  paceline show monday --json | python -m json.tool
"""


@click.command("show", epilog=EPILOG)
@click.argument("session", required=False, shell_complete=complete_session)
@click.argument("case", required=False, shell_complete=complete_session_case)
@results_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(session: str | None, case: str | None, results_dir: Path | str | None, as_json: bool) -> int:
    """Print the report of a SESSION (a name, a path or a URL, the newest without one) or of one CASE of it."""
    place = find_session(session, results_dir)
    with files_of(place, case=case) as path:
        stored = read_session(path)
        return (
            _show(stored, place, as_json=as_json)
            if case is None
            else _show_case(stored, case, as_json=as_json)
        )


def _show(session: StoredSession, place: Path | str, *, as_json: bool) -> int:
    report = session.report()
    if as_json:
        from paceline.cli.report_json import print_report

        print_report(report)
        return 0
    console = make_console(sys.stdout)
    console.session_finished(report, place)
    return 0 if flush(console.fault) else 1


def _show_case(session: StoredSession, name: str, *, as_json: bool) -> int:
    from paceline.cli.case_text import case_lines

    directory = SessionDir.open(session.path)
    case = next((case for case in session.cases if case.name == name), None)
    record = directory.read_record(case) if case else None
    if case is None or record is None:
        problem = "is not in" if case is None else "has no record in"
        whole = session.path.name
        raise SessionError(f"{name!r} {problem} session {whole}: 'paceline show {whole}' lists its cases")
    if as_json:
        write(dump(to_json(record), pretty=True).decode() + "\n")
        return 0
    for line in case_lines(record, directory.entry_dir(case)):
        write(f"{line}\n")
    return 0
