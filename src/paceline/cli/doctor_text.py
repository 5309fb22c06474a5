"""An examination as text: coloured and folded on a terminal, plain lines elsewhere."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

import click

from paceline.cli.output import write
from paceline.doctor.remarks import Diagnosis, Level, Remark
from paceline.report.format import display_width, spelled_for, visible

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
_COLOURS: dict[Level, str] = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "red"}
_MARGIN = 8  # two blanks, the level, two blanks
_NARROWEST = 40
_WIDEST = 120


def print_diagnosis(diagnosis: Diagnosis) -> None:
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    colour = (is_terminal or bool(os.environ.get("FORCE_COLOR"))) and not os.environ.get("NO_COLOR")
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns)) if is_terminal else None
    for line in lines_of(diagnosis, colour=colour, width=width):
        write(f"{spelled_for(sys.stdout.encoding, line)}\n")


def lines_of(diagnosis: Diagnosis, *, colour: bool = False, width: int | None = None) -> Iterator[str]:
    """The sections, then the sum; no line is folded without a width."""
    for section, remarks in diagnosis.sections.items():
        yield click.style(TITLES[section], bold=True) if colour else TITLES[section]
        names = max(display_width(one.name) for one in remarks)
        for one in remarks:
            yield from _remark_lines(one, names, colour=colour, width=width)
        yield ""
    yield _summary(diagnosis, colour=colour)


def _remark_lines(one: Remark, names: int, *, colour: bool, width: int | None) -> Iterator[str]:
    told = f"{one.value}: {one.meaning}" if one.level != "ok" else one.value
    level = f"{one.level:<4}"
    head = f"  {click.style(level, fg=_COLOURS[one.level]) if colour else level}  "
    indent = " " * (_MARGIN + names + 2)
    first, *rest = _folded(visible(told), None if width is None else width - len(indent))
    yield f"{head}{visible(one.name):<{names}}  {first}"
    yield from (f"{indent}{line}" for line in rest)
    if one.fix:
        # Never folded: it is there to be copied.
        fix = f"→ {visible(one.fix)}"
        yield f"{indent}{click.style(fix, dim=True) if colour else fix}"


def _folded(text: str, width: int | None) -> Sequence[str]:
    return textwrap.wrap(text, max(width, 20), break_long_words=False) if width else [text]


def _summary(diagnosis: Diagnosis, *, colour: bool) -> str:
    counts = diagnosis.counts
    told = ", ".join(_count(counts[level], noun) for level, noun in _NOUNS.items() if counts[level])
    verdict = "usable" if diagnosis.usable else "not usable as it is"
    text = click.style(verdict, fg="green" if diagnosis.usable else "red", bold=True) if colour else verdict
    return f"{text}: {told or 'nothing to remark'}"


_NOUNS: dict[Level, str] = {"fail": "failure", "warn": "warning", "note": "note"}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
