"""`paceline list`: the sessions of a results directory."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from paceline.cli.output import write, write_json, write_lines
from paceline.cli.stored import files_of, find_results_place, read_session, results_dir_option
from paceline.model import Status
from paceline.record.codec import NewerSchema
from paceline.record.directory import sessions
from paceline.record.remote.address import join
from paceline.record.remote.sessions import stored_names
from paceline.report.format import aligned, visible

EPILOG = """\b
Examples:
  paceline list                          the sessions of the suite here, newest first
  paceline list --results-dir /data/results
  paceline list --results-dir s3://bench/results
  paceline list | head -5
  paceline list --json | jq -r '.[0].session'
"""

_AT_ONCE = 8  # Of sessions in an object store, where waiting is what takes the time.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """What is listed of a session; of one that a newer version wrote, its name."""

    session: str
    started_at: str = ""
    ok: bool | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    unfinished: int = 0
    problem: str = ""

    def cells(self) -> tuple[str, str, str, str]:
        verdict = {True: "yes", False: "no", None: "unknown" if self.problem else "unfinished"}[self.ok]
        started = self.started_at[:19].replace("T", " ")
        cases = [f"{count:,} {status.replace('_', ' ')}" for status, count in self.counts.items()]
        cases += [f"{self.unfinished:,} without a record"] if self.unfinished else []
        return visible(self.session), started, verdict, self.problem or ", ".join(cases)


@click.command("list", epilog=EPILOG)
@results_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print the sessions as JSON.")
def command(results_dir: Path | str | None, as_json: bool) -> None:
    """List sessions, newest first: when they started, how their cases ended, whether all is well."""
    place = find_results_place(results_dir)
    if isinstance(place, Path):
        rows = [_row(path) for path in sessions(place)]
    else:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            rows = list(pool.map(_row, [join(place, name) for name in stored_names(place)]))
    if as_json:
        write_json([asdict(row) for row in rows])
    elif not rows:
        write(f"no session in {place}: 'paceline run' makes one\n")
    else:
        write_lines(aligned([("session", "started (UTC)", "ok", "cases"), *(row.cells() for row in rows)]))


def _row(place: Path | str) -> _Row:
    with files_of(place) as path:
        try:
            session = read_session(path)
        except NewerSchema:
            return _Row(session=path.name, problem="written by a newer paceline: update to read it")
        return _Row(
            session=session.path.name,
            started_at=session.started_at,
            ok=None if session.unfinished else session.report().ok,
            counts={status.value: session.counts[status] for status in Status if session.counts[status]},
            unfinished=session.unfinished,
        )
