"""`paceline history import`, `merge`, `pull` and `push`: results from elsewhere, and one database for many jobs."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.cli.database import db_option, find_database, json_option, open_database
from paceline.cli.output import write
from paceline.numbers import count
from paceline.report.format import visible

if TYPE_CHECKING:
    from paceline.history import Added
    from paceline.history.importers import Batch
    from paceline.history.remote import Transferred

_IMPORT_EPILOG = """\b
Examples:
  paceline history import results/                    all sessions of a results directory
  paceline history import .benchmarks/ --db team.db   what pytest-benchmark kept
  paceline history import asv/results --format asv
  paceline history import old/benchmark.db            a database, ours or of coiled/benchmarks
  paceline history import old/benchmark.db --as-suite tests/ --machine here
                                                      the same, to be gone on with by the tests in tests/

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
_PULL_EPILOG = """\b
Examples:
  paceline history pull s3://bench/benchmark.db
  paceline history pull s3://bench/benchmark.db --db all.db
"""
_PUSH_EPILOG = """\b
Examples:
  paceline history push s3://bench/benchmark.db
  paceline history push /shared/benchmark.db --db job-1.db

\b
What is there is read, joined with the database here, and written back; if another job wrote meanwhile, its results are
read and joined, too. Credentials are those that the store's own tools use, such as AWS_ACCESS_KEY_ID.
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
@click.option(
    "--as-suite",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Name the tests of coiled/benchmarks as 'pytest --benchmark' names those in DIR, which pytest collects.",
)
@click.option(
    "--machine",
    type=click.Choice(["here"]),
    help="Take the results as measured on a machine like this one, so that those of this one go on with them.",
)
@db_option
@json_option
def import_command(
    paths: tuple[Path, ...],
    format_: str,
    revision: str,
    as_suite: Path | None,
    machine: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Add the sessions, databases or files of other tools at each PATH to the history."""
    from paceline.errors import HistoryError
    from paceline.history import Added
    from paceline.history.importers import check, is_database, read
    from paceline.history.importers.continuing import Continuation, collect
    from paceline.record.environment import capture

    for path in paths:
        check(path, format_)  # before a database is made for what is not there
        _check_elsewhere(path, find_database(db))
    going_on = Continuation(
        suite=collect(as_suite) if as_suite else None, here=capture() if machine else None
    )
    total = Added()
    problems: list[str] = []
    notes: list[str] = []

    def warn(problem: HistoryError) -> None:
        problems.append(str(problem))
        click.echo(f"paceline: {visible(str(problem))}", err=True)

    with open_database(db, create=True) as store:
        for path in paths:
            if format_ == "auto" and path.is_file() and is_database(path):
                if as_suite or machine:
                    raise HistoryError(
                        f"{path} is a history of Paceline's own: --as-suite and --machine are not for it"
                    )
                total += store.merge_from(path)
                continue
            batches = map(going_on.apply, read(path, format_, revision=revision, on_problem=warn))
            total += store.add_all(_noting(batches, notes))
        notes += going_on.notes()
        _print_added(total, str(store.database.target), as_json=as_json, problems=problems, notes=notes)
    return 1 if problems else 0


def _noting(batches: "Iterable[Batch]", notes: list[str]) -> "Iterator[Batch]":
    for batch in batches:
        notes += batch.notes
        yield batch


def _check_elsewhere(path: Path, into: str) -> None:
    """Refuse to import another program's database into itself: both have the same name by default."""
    from paceline.errors import HistoryError
    from paceline.history.importers import is_database
    from paceline.history.urls import parse_target

    target = parse_target(into).path
    if target and path.is_file() and target.exists() and path.samefile(target) and not is_database(path):
        raise HistoryError(
            f"{path} cannot be imported into itself: name the history by --db FILE, or move {path} away first"
        )


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
        _print_added(total, str(store.database.target), as_json=as_json)


@click.command("pull", epilog=_PULL_EPILOG)
@click.argument("remote", metavar="URL")
@db_option
@json_option
def pull_command(remote: str, db: str | None, as_json: bool) -> None:
    """Add all that the database at URL has to the one here, which is created if there is none."""
    from paceline.history.remote import pull

    local = find_database(db)
    _print_transferred(pull(remote, local), local, as_json=as_json)


@click.command("push", epilog=_PUSH_EPILOG)
@click.argument("remote", metavar="URL")
@db_option
@json_option
def push_command(remote: str, db: str | None, as_json: bool) -> None:
    """Add all that the database here has to the one at URL, which is created if there is none."""
    from paceline.history.remote import push

    _print_transferred(push(find_database(db), remote), remote, as_json=as_json)


def _print_added(
    added: "Added",
    target: str,
    *,
    as_json: bool,
    problems: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> None:
    if as_json:
        told = {"problems": list(problems), "notes": list(notes)}
        write(json.dumps({"database": target, **_counts(added), **told}) + "\n")
        return
    for note in notes:
        click.echo(f"paceline: {visible(note)}", err=True)
    were = "was" if added.known == 1 else "were"
    known = f"; {added.known:,} {were} there already" if added.known else ""
    write(f"{visible(target)}: {_new(added)}{known}\n")


def _print_transferred(transferred: "Transferred", target: str, *, as_json: bool) -> None:
    conflicts = transferred.conflicts
    if as_json:
        write(json.dumps({**_counts(transferred.added), "conflicts": conflicts}) + "\n")
        return
    again = f"; another job wrote meanwhile, {count(conflicts, 'time')}" if conflicts else ""
    write(f"{visible(target)}: {_new(transferred.added)}{again}\n")


def _counts(added: "Added") -> dict[str, int]:
    return {"records": added.records, "samples": added.samples, "known": added.known}


def _new(added: "Added") -> str:
    return f"{count(added.records, 'record')} with {count(added.samples, 'sample')} added"
