"""What a bisection found: as data, as lines for a terminal, as Markdown, and as a page that stands alone."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from paceline.experiments.builds.build import Candidate
from paceline.experiments.explain.explanation import (
    Explanation,
    explanation_html,
    explanation_json,
    explanation_lines,
    explanation_markdown,
)
from paceline.experiments.page import CLOSE_PAGE, in_html, open_page
from paceline.finding import Stage
from paceline.judge import Comparison
from paceline.model import Direction
from paceline.numbers import chance, duration, interval
from paceline.report.format import quantity, unit_beside, visible
from paceline.report.markdown import escape
from paceline.report.table import Cell, Column, Meaning, Screen, table

Ending = Literal["found", "not_reproduced", "reversed", "unmeasurable", "unsure"]

SCHEMA = 1
GOOD = -1
"""The index of the good end, which lies before the first candidate."""

_WIDTH, _HEIGHT = 860, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 14, 54
_LIKELY_HEIGHT = 36
_TICKS = 4
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c2024; background: #fff; }
h1 { font-size: 1.4rem; } table { border-collapse: collapse; } pre { overflow-x: auto; }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid #e3e6ea; }
tr.culprit td { font-weight: 600; } .message { font-size: 1.1rem; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: #5b636d; }
.grid { stroke: #e3e6ea; } .level { stroke: #5b636d; stroke-width: 2; stroke-dasharray: 5 3; }
svg .culprit { stroke: #c62a2f; stroke-width: 2; } .likely { fill: #e5989b; }
circle.good { fill: #2b78c5; } circle.bad { fill: #c62a2f; } svg text.unbuildable { fill: #a15c00; font-size: 14px; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8eb; background: #16181b; } td, th { border-color: #33383e; } .grid { stroke: #33383e; }
  svg text { fill: #a0a8b0; } circle.good { fill: #6cb2f5; } circle.bad, .likely { fill: #f07178; }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is searched: which step from `good` on made the metric of the case worse (or better, if `improved`).

    `known` are those that are known to have done so to another metric or case.
    """

    case: str
    metric: str
    good: Candidate
    candidates: tuple[Candidate, ...]
    unit: str | None = None
    direction: Direction | None = None
    improved: bool = False
    known: frozenset[str] = frozenset()

    @property
    def bad(self) -> Candidate:
        return self.candidates[-1]

    def at(self, index: int) -> Candidate:
        return self.good if index == GOOD else self.candidates[index]

    def shown(self, value: float | None) -> str:
        """A value of the metric with its unit."""
        return "" if value is None else quantity(value, unit_beside(self.metric, self.unit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A candidate that was tried: its values, or why it has none. The good end has the index -1."""

    index: int
    candidate: Candidate
    values: tuple[float, ...] = ()
    reason: str = ""

    @property
    def mean(self) -> float | None:
        return sum(self.values) / len(self.values) if self.values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionResult(Question):
    """What there is to say about a question; `difference` is that of bad to good.

    `suspects` are the candidates that cannot be told from the culprit because what lies between cannot be built;
    `confidence` is that of the culprit alone, `suspects_confidence` that of all of them together.
    """

    ending: Ending
    message: str = ""
    tested: tuple[Tried, ...] = ()
    culprit: int | None = None
    confidence: float = 0.0
    suspects: tuple[int, ...] = ()
    suspects_confidence: float = 0.0
    posterior: tuple[float, ...] = ()
    runs: int = 0
    took_s: float = 0.0
    difference: Comparison | None = None
    diff_stat: str = ""
    explained: Explanation | None = None
    reproduce: str = ""
    notes: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)

    @property
    def named(self) -> Candidate | None:
        """The culprit, if one was found."""
        return None if self.culprit is None else self.candidates[self.culprit]

    @property
    def exit_code(self) -> int:
        return 0 if self.ending == "found" else 1

    def chance(self, index: int) -> float | None:
        """How likely a candidate is the culprit; None if that is not known."""
        return self.posterior[index] if 0 <= index < len(self.posterior) else None


def bisection_data(result: BisectionResult) -> dict[str, Any]:
    """What `bisect.json` holds."""
    named, difference = result.named, result.difference
    measures = ("ratio", "low", "high", "minimum_detectable")
    return {
        "schema": SCHEMA,
        "culprit": named.ident if named else None,
        "confidence": round(result.confidence, 6) if named else None,
        "runs": result.runs,
        "tested": [_tested_data(result, one) for one in result.tested],
        "ending": result.ending,
        "message": result.message,
        "case": result.case,
        "metric": result.metric,
        "unit": result.unit,
        "direction": result.direction,
        "kind": named.kind if named else None,
        "subject": named.title if named else None,
        "suspects": [result.candidates[index].ident for index in result.suspects],
        "suspects_confidence": round(result.suspects_confidence, 6) if named else None,
        "good": result.good.ident,
        "bad": result.bad.ident,
        "candidates": len(result.candidates),
        "difference": {name: getattr(difference, name) for name in measures} if difference else None,
        "diff_stat": result.diff_stat,
        "explained": explanation_json(result.explained) if result.explained else None,
        "reproduce": result.reproduce or None,
        "took_s": round(result.took_s, 3),
        "notes": list(result.notes),
        **result.origin,
    }


def outcome_of(data: Mapping[str, Any], out: Path) -> tuple[Stage | None, dict[str, Any] | None]:
    """How far a bisection (as `bisect.json` has it) brought a finding, and the culprit that it found.

    None for the stage where it says nothing.
    """
    ending = data.get("ending")
    if ending in ("not_reproduced", "reversed"):
        return "not_reproduced", None
    if ending != "found":
        return ("confirmed", None) if ending == "unsure" and data.get("culprit") else (None, None)
    return "bisected", culprit_of(data, out)


def culprit_of(data: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """The culprit that a bisection (as `bisect.json` has it) found."""
    name = "revision" if data.get("kind") == "commit" else "name"
    facts = {fact: data.get(fact) for fact in ("kind", "subject", "runs")}
    sure = {"probability": data.get("confidence"), "bisection": str(out)}
    return {**facts, name: data["culprit"], **sure}


def _tested_data(result: BisectionResult, tested: Tried) -> dict[str, Any]:
    likely = result.chance(tested.index)
    return {
        "index": tested.index,
        "revision": tested.candidate.ident,
        "title": tested.candidate.title,
        "values": list(tested.values),
        "mean": tested.mean,
        "reason": tested.reason,
        "probability": None if likely is None else round(likely, 6),
    }


def difference_text(difference: Comparison) -> str:
    """How much worse, with its interval: `+15.3 % (+10.1 % to +20.7 %)`."""
    return interval(difference.ratio - 1, difference.low - 1, difference.high - 1)


def bisection_lines(result: BisectionResult, screen: Screen) -> Iterator[str]:
    """The end of a bisection on a terminal."""
    yield screen.paint(result.message, "doubt" if result.exit_code else "bold")
    if len(result.suspects) > 1:
        names = ", ".join(result.candidates[index].label for index in result.suspects)
        yield f"  one of {names}: what lies between them could not be measured"
    yield from (f"  {visible(line)}" for line in result.diff_stat.splitlines())
    if result.explained:
        yield from explanation_lines(result.explained)
    if result.reproduce:
        yield visible(f"again: {result.reproduce}")
    yield from (f"note: {visible(note)}" for note in result.notes)
    yield ""
    columns = [Column(title=one, least=16 if one == "candidate" else None) for one in _headers(result)]
    meanings: list[Meaning] = ["bad" if row[0] else "" for row in _rows(result)]
    rows = [
        [Cell(text, meaning) for text in row] for row, meaning in zip(_rows(result), meanings, strict=True)
    ]
    yield from table([*columns[:-1], Column(least=12, cut="end")], rows, screen)


def bisection_markdown(result: BisectionResult) -> str:
    """What `bisect.md` holds."""
    return "\n".join(_markdown_lines(result)) + "\n"


def _markdown_lines(result: BisectionResult) -> Iterator[str]:
    yield from (f"# Bisection of {escape(result.metric)} of {escape(result.case)}", "", result.message, "")
    named = result.named
    if named:
        yield f"- {named.kind}: `{named.ident}` {escape(named.title)}".rstrip()
    if len(result.suspects) > 1:
        suspects = ", ".join(f"`{result.candidates[index].label}`" for index in result.suspects)
        yield f"- cannot be told apart: {suspects} ({chance(result.suspects_confidence)} together)"
    yield from (f"- {name}: {escape(text)}" for name, text in _facts(result))
    yield from (f"- note: {escape(note)}" for note in result.notes)
    if result.diff_stat:
        yield from ("", "```text", *map(visible, result.diff_stat.splitlines()), "```")
    if result.explained:
        yield from explanation_markdown(result.explained)
    if result.reproduce:
        yield from ("", "```sh", visible(result.reproduce), "```")
    yield from ("", "| | candidate | runs | value | likely | |", "|---|---|---:|---:|---:|---|")
    for row in _rows(result):
        yield "| " + " | ".join(escape(cell) for cell in row) + " |"


def _facts(result: BisectionResult) -> Iterator[tuple[str, str]]:
    if result.difference:
        yield "difference of bad to good", difference_text(result.difference)
    yield "good", f"{result.good.label} {result.good.title}".strip()
    yield "bad", f"{result.bad.label} {result.bad.title}".strip()
    yield "candidates", str(len(result.candidates))
    yield "runs", f"{result.runs} in {duration(result.took_s)}"


def _headers(result: BisectionResult) -> tuple[str, ...]:
    return "", "candidate", "runs", result.metric, "likely", ""


def _rows(result: BisectionResult) -> Iterator[tuple[str, ...]]:
    """What was tried, from good to bad."""
    for tested in result.tested:
        likely = result.chance(tested.index)
        mark = "→" if result.culprit is not None and tested.index == result.culprit else ""
        value = result.shown(tested.mean) if tested.values else "none"
        share = "" if likely is None else chance(likely)
        name = "good" if tested.index < 0 else ""
        why = "" if tested.values else tested.reason
        words = "; ".join(filter(None, (name, tested.candidate.title, why)))
        yield mark, tested.candidate.label, str(len(tested.values)), value, share, visible(words)


def bisection_page(result: BisectionResult) -> str:
    """What `bisect.html` holds: one file that loads nothing."""
    return "".join(f"{line}\n" for line in _page_lines(result))


def _page_lines(result: BisectionResult) -> Iterator[str]:
    title = in_html(f"Bisection of {result.metric} of {result.case}")
    yield open_page(title, _STYLE)
    yield f'<h1>{title}</h1><p class="message">{in_html(result.message)}</p>'
    named = result.named
    if named:
        yield f"<p>{in_html(named.kind)} <code>{in_html(named.ident)}</code> {in_html(named.title)}</p>"
    yield draw_curve(result)
    yield "<p>Points are single runs; bars below them say how likely each candidate is the culprit.</p>"
    if result.diff_stat:
        lines = "\n".join(map(in_html, result.diff_stat.splitlines()))
        yield f"<pre>{lines}</pre>"
    if result.explained:
        yield from explanation_html(result.explained)
    if result.reproduce:
        yield f"<h2>Again</h2><pre>{in_html(result.reproduce)}</pre>"
    cells = "".join(f"<th>{in_html(head)}</th>" for head in _headers(result))
    yield f"<table><thead><tr>{cells}</tr></thead><tbody>"
    for row in _rows(result):
        kind = ' class="culprit"' if row[0] else ""
        yield f"<tr{kind}>" + "".join(f"<td>{in_html(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table>"
    facts = [*_facts(result), *(("note", note) for note in result.notes)]
    yield "<ul>" + "".join(f"<li>{in_html(name)}: {in_html(text)}</li>" for name, text in facts) + "</ul>"
    yield CLOSE_PAGE


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
    label = in_html(f"{result.metric} of {result.case}, from {result.good.label} to {result.bad.label}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _axes(result: BisectionResult, frame: _Frame) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        value = frame.low + (frame.high - frame.low) * tick / _TICKS
        y = frame.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{in_html(result.shown(value))}</text>'
    ends = (
        (frame.x(GOOD), "start", f"good: {result.good.label}"),
        (frame.x(len(result.candidates) - 1), "end", f"bad: {result.bad.label}"),
    )
    for x, anchor, text in ends:
        yield f'<text x="{x:.1f}" y="{_HEIGHT - 4}" text-anchor="{anchor}">{in_html(text)}</text>'


def _levels(result: BisectionResult, frame: _Frame) -> Iterator[str]:
    """The mean on either side of the culprit, and the culprit's line between them."""
    if result.culprit is None:
        return
    edge = frame.x(result.culprit - 0.5)
    sides = ((frame.x(GOOD), edge, False), (edge, frame.x(len(result.candidates) - 1), True))
    for begin, end, is_bad in sides:
        tested = [one for one in result.tested if (one.index >= result.culprit) == is_bad]
        if values := [value for one in tested for value in one.values]:
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
            title = in_html(f"{result.candidates[index].label}: {chance(likely)}")
            yield (
                f'<rect class="likely" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'
                f"<title>{title}</title></rect>"
            )


def _points(result: BisectionResult, tested: Tried, frame: _Frame) -> Iterator[str]:
    x = frame.x(tested.index)
    what = in_html(f"{tested.candidate.label} {tested.candidate.title}".strip())
    if not tested.values:
        title = f"<title>{what}: {in_html(tested.reason)}</title>"
        yield f'<text class="unbuildable" x="{x:.1f}" y="{frame.base - 4}" text-anchor="middle">×{title}</text>'
    is_bad = result.culprit is not None and tested.index >= result.culprit
    for value in tested.values:
        title = f"<title>{what}: {in_html(result.shown(value))}</title>"
        kind = "bad" if is_bad else "good"
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{frame.y(value):.1f}" r="3.5">{title}</circle>'
