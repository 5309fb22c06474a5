"""`paceline history import` and `merge`: results from elsewhere."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.cli.history.db import count, db_option, json_option, open_database
from paceline.cli.output import write
from paceline.report.format import visible

if TYPE_CHECKING:
    from paceline.errors import HistoryError
    from paceline.history import Added, Store
    from paceline.history.importers import OnProblem

_IMPORT_EPILOG = """\b
Examples:
  paceline history import results/                    all sessions of a results directory
  paceline history import .benchmarks/ --db team.db   what pytest-benchmark kept
  paceline history import asv/results --format asv
  paceline history import old/benchmark.db            a database, ours or of coiled/benchmarks

\b
Importing the same thing again changes nothing.
"""
_MERGE_EPILOG = """\b
Examples:
  paceline history merge all.db job-1.db job-2.db
  paceline history merge postgresql://bench@db/history nightly.db

\b
The order does not matter, and merging again changes nothing. The databases merged from are left as they are.
"""


@click.command("import", epilog=_IMPORT_EPILOG)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    default="auto",
    help="What it is, one of those in docs/importing.md; by default told by its content.",
)
@click.option("--revision", metavar="REV", default="", help="What was measured, for tools that do not say.")
@db_option
@json_option
def import_command(
    paths: tuple[Path, ...], format_: str, revision: str, db: str | None, as_json: bool
) -> int:
    """Add the sessions, databases or files of other tools at each PATH to the history."""
    from paceline.history import Added
    from paceline.history.importers import check

    for path in paths:
        check(path, format_)  # before a database is made for what is not there
    total = Added()
    problems: list[str] = []

    def tell(problem: "HistoryError") -> None:
        problems.append(str(problem))
        click.echo(f"paceline: {visible(str(problem))}", err=True)

    with open_database(db, create=True) as store:
        for path in paths:
            total += _import_one(store, path, format_, revision, tell)
        _tell_added(total, str(store.database.target), as_json=as_json, problems=problems)
    return 1 if problems else 0


def _import_one(store: "Store", path: Path, format_: str, revision: str, tell: "OnProblem") -> "Added":
    from paceline.history import Added
    from paceline.history.importers import is_database, read

    if format_ == "auto" and path.is_file() and is_database(path):
        return store.merge_from(path)
    total = Added()
    for batch in read(path, format_, revision=revision, on_problem=tell):
        total += store.add(batch.session, batch.environment, batch.records)
    return total


@click.command("merge", epilog=_MERGE_EPILOG)
@click.argument("into", metavar="INTO")
@click.argument("sources", metavar="FROM...", nargs=-1, required=True)
@json_option
def merge_command(into: str, sources: tuple[str, ...], as_json: bool) -> None:
    """Add all that the databases FROM… have to the database INTO, which is created if there is none."""
    from paceline.history import Added, open_store

    total = Added()
    with open_store(into) as store:
        for source in sources:
            total += store.merge_from(source)
        _tell_added(total, str(store.database.target), as_json=as_json)


def _tell_added(added: "Added", target: str, *, as_json: bool, problems: list[str] | None = None) -> None:
    if as_json:
        told = {"records": added.records, "samples": added.samples, "known": added.known}
        write(json.dumps({"database": target, **told, "problems": problems or []}) + "\n")
        return
    were = "was" if added.known == 1 else "were"
    known = f"; {added.known:,} {were} there already" if added.known else ""
    new = f"{count(added.records, 'record')} with {count(added.samples, 'sample')}"
    write(f"{visible(target)}: {new} added{known}\n")
