"""`paceline show`: the report of a session on disk."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from paceline.cli.completion import complete_session, complete_session_case
from paceline.cli.output import flush, write_encoded, write_json, write_lines
from paceline.cli.stored import (
    StoredSession,
    files_of,
    find_artifacts_dir,
    find_session,
    read_session,
    results_dir_option,
)
from paceline.errors import SessionError
from paceline.model import Record, is_case, one_spelling
from paceline.numbers import duration, spread_note
from paceline.record import below
from paceline.record.codec import to_json
from paceline.record.directory import SessionDir
from paceline.record.layout import LOGS, entry_name, last_run
from paceline.report.format import aligned, measured, visible
from paceline.report.markdown import TAIL_LINES, output_tail
from paceline.report.table import complaints, marks
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
    with files_of(place, case=case and one_spelling(case)) as path:
        stored = read_session(path)
        if case is not None:
            _show_case(stored, case, as_json=as_json)
        elif as_json:
            from paceline.report.files import JsonWriter, pieces

            report = stored.report()
            for part in pieces(JsonWriter(report), report.records):
                write_encoded(part)
        else:
            console = make_console(sys.stdout)
            console.session_finished(stored.report(), place)
            return 0 if flush(console.fault) else 1
    return 0


def _show_case(session: StoredSession, name: str, *, as_json: bool) -> None:
    directory = SessionDir.open(session.path)
    case = next((case for case in session.cases if name in (case.name, case.declared_name)), None)
    case = case or next((case for case in session.cases if is_case(name, case.name)), None)
    record = directory.read_record(case) if case else None
    if case is None or record is None:
        problem = "is not in" if case is None else "has no record in"
        whole = session.path.name
        raise SessionError(f"{name!r} {problem} session {whole}: 'paceline show {whole}' lists its cases")
    if as_json:
        write_json(to_json(record))
    else:
        if below.is_link(session.path, f"{last_run(session.path, entry_name(case))}/{LOGS}"):
            directory = SessionDir.open(session.path, find_artifacts_dir())
        write_lines(_case_lines(record, directory))


def _case_lines(record: Record, directory: SessionDir) -> Iterator[str]:
    """How a case ended, what was measured, the end of its output; harmless to print."""
    yield visible(record.case.name)
    facts = {
        "status": record.status.value.replace("_", " "),
        "started": record.started_at,
        "time": duration(record.exec_time_s) if record.exec_time_s else "",
        "attempt": str(record.attempt) if record.attempt > 1 else "",
        "command": shlex.join(record.command),
        "revision": record.revision,
    }
    yield from aligned([(f"    {name}", visible(text)) for name, text in facts.items() if text])
    yield from (f"    {line}" for line in (*complaints(record), *marks(record)))
    yield from (f"    warning: {visible(warning)}" for warning in record.warnings)
    metrics = [f"    {measured(name, value)}" for name, value in sorted(record.metrics.items())]
    yield from ("", "Metrics", *metrics, *spread_note(metrics)) if metrics else ()
    lines = output_tail(directory, record.case, TAIL_LINES)
    yield from ("", "The last lines of its output", *(f"    {line}" for line in lines)) if lines else ()
