"""The history on the command line: the options that choose from it, opening its database, times like `7d` ago."""

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.cli.completion import complete_case, complete_metric
from paceline.cli.inputs import DEFAULT_CONFIG
from paceline.errors import HistoryError, did_you_mean
from paceline.record.remote.address import Location, working_dir

if TYPE_CHECKING:
    from paceline.findings.commits import Repository
    from paceline.history import Store

_AGE = re.compile(r"(\d+)([dwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%")

db_option = click.option(
    "--db",
    metavar="URL",
    help=f"The database: a file, or postgresql://… [default: PACELINE_DB, else history.url of ./{DEFAULT_CONFIG}, "
    "else benchmark.db beside the results]",
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
repo_option = click.option(
    "--repo",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The git repository whose commits the revisions are. [default: the one of the current directory]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for a script.")


def find_database(db: str | None, results_dir: Location | None = None) -> str:
    """The database asked for, else that of the environment, of the suite here, or beside its results."""
    from paceline.history.urls import RESULTS, VARIABLE, find_url, why_here

    asked = db or os.environ.get(VARIABLE)
    if asked:
        return asked
    results, configured = results_dir or RESULTS, None
    if Path(DEFAULT_CONFIG).is_file():
        from paceline.config.load import load  # brings pydantic and YAML, which --db makes needless
        from paceline.plan import find_results_place

        loaded = load([Path(DEFAULT_CONFIG)])
        configured = loaded.config.history.url if loaded.config.history else None
        results = results_dir or find_results_place(loaded)
    place = working_dir(results)
    url = find_url(None, configured, results=place)
    if note := why_here(url, place):
        _say_once(note)
    return url


@cache
def _say_once(note: str) -> None:
    click.echo(note, err=True)


def open_database(db: str | None, *, create: bool = False) -> "Store":
    """The history, which must be there unless this command may begin one."""
    from paceline.history import open_store

    return open_store(find_database(db), create=create)


def chosen_repository(repo: Path | None) -> "Repository | None":
    """The repository asked for, else that of the current directory."""
    from paceline.findings.commits import find_repository, open_repository

    return find_repository(Path.cwd()) if repo is None else open_repository(repo)


def known_cases(store: "Store", wanted: str) -> Sequence[str]:
    """The cases of a name or glob, a former one too; `name` alone also means each `name[param=value]`."""
    return store.cases(wanted) or store.cases(f"{wanted}[*]")


def find_cases(store: "Store", wanted: str) -> Sequence[str]:
    """The same; that there are none is an error."""
    found = known_cases(store, wanted)
    if found:
        return found
    names = store.cases()
    hint = did_you_mean(wanted, names, "'paceline history list' shows those there are", most=3)
    raise HistoryError(f"no case {wanted!r} in {store.database.target}; {hint}")


def time_of(text: str) -> str:
    """A time as it is, or as many days, weeks, months or years ago."""
    age = _AGE.fullmatch(text)
    if age is None:
        return text
    try:
        return (datetime.now(UTC) - timedelta(days=int(age[1]) * _DAYS[age[2]])).isoformat()
    except OverflowError:
        raise HistoryError(f"{text!r} is longer ago than there are dates") from None


def moment_of(since: str | None) -> str:
    """The time of --since as the history stores times; empty without one."""
    from paceline.history.store.entries import utc

    if since is None:
        return ""
    found = utc(time_of(since))
    if not found:
        raise HistoryError(f"{since!r} is no time: write it like 2026-11-16, or 7d for a week ago")
    return found


def share_of(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """What an option like --above says: a share such as 5%, or 0.05."""
    if text is None:
        return None
    found = _PERCENT.fullmatch(text)
    try:
        share = float(found[1]) / 100 if found else float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise click.BadParameter(f"{text!r} is not a share: write it like 5%")
    return share
