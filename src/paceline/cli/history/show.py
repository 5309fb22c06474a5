"""`paceline history list`, `export` and `query`: what is in the database."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.completion import complete_case
from paceline.cli.database import (
    case_option,
    db_option,
    find_cases,
    json_option,
    metric_option,
    moment_of,
    open_database,
)
from paceline.cli.output import page_lines, write, write_bytes, write_json
from paceline.numbers import count
from paceline.report.format import visible
from paceline.report.table import Column, screen_of, table

if TYPE_CHECKING:
    from paceline.history import Store

_LIST_EPILOG = """\b
Examples:
  paceline history list
  paceline history list 'join*' --json
  paceline history list --sessions
"""
_EXPORT_EPILOG = """\b
Examples:
  paceline history export all.parquet
  paceline history export sort.csv --case sort --metric exec_time_s --samples
  paceline history export - --format json --since 2026-11-01 | head
"""
_QUERY_EPILOG = """\b
Examples:
  paceline history query "SELECT metric, count(*) FROM sample GROUP BY 1"
  paceline history query "SELECT name, duration FROM test_run" --json
  echo "SELECT * FROM session" | paceline history query -

\b
Views: point (what is judged, in its order), measurement (each metric of each record), sample (every sample),
measured_revision, test_run (a row for each record, as Coiled's table has it).
The other tables are in docs/storage.md.
"""


@click.command("list", epilog=_LIST_EPILOG)
@click.argument("pattern", required=False, shell_complete=complete_case)
@click.option("--sessions", is_flag=True, help="List sessions, newest first, instead of cases.")
@db_option
@json_option
def list_command(pattern: str | None, sessions: bool, db: str | None, as_json: bool) -> None:
    """List the cases (of a name or glob PATTERN) with the number of their records and the last of them."""
    if sessions and pattern:
        raise click.UsageError("PATTERN chooses cases, not --sessions")
    with open_database(db) as store:
        if sessions:
            rows = _session_rows(store)
        else:
            wanted = None if pattern is None else set(find_cases(store, pattern))
            rows = [
                {"case": key, "records": records, "metrics": metrics, "last": last}
                for key, records, metrics, last in store.case_counts()
                if wanted is None or key in wanted
            ]
        if as_json:
            write_json(rows)
        elif rows:
            cells = [[visible(str(value)) for value in row.values()] for row in rows]
            _write_table([name.replace("_", " ") for name in rows[0]], cells)
        else:
            write(f"nothing in {store.database.target} yet\n")


def _session_rows(store: "Store") -> list[dict[str, Any]]:
    counts = store.record_counts()
    return [
        {
            **{"session": info.name, "started": info.started_at, "tool": info.tool},
            **{"records": counts.get(info.id, 0), "revision": info.revision[:10], "id": info.id},
        }
        for info in store.sessions()
    ]


@click.command("export", epilog=_EXPORT_EPILOG)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--format", "format_", type=click.Choice(["csv", "json", "parquet"]), help="By default the file's ending."
)
@case_option
@metric_option
@click.option("--since", metavar="TIME", help="Only records since this time: 2026-11-01, or 7d, 2w, 3m ago.")
@click.option("--samples", is_flag=True, help="A row for each sample, instead of each metric of each record.")
@db_option
def export_command(
    path: Path,
    format_: str | None,
    cases: tuple[str, ...],
    metrics: tuple[str, ...],
    since: str | None,
    samples: bool,
    db: str | None,
) -> None:
    """Write measurements to a FILE; '-' is standard output."""
    from paceline.history.export import columns_of, format_of, text_of

    with open_database(db) as store:
        wanted: dict[str, Any] = {"cases": cases or None, "metrics": metrics or None}
        wanted |= {"since": moment_of(since), "samples": samples}
        if str(path) != "-":
            rows = store.export(path, format_, **wanted)
            write(f"{visible(str(path))}: {count(rows, 'row')}\n")
            return
        told = format_of(path, format_ or "csv")
        for part in text_of(store.export_rows(**wanted), columns_of(samples=samples), told):
            write_bytes(part)


@click.command("query", epilog=_QUERY_EPILOG)
@click.argument("sql", metavar="SQL")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most N rows.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0.001),
    default=60.0,
    show_default=True,
    help="Give up on the answer after this time.",
)
@db_option
@json_option
def query_command(sql: str, limit: int | None, timeout_s: float, db: str | None, as_json: bool) -> None:
    """Print the answer to one SQL statement; '-' reads it from standard input. Nothing can be changed."""
    with open_database(db) as store:
        text = sys.stdin.read() if sql == "-" else sql
        names, answer = store.query(text, timeout_s=timeout_s, limit=limit)
    rows = [[value.hex() if isinstance(value, bytes) else value for value in row] for row in answer]
    if as_json:
        write_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        cells = [["" if value is None else visible(str(value)) for value in row] for row in rows]
        _write_table(names, cells)


def _write_table(titles: Iterable[str], rows: Sequence[Sequence[str]]) -> None:
    """Any table; its first column keeps the most room."""
    columns = [Column(title=one, least=10 if place else 24) for place, one in enumerate(titles)]
    page_lines(table(columns, rows, screen_of(sys.stdout)))
