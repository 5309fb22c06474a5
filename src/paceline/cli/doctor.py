"""`paceline doctor`: what is installed, whether results can be kept, and how far numbers from here can be trusted."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from paceline.cli.history.db import db_option, find_database, json_option
from paceline.cli.inputs import DEFAULT_CONFIG
from paceline.cli.output import write
from paceline.cli.stored import find_results_place, results_dir_option
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from paceline.doctor.examine import Subject
    from paceline.doctor.places import Place
    from paceline.doctor.remarks import Remark

EPILOG = """\b
Examples:
  paceline doctor                        look at everything; takes some three seconds
  paceline doctor --quick                without the measurement of noise
  paceline doctor --results-dir /data/results --db postgresql://bench@db/history
  paceline doctor --json | python -m json.tool

\b
Levels: ok; note, worth knowing; warn, numbers get worse or a feature will not work;
fail, Paceline cannot do its work here. Behind → is what to do. Exit code 0: usable; 1: something fails.
"""

_Found = TypeVar("_Found")


@click.command("doctor", epilog=EPILOG)
@results_dir_option
@db_option
@click.option("--quick", is_flag=True, help="Leave out the measurement of noise, which takes two seconds.")
@json_option
def command(results_dir: Path | str | None, db: str | None, quick: bool, as_json: bool) -> int:
    """Look at the installation, the places of results and history, and the machine; nothing is changed.

    Run it from the directory of your suite: results and history are looked up as 'paceline run' would.
    """
    from paceline.doctor.examine import examine

    diagnosis = examine(_subject(results_dir, db), measures=not quick)
    if as_json:
        write(json.dumps(diagnosis.to_json(), indent=2) + "\n")
    else:
        from paceline.cli.doctor_text import print_diagnosis

        print_diagnosis(diagnosis)
    return 0 if diagnosis.usable else 1


def _subject(results_dir: Path | str | None, db: str | None) -> "Subject":
    from paceline.doctor.examine import Subject

    faults: list[Remark] = []
    results = _attempt(lambda: find_results_place(results_dir), faults)
    database = _attempt(lambda: find_database(db), faults)
    return Subject(
        places=tuple(_places(results, database)), database=database, faults=tuple(dict.fromkeys(faults))
    )


def _attempt(find: "Callable[[], _Found]", faults: "list[Remark]") -> _Found | None:
    """What is found; a suite with mistakes is a fault among others, since the rest can still be looked at."""
    from paceline.doctor.remarks import remark

    try:
        return find()
    except PacelineError as error:
        from paceline.cli.inputs import masked

        first = str(masked(error)).splitlines()[0]
        meaning = "the suite here has mistakes, so it is not known where its results and history are"
        faults.append(remark(DEFAULT_CONFIG, "fail", first, meaning, "paceline plan"))
        return None


def _places(results: Path | str | None, database: str | None) -> "list[Place]":
    """The directories that the commands write to."""
    from paceline.doctor.places import Place
    from paceline.experiments.builds.cache import default_cache_dir
    from paceline.history.urls import parse_target

    found = []
    if results is not None:
        found.append(Place(name="results", where=results, fix="paceline run --results-dir DIR"))
    try:
        file = parse_target(database).path if database else None
    except PacelineError:
        file = None  # said of the history itself
    if file is not None:
        fix = "paceline run --db FILE, or export PACELINE_DB=FILE"
        found.append(Place(name="history", where=file.parent, fix=fix, for_sqlite=True))
    fix = "export PACELINE_CACHE=DIR"
    return [*found, Place(name="cache", where=default_cache_dir(), fix=fix)]
