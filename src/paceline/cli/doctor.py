"""`paceline doctor`: what is installed, whether results can be kept, and how far numbers from here can be trusted."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import click

from paceline.cli.database import db_option, find_database, json_option
from paceline.cli.inputs import DEFAULT_CONFIG
from paceline.cli.output import error_text, is_terminal, wants_colour, write_json, write_lines
from paceline.cli.stored import find_results_place, results_dir_option
from paceline.errors import PacelineError
from paceline.numbers import count
from paceline.report.format import display_width, visible
from paceline.report.table import Column, screen_of, table

if TYPE_CHECKING:
    from paceline.doctor.examine import Diagnosis, Subject
    from paceline.doctor.machine import Level, Remark
    from paceline.doctor.places import Place
    from paceline.findings.sides import Side, Sides

EPILOG = """\b
Examples:
  paceline doctor                        look at everything; takes some three seconds
  paceline doctor --quick                without the measurement of noise
  paceline doctor --results-dir /data/results --db nightly.db
  paceline doctor --json | python -m json.tool
  paceline doctor --gate                 make the newest session worse in a copy: do the gates turn red?
  paceline doctor --gate monday          the same with another session

\b
Levels: ok; note, worth knowing; warn, numbers get worse or a feature will not work;
fail, Paceline cannot do its work here. Behind → is what to do. Exit code 0: usable; 1: something fails.
With --gate, 0: every gate turned red, as it must; 1: one stayed green.
"""

TITLES = {
    "installed": "Installed",
    "tools": "Tools",
    "places": "Places",
    "history": "History",
    "ray": "Ray",
    "gpus": "GPUs",
    "limits": "Limits",
    "machine": "Machine",
    "noise": "Noise",
}
_COLOURS: "dict[Level, str]" = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "red"}
_MARGIN = 8  # two blanks, the level, two blanks
_NARROWEST = 40
_WIDEST = 120
_NOUNS: "dict[Level, str]" = {"fail": "failure", "warn": "warning", "note": "note"}

_Found = TypeVar("_Found")


@click.command("doctor", epilog=EPILOG)
@results_dir_option
@db_option
@click.option("--quick", is_flag=True, help="Leave out the measurement of noise, which takes two seconds.")
@click.option(
    "--gate",
    metavar="[SESSION]",
    is_flag=False,
    flag_value="last",
    help="Try the gates instead: the numbers of a session (the newest) 10 % worse, in a copy.",
)
@json_option
def command(
    results_dir: Path | str | None, db: str | None, quick: bool, gate: str | None, as_json: bool
) -> int:
    """Look at the installation, the places of results and history, and the machine; nothing is changed.

    Run it from the directory of your suite: results and history are looked up as 'paceline run' would.
    """
    if gate is not None:
        return _try_gates(gate, results_dir, db, as_json)
    from paceline.doctor.examine import examine

    diagnosis = examine(_subject(results_dir, db), measures=not quick)
    if as_json:
        write_json(diagnosis.to_json())
    else:
        width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns)) if is_terminal() else None
        write_lines(lines_of(diagnosis, colour=wants_colour(), width=width))
    return 0 if diagnosis.usable else 1


def _try_gates(session: str, results_dir: Path | str | None, db: str | None, as_json: bool) -> int:
    """Each gate with what it did; exit 1 if one stayed green."""
    from paceline.cli.compare import find_sides
    from paceline.doctor.gate import check_gates

    with ExitStack() as stack:
        sides, store = find_sides(stack, db, None, results_dir)
        delayed = partial(_run_delayed, sides, Path(stack.enter_context(TemporaryDirectory())))
        suite = delayed if Path(DEFAULT_CONFIG).is_file() else None
        gates = check_gates(sides.find(session), store, suite)
    if as_json:
        write_json([{"gate": one.name, "red": one.is_red, "text": one.text} for one in gates])
    else:
        words = {True: "red", False: "green", None: "not tried"}
        write_lines(
            table(
                ["", "", Column(least=20, cut="end")],
                [(one.name, words[one.is_red], one.text) for one in gates],
                screen_of(sys.stdout),
            )
        )
    return 1 if any(one.is_red is False for one in gates) else 0


def _run_delayed(sides: "Sides", directory: Path, case: str, seconds: float) -> "Side":
    """A real run of a case of the suite here that takes so much longer; kept nowhere."""
    from paceline.run.context import SilentListener
    from paceline.session.request import Request
    from paceline.session.session import run

    request = Request(
        configs=(Path(DEFAULT_CONFIG),),
        sinks=("none",),
        results_dir=directory,
        session_name="delayed",
        only=(case,),
        history=False,
        delay_s=seconds,
    )
    run(request, SilentListener())
    return sides.find(f"{directory}/delayed")


def _subject(results_dir: Path | str | None, db: str | None) -> "Subject":
    from paceline.doctor.examine import Subject

    faults: list[Remark] = []
    results = _attempt(lambda: find_results_place(results_dir), faults)
    database = _attempt(lambda: find_database(db, results_dir), faults)
    return Subject(
        places=tuple(_places(results, database)), database=database, faults=tuple(dict.fromkeys(faults))
    )


def _attempt(find: Callable[[], _Found], faults: "list[Remark]") -> _Found | None:
    """What is found; a suite with mistakes is a fault among others, since the rest can still be looked at."""
    from paceline.doctor.machine import remark

    try:
        return find()
    except PacelineError as error:
        first = error_text(error).splitlines()[0]
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


def lines_of(diagnosis: "Diagnosis", *, colour: bool = False, width: int | None = None) -> Iterator[str]:
    """The sections, then the sum; no line is folded without a width."""
    for section, remarks in diagnosis.sections.items():
        yield click.style(TITLES[section], bold=True) if colour else TITLES[section]
        names = max(display_width(one.name) for one in remarks)
        for one in remarks:
            yield from _remark_lines(one, names, colour=colour, width=width)
        yield ""
    yield _summary(diagnosis, colour=colour)


def _remark_lines(one: "Remark", names: int, *, colour: bool, width: int | None) -> Iterator[str]:
    text = visible(f"{one.value}: {one.meaning}" if one.level != "ok" else one.value)
    level = f"{one.level:<4}"
    head = f"  {click.style(level, fg=_COLOURS[one.level]) if colour else level}  "
    indent = " " * (_MARGIN + names + 2)
    room = None if width is None else max(width - len(indent), 20)
    first, *rest = textwrap.wrap(text, room, break_long_words=False) if room else [text]
    yield f"{head}{visible(one.name):<{names}}  {first}"
    yield from (f"{indent}{line}" for line in rest)
    if one.fix:
        # Never folded: it is there to be copied.
        fix = f"→ {visible(one.fix)}"
        yield f"{indent}{click.style(fix, dim=True) if colour else fix}"


def _summary(diagnosis: "Diagnosis", *, colour: bool) -> str:
    counts = diagnosis.counts
    parts = ", ".join(count(counts[level], noun) for level, noun in _NOUNS.items() if counts[level])
    verdict = "usable" if diagnosis.usable else "not usable as it is"
    text = click.style(verdict, fg="green" if diagnosis.usable else "red", bold=True) if colour else verdict
    return f"{text}: {parts or 'nothing to remark'}"
