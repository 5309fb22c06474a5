"""Quality against what it costs, as a picture: points with their intervals, and the front of each model.

The picture is a list of strokes, discs and words, which are written as SVG or drawn into a PNG.
"""

import html
import io
import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from paceline.errors import MissingExtra
from paceline.evals.interfaces import EvalError
from paceline.evals.quality import ParetoPoint
from paceline.numbers import digits, duration
from paceline.report.format import visible

Against = Literal["density", "latency"]

WIDTH, HEIGHT = 900, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 30, 56, 64
_COLOURS = ("#2662be", "#c2410c", "#15803d", "#7e22ce", "#0f766e", "#a16207")
_INK, _SOFT, _GRID = "#1f2328", "#59636e", "#d8dee4"
_LOG_FROM = 30
"""How many times the largest cost is the smallest, from where on the axis is logarithmic."""
_LABEL = 90
_SOURCES = {
    "toy": "TOY ROWS: says nothing about a model",
    "generated": "GENERATED ROWS: compares with no published number",
}


class Stroke(NamedTuple):
    """A line through some places."""

    places: Sequence[tuple[float, float]]
    colour: str
    width: float = 1.5


class Disc(NamedTuple):
    """A point: filled if it is on the front, else a ring."""

    x: float
    y: float
    colour: str
    is_filled: bool


class Words(NamedTuple):
    """A text at a place; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    size: int = 13
    colour: str = _INK


Mark = Stroke | Disc | Words


def draw(points: Iterable[ParetoPoint], against: Against, form: str) -> bytes:
    """The picture in one of `svg` and `png`; points whose cost is not known are left out, and none is an error."""
    shown = [(point, cost) for point in points if (cost := _cost(point, against)) is not None]
    if not shown:
        raise EvalError(f"no attention has a known {against}: nothing to plot")
    marks = _marks(shown, against)
    return _svg(marks).encode() if form == "svg" else _png(marks)


def _cost(point: ParetoPoint, against: Against) -> float | None:
    return point.density if against == "density" else point.seconds


class _Scale:
    """Numbers → places along an axis, with some room at both ends."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, may_be_log: bool) -> None:
        low, high = min(values), max(values)
        self._is_log = may_be_log and low > 0 and high / low >= _LOG_FROM
        low, high = (math.log(low), math.log(high)) if self._is_log else (low, high)
        room = (high - low) * 0.08 or abs(high) * 0.1 or 0.5
        self._low, self._high = low - room, high + room
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        value = math.log(value) if self._is_log else value
        share = (value - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self, count: int = 5) -> list[float]:
        """Some values from end to end: round ones, or evenly many times as large."""
        if self._is_log:
            step = (self._high - self._low) / (count + 1)
            return [math.exp(self._low + step * (number + 1)) for number in range(count)]
        raw = (self._high - self._low) / count
        unit = 10 ** math.floor(math.log10(raw))
        step = next(unit * many for many in (1, 2, 5, 10) if unit * many >= raw)
        first = math.ceil(self._low / step)
        return [number * step for number in range(first, math.floor(self._high / step) + 1)]


def _marks(shown: Sequence[tuple[ParetoPoint, float]], against: Against) -> list[Mark]:
    ends = [end for point, _ in shown for end in (point.quality, point.low, point.high) if end is not None]
    across = _Scale([cost for _, cost in shown], _LEFT, WIDTH - _RIGHT, may_be_log=True)
    up = _Scale(ends, HEIGHT - _BOTTOM, _TOP, may_be_log=False)
    models = list(dict.fromkeys(point.model for point, _ in shown))
    marks = [*_axes(across, up, against), *_titles(shown, against)]
    for number, model in enumerate(models):
        colour = _COLOURS[number % len(_COLOURS)]
        own = [(point, cost) for point, cost in shown if point.model == model]
        best = sorted((cost, point.quality) for point, cost in own if _is_best(point, against))
        if len(best) > 1:
            marks.append(Stroke([(across.at(cost), up.at(quality)) for cost, quality in best], colour, 1))
        for point, cost in own:
            marks += _point(point, across.at(cost), up, colour, _is_best(point, against))
        marks.append(Words(WIDTH - _RIGHT, _TOP + 16 * number, visible(model), "end", 13, colour))
    return marks


def _is_best(point: ParetoPoint, against: Against) -> bool:
    return point.on_front if against == "density" else point.on_time_front


