"""The values of an ordered search as a drawing: inline SVG that needs nothing else."""

import math
from collections.abc import Iterator, Sequence
from html import escape as escape_html

from paceline.experiments.bisect.result import BisectionResult, Tried
from paceline.report.format import visible

_WIDTH, _HEIGHT = 860, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 14, 54
_LIKELY_HEIGHT = 36
_TICKS = 4


class _Frame:
    """Where a candidate and a value lie in the drawing; the good end stands before the first candidate."""

    def __init__(self, count: int, values: Sequence[float]) -> None:
        self._count = count
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        margin = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
        self.low, self.high = low - margin, high + margin
        self.base = _HEIGHT - _BOTTOM

    def x(self, index: float) -> float:
        return _LEFT + (index + 1) / max(1, self._count) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.base - share * (self.base - _TOP)


def draw_curve(result: BisectionResult) -> str:
    """Every value by its candidate, the two levels, how likely each candidate is, and the culprit."""
    values = [value for tested in result.tested for value in tested.values]
    frame = _Frame(len(result.candidates), values)
    parts = [*_axes(result, frame), *_levels(result, frame), *_likely(result, frame)]
    for tested in result.tested:
        parts += _points(result, tested, frame)
    label = escape(f"{result.metric} of {result.case}, from {result.good.label} to {result.bad.label}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _axes(result: BisectionResult, frame: _Frame) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        value = frame.low + (frame.high - frame.low) * tick / _TICKS
        y = frame.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(result.shown(value))}</text>'
    yield from _end_label(frame.x(-1), "start", f"good: {result.good.label}")
    yield from _end_label(frame.x(len(result.candidates) - 1), "end", f"bad: {result.bad.label}")


def _end_label(x: float, anchor: str, text: str) -> Iterator[str]:
    yield f'<text x="{x:.1f}" y="{_HEIGHT - 4}" text-anchor="{anchor}">{escape(text)}</text>'


def _levels(result: BisectionResult, frame: _Frame) -> Iterator[str]:
    """The mean on either side of the culprit, and the culprit's line between them."""
    if result.culprit is None:
        return
    edge = frame.x(result.culprit - 0.5)
    sides = (
        (frame.x(-1), edge, [v for t in result.tested if t.index < result.culprit for v in t.values]),
        (
            edge,
            frame.x(len(result.candidates) - 1),
            [v for t in result.tested if t.index >= result.culprit for v in t.values],
        ),
    )
    for begin, end, values in sides:
        if values:
            y = frame.y(math.fsum(values) / len(values))
            yield f'<line class="level" x1="{begin:.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    yield f'<line class="culprit" x1="{edge:.1f}" x2="{edge:.1f}" y1="{_TOP}" y2="{frame.base}"/>'


def _likely(result: BisectionResult, frame: _Frame) -> Iterator[str]:
    """How likely each candidate is the culprit, as bars under the curve."""
    width = max(1.0, (frame.x(0) - frame.x(-1)) * 0.7)
    for index, likely in enumerate(result.posterior):
        height = likely * _LIKELY_HEIGHT
        if height >= 0.3:
            x, y = frame.x(index) - width / 2, frame.base + _LIKELY_HEIGHT - height
            title = escape(f"{result.candidates[index].label}: {likely * 100:.1f} %")
            yield (
                f'<rect class="likely" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'
                f"<title>{title}</title></rect>"
            )


def _points(result: BisectionResult, tested: Tried, frame: _Frame) -> Iterator[str]:
    x = frame.x(tested.index)
    what = escape(f"{tested.candidate.label} {tested.candidate.title}".strip())
    if not tested.values:
        title = f"<title>{what}: {escape(tested.reason)}</title>"
        yield f'<text class="unbuildable" x="{x:.1f}" y="{frame.base - 4}" text-anchor="middle">×{title}</text>'
    is_bad = result.culprit is not None and tested.index >= result.culprit
    for value in tested.values:
        title = f"<title>{what}: {escape(result.shown(value))}</title>"
        kind = "bad" if is_bad else "good"
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{frame.y(value):.1f}" r="3.5">{title}</circle>'


def escape(text: str) -> str:
    """Foreign text, safe in a page."""
    return escape_html(visible(text))
