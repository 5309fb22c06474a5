"""Rows under titles, fitted to the screen they are shown on: the one table of all commands.

Rich could draw it, but it cannot shorten a name in its middle, where names of cases say least, and to import it takes
as long as a command takes to start.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shutil import get_terminal_size
from typing import Literal, NamedTuple, TextIO

from paceline.report.format import display_width

Meaning = Literal["", "good", "bad", "doubt", "dim", "bold"]
_CODES: Mapping[Meaning, str] = {"good": "32", "bad": "31", "doubt": "33", "dim": "2", "bold": "1"}
_GAP = "  "
_CUT = "…"
_HANGING = "    "
_TAILS = (0.7, 0.5, 0.9, 0.6, 0.8, 0.4, 0.3, 0.2)
"""What the end of a name gets of its room: parameters stand there, in which the cases of an entry differ."""
_MOST_TOLD_APART = 300
_ESCAPE = re.compile(r"\x1b\[\d+m")
_WORD = re.compile(r"\s*\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What lines are made for; a pipe or a file has no width, and is given whole names."""

    width: int | None = None
    height: int | None = None
    colour: bool = False

    def paint(self, text: str, meaning: Meaning) -> str:
        """The text in the colour of what it means."""
        return f"\x1b[{_CODES[meaning]}m{text}\x1b[0m" if self.colour and meaning and text else text


def screen_of(stream: TextIO, environ: Mapping[str, str] | None = None) -> Screen:
    """What a stream shows lines on."""
    variables = os.environ if environ is None else environ
    is_terminal = stream.isatty() and variables.get("TERM", "dumb") not in {"", "dumb"}
    colour = (is_terminal or bool(variables.get("FORCE_COLOR"))) and not variables.get("NO_COLOR")
    if not stream.isatty():
        return Screen(colour=colour)
    size = get_terminal_size((80, 24))
    return Screen(width=size.columns, height=size.lines, colour=colour)


class Cell(NamedTuple):
    """A text and what it means."""

    text: str
    meaning: Meaning = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """How a column gives way where there is no room for all: down to `least` columns of the screen, if it may.

    Those with the highest `leaves` are left out first; 0 stays in any case. One of `weight` 2 keeps twice the room of
    one of weight 1.
    """

    title: str = ""
    right: bool = False
    least: int | None = None
    weight: int = 1
    cut: Literal["middle", "end"] = "middle"
    leaves: int = 0


class Layout:
    """The columns of a table as they fit a screen; rows may come one by one."""

    def __init__(
        self, columns: Sequence[Column | str], rows: Iterable[Sequence[Cell | str]], screen: Screen
    ) -> None:
        self._columns = [Column(title=one) if isinstance(one, str) else one for one in columns]
        self._screen = screen
        known = [_cells(row) for row in rows]
        texts = [
            {row[place].text for row in known if place < len(row)} for place in range(len(self._columns))
        ]
        if screen.width is not None:
            most = screen.width * 3 // 5
            self._columns = [
                replace(one, least=_told_apart(texts[place], one.least, most))
                if one.cut == "middle" and one.least
                else one
                for place, one in enumerate(self._columns)
            ]
        self._widths = fit(self._columns, known, screen.width)
        self._tails = {
            place: _best_tail(texts[place], width) if self._columns[place].cut == "middle" else 0.0
            for place, width in self._widths
        }

    @property
    def title(self) -> str:
        """The line of titles; empty if there are none."""
        shown = any(self._columns[place].title for place, _ in self._widths)
        return self.line([Cell(one.title, "dim") for one in self._columns]) if shown else ""

    def line(self, row: Sequence[Cell | str]) -> str:
        """A row, each cell in its column; what stands behind the last column that it has is not padded."""
        cells, parts = _cells(row), []
        for place, width in self._widths:
            if place < len(cells):
                text = shorten(cells[place].text, width, self._tails[place])
                room = " " * (width - display_width(text))
                painted = self._screen.paint(text, cells[place].meaning)
                parts.append(room + painted if self._columns[place].right else painted + room)
        return _GAP.join(parts).rstrip()

    def line_with(self, row: Sequence[Cell | str], rest: Cell) -> str | None:
        """The first cells of a row, and then a text over all that is left of the line; None if it does not fit."""
        head = self.line([*row])
        taken = sum(width + len(_GAP) for place, width in self._widths if place < len(row))
        if self._screen.width is not None and taken + display_width(rest.text) > self._screen.width:
            return None
        bare = sum(map(display_width, _ESCAPE.split(head)))
        return f"{head}{' ' * (taken - bare)}{self._screen.paint(rest.text, rest.meaning)}"


