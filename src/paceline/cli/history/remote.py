"""`paceline history pull` and `push`: one database for many jobs, in an object store."""

import json
from typing import TYPE_CHECKING

import click

from paceline.cli.history.db import count, db_option, find_database, json_option
from paceline.cli.output import write
from paceline.report.format import visible

if TYPE_CHECKING:
    from paceline.history.remote import Transferred

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


@click.command("pull", epilog=_PULL_EPILOG)
@click.argument("remote", metavar="URL")
@db_option
@json_option
def pull_command(remote: str, db: str | None, as_json: bool) -> None:
    """Add all that the database at URL has to the one here, which is created if there is none."""
    from paceline.history.remote import pull

    local = find_database(db)
    _tell(pull(remote, local), local, as_json=as_json)


@click.command("push", epilog=_PUSH_EPILOG)
@click.argument("remote", metavar="URL")
@db_option
@json_option
def push_command(remote: str, db: str | None, as_json: bool) -> None:
    """Add all that the database here has to the one at URL, which is created if there is none."""
    from paceline.history.remote import push

    _tell(push(find_database(db), remote), remote, as_json=as_json)


def _tell(transferred: "Transferred", place: str, *, as_json: bool) -> None:
    added = transferred.added
    if as_json:
        told = {"records": added.records, "samples": added.samples, "known": added.known}
        write(json.dumps({**told, "conflicts": transferred.conflicts}) + "\n")
        return
    times = count(transferred.conflicts, "time")
    again = f"; another job wrote meanwhile, {times}" if transferred.conflicts else ""
    new = f"{count(added.records, 'record')} with {count(added.samples, 'sample')}"
    write(f"{visible(place)}: {new} added{again}\n")
