"""`paceline show`: the report of a session on disk."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from paceline.cli.completion import complete_session, complete_session_case
from paceline.cli.output import page_lines, write_encoded, write_json
from paceline.cli.stored import (
    StoredSession,
    files_of,
    find_artifacts_dir,
    find_session,
    read_session,
    results_dir_option,
)
from paceline.errors import SessionError
from paceline.metrics import KNOWN
from paceline.model import Measurement, Record, is_case, one_spelling
from paceline.numbers import duration, spread_note
from paceline.record import below
from paceline.record.codec import to_json
from paceline.record.directory import SessionDir
from paceline.record.layout import LOGS, entry_name, last_run
from paceline.report.cases import complaints, key_metrics, marks
from paceline.report.format import value_and_spread, visible
from paceline.report.lines import SessionLines
from paceline.report.markdown import TAIL_LINES, output_tail
from paceline.report.table import Cell, Column, Meaning, Screen, screen_of, table
from paceline.report.terminal import next_step

EPILOG = """\b
Examples:
  paceline show                          the newest session of the suite here
  paceline show last sort                one case of it
  paceline show monday                   a session by its name
  paceline show /data/results/monday     or by its path; '.' is the session, or the results, here
  paceline show s3://bench/results/monday
  paceline show monday 'sort[n=10]'      one of its cases
  paceline show monday --json | python -m json.tool
"""


_METRICS = (
    Column(title="    metric", least=16),
    Column(title="value", right=True),
    Column(leaves=1),
    Column(leaves=2),
)


@click.command("show", epilog=EPILOG)
@click.argument("session", required=False, shell_complete=complete_session)
@click.argument("case", required=False, shell_complete=complete_session_case)
@results_dir_option
@click.option("--all", "everything", is_flag=True, help="Show every case, however many there are.")
@click.option("--verbose", "-v", is_flag=True, help="Show command lines and all warnings, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    session: str | None,
    case: str | None,
    results_dir: Path | str | None,
    everything: bool,
    verbose: bool,
    as_json: bool,
) -> int:
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
            report, lines = stored.report(), SessionLines(screen_of(sys.stdout), verbose=verbose)
            page_lines(lines.stored(report, place, next_step(report, place), everything=everything))
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
        page_lines(_case_lines(record, directory, screen_of(sys.stdout)))


def _case_lines(record: Record, directory: SessionDir, screen: Screen) -> Iterator[str]:
    """How a case ended and why, what was measured, the end of its output; harmless to print."""
    word = record.status.value.replace("_", " ")
    meaning: Meaning = "good" if record.status.ok else "bad"
    yield screen.paint(f"{visible(record.case.name)}: {word}", meaning)
    yield from (screen.paint(f"    {line}", meaning) for line in complaints(record))
    yield from (screen.paint(f"    {line}", "doubt") for line in marks(record))
    facts = {
        "started": record.started_at,
        "time": duration(record.exec_time_s) if record.exec_time_s else "",
        "attempt": str(record.attempt) if record.attempt > 1 else "",
        "command": shlex.join(record.command),
        "revision": record.revision,
    }
    yield from table(
        ("", ""), [(f"    {name}", visible(text)) for name, text in facts.items() if text], Screen()
    )
    yield from (screen.paint(f"    warning: {visible(warning)}", "doubt") for warning in record.warnings)
    rows = [_metric_row(name, record.metrics[name]) for name in _telling_first(record)]
    if rows:
        yield from ("", *table(_METRICS, rows, screen), *spread_note([row[2].text for row in rows]))
    lines = output_tail(directory, record.case, TAIL_LINES)
    yield from ("", "The last lines of its output", *(f"    {line}" for line in lines)) if lines else ()


def _telling_first(record: Record) -> list[str]:
    """The names of its metrics: those that the case is about, then its own, then what is taken of every run."""
    first = [name for name, _ in key_metrics(record)]
    rest = sorted(set(record.metrics) - set(first), key=lambda name: (name in KNOWN, name))
    return [*first, *rest]


def _metric_row(name: str, metric: Measurement) -> tuple[Cell, ...]:
    value, spread = value_and_spread(name, metric)
    better = {"lower": "lower is better", "higher": "higher is better"}.get(metric.direction or "", "")
    return (
        Cell(f"    {visible(metric.label or name)}"),
        Cell(value),
        Cell(spread, "dim"),
        Cell(better, "dim"),
    )
