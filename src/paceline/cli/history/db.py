"""Which database the commands of `paceline history` mean, and opening it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.cli.completion import complete_case, complete_metric
from paceline.cli.inputs import DEFAULT_CONFIG
from paceline.errors import HistoryError, did_you_mean

if TYPE_CHECKING:
    from paceline.history import Store

db_option = click.option(
    "--db",
    metavar="URL",
    help=f"The database: a file, or postgresql://… [default: PACELINE_DB, else history.url of ./{DEFAULT_CONFIG}, "
    "else benchmark.db]",
)
case_option = click.option(
    "--case",
    "cases",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_case,
    help="Only this case, a name or glob. Repeatable.",
)
metric_option = click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_metric,
    help="Only this metric, a name or glob. Repeatable.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for a script.")


def find_database(db: str | None) -> str:
    """The database asked for, else that of the environment, of the suite here, or the default one."""
    from paceline.history.urls import VARIABLE, find_url

    asked = db or os.environ.get(VARIABLE)
    return find_url(asked, None if asked else _configured_url())


def _configured_url() -> str | None:
    if not Path(DEFAULT_CONFIG).is_file():
        return None
    from paceline.config.load import load  # brings pydantic and YAML, which a command with --db does not need

    history = load([Path(DEFAULT_CONFIG)]).config.history
    return history.url if history else None


def open_database(db: str | None, *, create: bool = False) -> "Store":
    """The history, which must be there unless this command may begin one."""
    from paceline.history import open_store

    return open_store(find_database(db), create=create)


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def find_cases(store: "Store", wanted: str) -> Sequence[str]:
    """The cases of a name or glob; `name` alone also means each `name[param=value]`."""
    found = store.cases(wanted) or store.cases(f"{wanted}[*]")
    if found:
        return found
    names = store.cases()
    hint = did_you_mean(wanted, names, "'paceline history list' shows those there are", most=3)
    raise HistoryError(f"no case {wanted!r} in {store.database.target}; {hint}")
