"""`paceline list`: the sessions of a results directory."""

from collections.abc import Iterator
from pathlib import Path

import click

from paceline.cli.output import write
from paceline.cli.stored import StoredSession, find_results_dir, read_session, results_dir_option
from paceline.model import Status
from paceline.record.codec import NewerSchema
from paceline.record.directory import sessions
from paceline.report.format import aligned, visible

EPILOG = """\b
Examples:
  paceline list                          the sessions of the suite here, newest first
  paceline list --results-dir /data/results
  paceline list | head -5
"""


@click.command("list", epilog=EPILOG)
@results_dir_option
def command(results_dir: Path | None) -> None:
    """List sessions, newest first: when they started, how their cases ended, whether all is well."""
    directory = find_results_dir(results_dir)
    found = sessions(directory)
    if not found:
        write(f"no session in {directory}\n")
        return
    rows = [_row(path) for path in found]
    for line in aligned([("session", "started (UTC)", "ok", "cases"), *rows]):
        write(f"{line}\n")


def _row(path: Path) -> tuple[str, str, str, str]:
    try:
        session = read_session(path)
    except NewerSchema:
        return visible(path.name), "", "unknown", "written by a newer paceline: update to read it"
    started = session.started_at[:19].replace("T", " ")
    return visible(session.path.name), started, _verdict(session), ", ".join(_counts(session))


def _verdict(session: StoredSession) -> str:
    if session.unfinished:
        return "unfinished"
    return "yes" if session.report().ok else "no"


def _counts(session: StoredSession) -> Iterator[str]:
    for status in Status:
        if session.counts[status]:
            yield f"{session.counts[status]:,} {status.value.replace('_', ' ')}"
    if session.unfinished:
        yield f"{session.unfinished:,} without a record"
