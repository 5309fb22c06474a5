"""`paceline list`: the sessions of a results directory."""

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from paceline.cli.output import page_lines, write, write_json
from paceline.cli.stored import (
    files_of,
    find_results_place,
    read_session,
    results_dir_option,
    stored_sessions,
)
from paceline.model import Status
from paceline.record.codec import NewerSchema
from paceline.record.remote.address import Location
from paceline.record.remote.archive import UnsafeName
from paceline.record.remote.session import FINISHED, read_summary
from paceline.report.format import visible
from paceline.report.table import Cell, Column, screen_of, table

EPILOG = """\b
Examples:
  paceline list                          the sessions of the suite here, newest first
  paceline list --results-dir /data/results
  paceline list --results-dir s3://bench/results
  paceline list --all | grep weekly
  paceline list --json | jq -r '.[0].session'
"""

_COLUMNS = (
    Column(title="session", least=20),
    *("started (UTC)", "ok"),
    Column(title="cases", least=20, cut="end"),
)
_NEWEST = 20
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

    def cells(self) -> tuple[str, str, Cell, str]:
        unknown = Cell("unknown" if self.problem else "unfinished", "doubt")
        verdict = {True: Cell("yes", "good"), False: Cell("no", "bad"), None: unknown}[self.ok]
        started = self.started_at[:19].replace("T", " ")
        cases = [f"{count:,} {status.replace('_', ' ')}" for status, count in self.counts.items()]
        cases += [f"{self.unfinished:,} without a record"] if self.unfinished else []
        return visible(self.session), started, verdict, self.problem or ", ".join(cases)


@click.command("list", epilog=EPILOG)
@results_dir_option
@click.option("--all", "show_all", is_flag=True, help=f"List all sessions, not only the newest {_NEWEST}.")
@click.option("--json", "as_json", is_flag=True, help="Print the sessions as JSON.")
def command(results_dir: Location | None, show_all: bool, as_json: bool) -> None:
    """List sessions, newest first: when they started, how their cases ended, whether all is well."""
    place = find_results_place(results_dir)
    found = stored_sessions(place)
    shown = found if show_all else found[:_NEWEST]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        rows = list((pool.map if isinstance(place, str) else map)(_row, shown))
    if as_json:
        write_json([asdict(row) for row in rows])
    elif not rows:
        write(f"no session in {place}: 'paceline run' makes one\n")
    else:
        page_lines(table(_COLUMNS, [row.cells() for row in rows], screen_of(sys.stdout)))
    if len(shown) < len(found):
        click.echo(f"{len(found) - len(shown):,} older: --all lists them, too", err=as_json)


def _row(place: Location) -> _Row:
    name = str(place).rpartition("/")[2]
    try:
        summary = read_summary(place) if isinstance(place, str) else None
        if summary is not None:
            return _summarised(name, summary)
        with files_of(place) as path:
            session = read_session(path)
            return _Row(
                session=name,
                started_at=session.started_at,
                ok=None if session.unfinished else session.report().ok,
                counts={status.value: session.counts[status] for status in Status if session.counts[status]},
                unfinished=session.unfinished,
            )
    except NewerSchema:
        return _Row(session=name, problem="written by a newer paceline: update to read it")
    except UnsafeName as error:
        return _Row(session=name, problem=str(error))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return _Row(session=name, problem="its files hold what no session has: they are damaged")


def _summarised(name: str, summary: Mapping[str, Any]) -> _Row:
    """A session in an object store as it stood at its end or, if it has not ended, at its last heartbeat."""
    counts = {status.value: int(summary["counts"].get(status.value, 0)) for status in Status}
    unfinished, has_ended = int(summary["unfinished"]), summary["state"] == FINISHED
    return _Row(
        session=name,
        started_at=str(summary["started_at"]),
        ok=bool(summary["ok"]) if has_ended and not unfinished else None,
        counts={status: count for status, count in counts.items() if count},
        unfinished=unfinished,
    )
