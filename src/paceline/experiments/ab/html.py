"""An A/B test's result as one page that needs nothing else: a table, and intervals drawn beside each other."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from paceline.experiments.ab.markdown import HEADERS, describe, headline, null_line, percent, row
from paceline.experiments.ab.result import ABResult, ArmComparison, by_effect
from paceline.report.format import visible
from paceline.report.page import CLOSE_PAGE, open_page

_WIDTH, _LABEL, _ROW = 900, 380, 22
_WIDEST = math.log(8)
"""Intervals that reach further than a factor of 8 are cut off there, or they would squeeze all others."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --paper: #fff; --faint: #6b7280; --line: #d9dce1;
  --worse: #b42318; --better: #18794e; --same: #3b5b92; --inconclusive: #8a6d1a; --band: #eef1f6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #15181d; --faint: #9aa3ae; --line: #343a43;
  --worse: #ff8d80; --better: #5fd39a; --same: #93b4f0; --inconclusive: #e0be5c; --band: #20252d; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; } .wide { overflow-x: auto; }
.worse { color: var(--worse); } .better { color: var(--better); } .same { color: var(--same); }
.inconclusive { color: var(--inconclusive); } .faint, svg .axis { color: var(--faint); fill: var(--faint); }
.alarm { border-left: 4px solid var(--worse); padding-left: .8rem; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg line.zero { stroke: var(--faint); stroke-dasharray: 3 3; } svg rect.band { fill: var(--band); }
svg g.worse { stroke: var(--worse); fill: var(--worse); } svg g.better { stroke: var(--better); fill: var(--better); }
svg g.same { stroke: var(--same); fill: var(--same); }
svg g.inconclusive { stroke: var(--inconclusive); fill: var(--inconclusive); }
code { overflow-wrap: anywhere; }
"""


def page(result: ABResult) -> str:
    """The whole page; all foreign text is escaped."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: ABResult) -> Iterator[str]:
    title = escape(f"A/B test {visible(result.name)}")
    yield open_page(title, _STYLE)
    yield f"<h1>{title}</h1>"
    yield f"<p><strong>{escape(headline(result))}</strong>; {escape(result.ended or 'not over yet')}.</p>"
    if line := null_line(result):
        yield f'<p class="{"alarm" if result.null_alarms else "faint"}">{escape(line)}.</p>'
    ordered = by_effect(result.comparisons)
    yield from _chart(ordered, result.margin)
    yield from _table(ordered)
    yield (
        f'<p class="faint">With {result.level:.0%} confidence all intervals of an arm hold at once, at all looks. '
        f"<em>same</em>: any difference is smaller than {result.margin:.1%}. Seed {result.seed}.</p>"
    )
    yield from _remarks(result)
    yield from _arms(result)
    yield CLOSE_PAGE


def _table(comparisons: Sequence[ArmComparison]) -> Iterator[str]:
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f"<th>{escape(name)}</th>" for name in HEADERS) + "</tr></thead><tbody>"
    for one in comparisons:
        first, *rest = row(one)
        cells = "".join(f"<td>{escape(text)}</td>" for text in rest)
        yield f'<tr><td class="{one.verdict}">{escape(first)}</td>{cells}</tr>'
    yield "</tbody></table></div>"


def _chart(comparisons: Sequence[ArmComparison], margin: float) -> Iterator[str]:
    drawn = [one for one in comparisons if one.low is not None and one.high is not None]
    if not drawn:
        return
    reach = max(max(abs(_log(one.low)), abs(_log(one.high))) for one in drawn)
    reach = min(max(reach, math.log1p(margin) * 2), _WIDEST)
    height = _ROW * len(drawn) + 40

    def across(value: float) -> float:
        share = min(max(value / reach, -1.0), 1.0)
        return _LABEL + (_WIDTH - _LABEL) * (0.5 + 0.45 * share)

    yield f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Change against the baseline, with intervals">'
    left, right = across(-math.log1p(margin)), across(math.log1p(margin))
    yield f'<rect class="band" x="{left:.1f}" y="0" width="{right - left:.1f}" height="{height - 24}"/>'
    yield f'<line class="zero" x1="{across(0):.1f}" x2="{across(0):.1f}" y1="0" y2="{height - 24}"/>'
    for i, one in enumerate(drawn):
        yield from _interval(one, across(_log(one.low)), across(_log(one.ratio)), across(_log(one.high)), i)
    for edge in (-reach, 0.0, reach):
        label = percent(math.exp(edge), 0 if reach > 0.1 else 1) if edge else "0 %"
        yield f'<text class="axis" text-anchor="middle" x="{across(edge):.1f}" y="{height - 6}">{label}</text>'
    yield "</svg>"


def _interval(one: ArmComparison, low: float, middle: float, high: float, i: int) -> Iterator[str]:
    y = _ROW * i + 18
    label = visible(f"{one.case} · {one.metric} · {one.arm}")
    short = label if len(label) <= 58 else label[:57] + "…"
    yield f'<text x="0" y="{y}">{escape(short)}<title>{escape(label)}</title></text>'
    yield f'<g class="{one.verdict}"><line x1="{low:.1f}" x2="{high:.1f}" y1="{y - 4}" y2="{y - 4}" stroke-width="2"/>'
    yield f'<circle cx="{middle:.1f}" cy="{y - 4}" r="4"/></g>'


def _log(ratio: float | None) -> float:
    if ratio is None or not ratio > 0:
        return -_WIDEST
    return math.log(ratio) if math.isfinite(ratio) else _WIDEST


def _remarks(result: ABResult) -> Iterator[str]:
    if result.missing:
        yield "<h2>Not compared</h2><ul>"
        for one in result.missing:
            what = visible(f"{one.case} {one.metric or ''}".strip())
            yield f"<li>{escape(what)} in {escape(visible(one.arm))}: {escape(visible(one.reason))}</li>"
        yield "</ul>"
    if result.notes:
        yield (
            "<h2>Notes</h2><ul>"
            + "".join(f"<li>{escape(visible(note))}</li>" for note in result.notes)
            + "</ul>"
        )


def _arms(result: ABResult) -> Iterator[str]:
    yield "<h2>Arms</h2><ul>"
    for arm in result.arms:
        yield f"<li><strong>{escape(visible(arm.name))}</strong> ({arm.runs} runs): {escape(visible(describe(arm)))}"
        if arm.installed:
            listed = escape(visible(", ".join(arm.installed)))
            yield f"<details><summary>packages: {len(arm.installed)}</summary><code>{listed}</code></details>"
        yield "</li>"
    yield "</ul>"
