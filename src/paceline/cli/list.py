"""`paceline list`: the sessions of a results directory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from paceline.cli.output import write
from paceline.cli.stored import StoredSession, files_of, find_results_place, read_session, results_dir_option
from paceline.model import Status
from paceline.record.codec import NewerSchema
from paceline.record.directory import sessions
from paceline.record.store_address import join
from paceline.record.store_sessions import stored_names
from paceline.report.format import aligned, visible

EPILOG = """\b
Examples:
  paceline list                          the sessions of the suite here, newest first
  paceline list --results-dir /data/results
  paceline list --results-dir s3://bench/results
  paceline list | head -5
"""

_AT_ONCE = 8  # Of sessions in an object store, where waiting is what takes the time.


@click.command("list", epilog=EPILOG)
@results_dir_option
def command(results_dir: Path | str | None) -> None:
    """List sessions, newest first: when they started, how their cases ended, whether all is well."""
    place = find_results_place(results_dir)
    found = _sessions(place)
    if not found:
        write(f"no session in {place}: 'paceline run' makes one\n")
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        rows = list((pool.map if isinstance(place, str) else map)(_row, found))
    for line in aligned([("session", "started (UTC)", "ok", "cases"), *rows]):
        write(f"{line}\n")


def _sessions(place: Path | str) -> list[Path | str]:
    if isinstance(place, Path):
        return [*sessions(place)]
    return [join(place, name) for name in stored_names(place)]


def _row(place: Path | str) -> tuple[str, str, str, str]:
    with files_of(place) as path:
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