def _best_tail(texts: Collection[str], width: int) -> float:
    """How much of the room the end of a text gets, so that what differs still does."""
    long = [text for text in texts if display_width(text) > width]
    if not long or len(long) > _MOST_TOLD_APART:
        return _TAILS[0]
    return max(_TAILS, key=lambda tail: len({shorten(text, width, tail) for text in long}))


def _told_apart(texts: Collection[str], least: int, most: int) -> int:
    """The room that these take at least, so that no two look the same; at most so much."""
    if len(texts) > _MOST_TOLD_APART or max(map(len, texts), default=0) <= least:
        return least
    for width in range(least, most, 2):
        tail = _best_tail(texts, width)
        if len({shorten(text, width, tail) for text in texts}) == len(texts):
            return width
    return max(least, most)


def _cells(row: Sequence[Cell | str]) -> list[Cell]:
    return [Cell(one) if isinstance(one, str) else one for one in row]


def table(
    columns: Sequence[Column | str], rows: Iterable[Sequence[Cell | str]], screen: Screen
) -> Iterator[str]:
    """The lines of a table; titles first, if there are any."""
    known = [_cells(row) for row in rows]
    layout = Layout(columns, known, screen)
    yield from filter(None, [layout.title])
    yield from map(layout.line, known)


def fit(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int | None
) -> list[tuple[int, int]]:
    """Which columns are shown, by their places, and how wide each is."""
    natural = [
        max(map(display_width, (column.title, *(row[place].text for row in rows))), default=0)
        for place, column in enumerate(columns)
    ]
    # A column with nothing in it takes no room.
    shown = [place for place in range(len(columns)) if natural[place]]
    widths = {place: natural[place] for place in shown}
    if width is None:
        return list(widths.items())
    while shown:
        over = sum(widths[place] for place in shown) + len(_GAP) * (len(shown) - 1) - width
        if over <= 0:
            break
        room = {place: widths[place] - least for place in shown if (least := columns[place].least)}
        spare = {place: left for place, left in room.items() if left > 0}
        if sum(spare.values()) >= over:
            _shrink(widths, spare, over, columns)
            break
        leaving = max(shown, key=lambda place: (columns[place].leaves, place))
        if not columns[leaving].leaves:
            _shrink(widths, spare, sum(spare.values()), columns)
            break
        shown.remove(leaving)
    return [(place, widths[place]) for place in shown]


def _shrink(widths: dict[int, int], spare: dict[int, int], over: int, columns: Sequence[Column]) -> None:
    """Take so much from those that have most for their weight, until they are alike."""
    while over > 0:
        widest = max(spare, key=lambda place: (spare[place] > 0, widths[place] / columns[place].weight))
        taken = min(spare[widest], over, max(1, over // (2 * len(spare))))
        widths[widest] -= taken
        spare[widest] -= taken
        over -= taken


def shorten(text: str, width: int, tail: float = 0.5) -> str:
    """The text in so many columns of a screen, with a mark where something was left out; its end gets this share."""
    if display_width(text) <= width:
        return text
    if width < 2:
        return _CUT[:width]
    end = round((width - 1) * tail)
    return f"{_head(text, width - 1 - end)}{_CUT}{_head(text[::-1], end)[::-1]}"


def wrapped(line: str, screen: Screen) -> list[str]:
    """A line of text over several, broken between words where the screen is too narrow; a word is never cut."""
    bare = _ESCAPE.sub("", line)
    if screen.width is None or display_width(bare) <= screen.width:
        return [line]
    codes = _ESCAPE.findall(line)
    before, after = (codes[0], codes[-1]) if codes and line.startswith(codes[0]) else ("", "")
    indent = " " * (len(bare) - len(bare.lstrip()))
    found = [""]
    for word in _WORD.findall(bare):
        if found[-1].strip() and display_width(found[-1]) + display_width(word) > screen.width:
            found.append(f"{indent}{_HANGING}{word.lstrip()}")
        else:
            found[-1] += word
    return [f"{before}{one}{after}" for one in found]


def _head(text: str, width: int) -> str:
    """As much of the beginning as fits."""
    taken = 0
    for place, char in enumerate(text):
        taken += display_width(char)
        if taken > width:
            return text[:place]
    return text