def _point(point: ParetoPoint, x: float, up: _Scale, colour: str, is_best: bool) -> list[Mark]:
    marks: list[Mark] = []
    if point.low is not None and point.high is not None:
        low, high = up.at(point.low), up.at(point.high)
        marks += [Stroke([(x, low), (x, high)], colour)]
        marks += [Stroke([(x - 4, end), (x + 4, end)], colour) for end in (low, high)]
    at_right = x > WIDTH - _RIGHT - _LABEL
    label = Words(x + (-9 if at_right else 9), up.at(point.quality) - 7, visible(point.attention))
    return [
        *marks,
        Disc(x, up.at(point.quality), colour, is_best),
        label._replace(anchor="end") if at_right else label,
    ]


def _axes(across: _Scale, up: _Scale, against: Against) -> list[Mark]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    marks: list[Mark] = []
    for value in up.ticks():
        y = up.at(value)
        marks += [Stroke([(_LEFT, y), (right, y)], _GRID, 1)]
        marks += [Words(_LEFT - 8, y + 4, digits(round(value, 9)), "end", 12, _SOFT)]
    for value in across.ticks():
        x = across.at(value)
        text = digits(round(value, 9)) if against == "density" else duration(value)
        marks += [Stroke([(x, bottom), (x, bottom + 5)], _SOFT, 1)]
        marks += [Words(x, bottom + 20, text, "middle", 12, _SOFT)]
    marks.append(Stroke([(_LEFT, _TOP), (_LEFT, bottom), (right, bottom)], _SOFT, 1))
    name = "density (share of keys looked at)" if against == "density" else "time of generating, a sample"
    marks.append(Words((_LEFT + right) / 2, bottom + 42, name, "middle", 13, _SOFT))
    return marks


def _titles(shown: Sequence[tuple[ParetoPoint, float]], against: Against) -> list[Mark]:
    """What is drawn, with what its rows are where they are not the benchmarks' own."""
    said = [_SOURCES[kind] for kind in sorted({point.source for point, _ in shown} - {"real"})]
    title = " · ".join((f"Quality against {against}", *said))
    has_interval = any(point.low is not None for point, _ in shown)
    bars = "bars are 95 % intervals (samples drawn anew within each subset); " if has_interval else ""
    note = f"mean place of scores in their range, 1 is best; {bars}filled: beaten by none of its model"
    return [Words(_LEFT, 22, title, "start", 16), Words(_LEFT, 40, note, "start", 11, _SOFT)]


def _svg(marks: Iterable[Mark]) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for mark in marks:
        if isinstance(mark, Stroke):
            places = " ".join(f"{x:.1f},{y:.1f}" for x, y in mark.places)
            style = f'fill="none" stroke="{mark.colour}" stroke-width="{mark.width}"'
            lines.append(f'<polyline points="{places}" {style}/>')
        elif isinstance(mark, Disc):
            fill = mark.colour if mark.is_filled else "#ffffff"
            place, style = (
                f'cx="{mark.x:.1f}" cy="{mark.y:.1f}" r="5"',
                f'stroke="{mark.colour}" stroke-width="2"',
            )
            lines.append(f'<circle {place} fill="{fill}" {style}/>')
        else:
            place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" text-anchor="{mark.anchor}"'
            text = html.escape(mark.text)
            lines.append(f'<text {place} font-size="{mark.size}" fill="{mark.colour}">{text}</text>')
    return "\n".join([*lines, "</svg>", ""])


_SCALE = 2
"""Dots of the PNG for one of the drawing, for screens and paper."""
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def _png(marks: Iterable[Mark]) -> bytes:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise MissingExtra("a plot as PNG (--output FILE.svg needs nothing)", "evals") from error
    image = Image.new("RGB", (WIDTH * _SCALE, HEIGHT * _SCALE), "#ffffff")
    pen = ImageDraw.Draw(image)
    for mark in marks:
        if isinstance(mark, Stroke):
            places = [(x * _SCALE, y * _SCALE) for x, y in mark.places]
            pen.line(places, fill=mark.colour, width=round(mark.width * _SCALE))
        elif isinstance(mark, Disc):
            centre = (mark.x * _SCALE, mark.y * _SCALE)
            fill = mark.colour if mark.is_filled else "#ffffff"
            pen.circle(centre, 5 * _SCALE, fill=fill, outline=mark.colour, width=2 * _SCALE)
        else:
            font = ImageFont.load_default(mark.size * _SCALE)
            place = (mark.x * _SCALE, mark.y * _SCALE)
            pen.text(place, mark.text, fill=mark.colour, font=font, anchor=_ANCHORS[mark.anchor])
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
