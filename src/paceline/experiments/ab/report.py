"""What an A/B test found: as data, as lines for a terminal, as Markdown, and as a page that stands alone."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from paceline.experiments.page import CLOSE_PAGE, in_html, open_page
from paceline.metrics import is_steady
from paceline.model import Direction, Verdict
from paceline.numbers import change, count, duration, percent, range_of
from paceline.report.format import quantity, visible
from paceline.report.markdown import escape
from paceline.report.table import Cell, Column, Meaning, Screen, table

SCHEMA = 1
HEADERS = ("verdict", "case", "metric", "arm", "change", "95 % interval", "baseline", "arm's value", "blocks")
_LEAST = {"case": 20, "metric": 8, "arm": 6}
_MEANINGS: Mapping[str, Meaning] = {"worse": "bad", "better": "good"}
_COLOURED = (HEADERS.index("verdict"), HEADERS.index("change"))
_LEAVES = {"95 % interval": 1, "arm's value": 2, "baseline": 3, "blocks": 4}
_NOTHING = 10.0
"""A change that would have to be this large to be seen is not worth a word."""
ORDER: Mapping[str, int] = {"worse": 0, "better": 1, "inconclusive": 2, "same": 3}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmInfo:
    """An arm as it was in fact; `facts` are what sets it apart, `installed` the packages of its own environment."""

    name: str
    null: bool = False
    baseline: bool = False
    runs: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    installed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmComparison:
    """One metric of one case in one arm, against the baseline; `blocks` is how many pairs of runs it rests on.

    The fields are those of `ab.json`; `baseline` and `candidate` are the medians of both sides.
    """

    case: str
    metric: str
    arm: str
    null: bool
    verdict: Verdict
    ratio: float | None
    low: float | None
    high: float | None
    minimum_detectable: float | None
    blocks: int
    unit: str | None = None
    direction: Direction = "lower"
    baseline: float | None = None
    candidate: float | None = None
    reason: str = ""
    """Why nothing can be said, where it is not for want of blocks: one side was disturbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What could not be compared, and why."""

    arm: str
    case: str
    reason: str
    metric: str | None = None
    is_new: bool = False
    """Whether a case that passes in the baseline fails."""

    @property
    def what(self) -> str:
        return f"{self.case} {self.metric or ''}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ABResult:
    """What an A/B test found; `ended` says why it stopped, and is empty while it has not."""

    name: str
    seed: int
    runs: int
    blocks: int
    elapsed_s: float
    level: float
    margin: float
    ended: str
    arms: tuple[ArmInfo, ...]
    comparisons: tuple[ArmComparison, ...]
    missing: tuple[Missing, ...] = ()
    notes: tuple[str, ...] = ()
    allow_missing: bool = False

    @property
    def null_alarms(self) -> tuple[ArmComparison, ...]:
        """Differences between the baseline and itself: signs that the measurement cannot be trusted."""
        return tuple(one for one in self.comparisons if one.null and one.verdict in ("better", "worse"))

    @property
    def why_nothing(self) -> str:
        """Why no number stands beside another; empty if one does."""
        names = [arm.name for arm in self.arms if not arm.null]
        if len(names) == 1 or any(one.ratio is not None for one in self.comparisons if not one.null):
            return ""
        if self.comparisons:
            why = "have no two blocks in common; allow more runs"
        elif any(one.metric is None for one in self.missing):
            why = "have no case in common that passed"
        else:
            why = "have no number with a direction; say which in 'metrics'"
        return f"nothing was compared: {' and '.join(names)} {why}"

    @property
    def exit_code(self) -> int:
        """1 for what a gate is there to stop, 2 if there is nothing to tell by, else 0."""
        real = [one for one in self.comparisons if not one.null]
        if any(one.verdict == "worse" for one in real) or any(one.is_new for one in self.missing):
            return 1
        if self.why_nothing:
            return 2
        if self.missing and not self.allow_missing:
            return 1
        telling = [one for one in real if not is_steady(one.metric, one.unit)]
        return 2 if telling and all(one.reason for one in telling) else 0


def by_effect(comparisons: Sequence[ArmComparison]) -> list[ArmComparison]:
    """Worse before better before the rest, the largest effects first."""

    def place(one: ArmComparison) -> tuple[Any, ...]:
        effect = abs((one.ratio or 1.0) - 1)
        return one.null, ORDER[one.verdict], -effect, one.case, one.metric, one.arm

    return sorted(comparisons, key=place)


def result_json(result: ABResult) -> dict[str, Any]:
    """The result as `ab.json` and `--json` have it."""
    return {
        "schema": SCHEMA,
        "name": result.name,
        "seed": result.seed,
        "runs": result.runs,
        "blocks": result.blocks,
        "elapsed_s": round(result.elapsed_s, 3),
        "ended": result.ended,
        "confidence": result.level,
        "margin": result.margin,
        "arms": {
            arm.name: {
                "runs": arm.runs,
                "baseline": arm.baseline,
                "null": arm.null,
                **arm.facts,
                **({"installed": list(arm.installed)} if arm.installed else {}),
            }
            for arm in result.arms
        },
        "comparisons": [
            {name: value for name, value in asdict(one).items() if name != "reason" or value}
            for one in by_effect(result.comparisons)
        ],
        "missing": [
            {"case": one.case, "metric": one.metric, "arm": one.arm, "why": one.reason}
            for one in result.missing
        ],
        "notes": list(result.notes),
    }


def _change(ratio: float | None) -> str:
    """A ratio as a change: 1.05 is +5 %."""
    return change(None if ratio is None else ratio - 1)


def row(one: ArmComparison) -> tuple[str, ...]:
    """One comparison as texts, in the order of `HEADERS`."""
    interval = "too few blocks"
    if one.low is not None and one.high is not None:
        interval = range_of(one.low - 1, one.high - 1)
    return (
        one.verdict + (" (A/A)" if one.null else ""),
        visible(one.case),
        visible(one.metric),
        visible(one.arm),
        _change(one.ratio),
        interval,
        quantity(one.baseline, one.unit) if one.baseline is not None else "",
        quantity(one.candidate, one.unit) if one.candidate is not None else "",
        str(one.blocks),
    )


def headline(result: ABResult) -> str:
    """The result in a line."""
    real = [one for one in result.comparisons if not one.null]
    words = ("worse", "better", "same", "inconclusive")
    counts = [(sum(one.verdict == word for one in real), word) for word in words]
    compared = ", ".join(f"{number} {word}" for number, word in counts if number) or "nothing compared"
    return f"{compared}; {result.runs} runs in {result.blocks} blocks, {duration(result.elapsed_s)}"


def null_line(result: ABResult) -> str:
    """What the A/A arm says of the measurement itself; empty without one."""
    null = [one for one in result.comparisons if one.null]
    if not null:
        return ""
    if all(one.ratio is None for one in null):
        return "A/A: too few blocks to tell whether the baseline differs from itself"
    alarms = result.null_alarms
    if not alarms:
        return f"A/A: the baseline does not differ from itself{_sharpness(null)}"
    names = ", ".join(f"{one.case} {one.metric} {_change(one.ratio)}" for one in alarms)
    return f"A/A: the baseline differs from itself ({visible(names)}); do not trust differences of that size"


def _sharpness(null: Sequence[ArmComparison]) -> str:
    """How small a change the measurement would show, in its best and its worst metric."""
    known = [
        (one.minimum_detectable, one.metric)
        for one in null
        if one.minimum_detectable is not None and one.minimum_detectable < _NOTHING
    ]
    if not known:
        return ""
    (best, sharp), (worst, blunt) = min(known), max(known)
    if len(known) == 1:
        return f"; a change of {percent(best)} would be seen"
    return visible(f"; a change of {percent(best)} would be seen in {sharp}, of {percent(worst)} in {blunt}")


def terminal_lines(result: ABResult, screen: Screen) -> Iterator[str]:
    """What a terminal shows at the end: what it comes to first; of the A/A arm only what should not be."""
    meaning: Meaning = "bad" if result.exit_code else "bold"
    yield screen.paint(headline(result), meaning)
    yield ""
    shown = [
        one for one in by_effect(result.comparisons) if not one.null or one.verdict in ("worse", "better")
    ]
    columns = [
        Column(title=one, least=_LEAST.get(one), leaves=_LEAVES.get(one, 0), weight=3 if one == "case" else 1)
        for one in HEADERS
    ]
    rows = [
        [
            Cell(text, _MEANINGS.get(one.verdict, "") if place in _COLOURED else "")
            for place, text in enumerate(row(one))
        ]
        for one in shown
    ]
    yield from table(columns, rows, screen)
    yield ""
    yield from map(visible, reasons(result))
    for gap in result.missing:
        yield visible(f"missing: {gap.what} in {gap.arm}: {gap.reason}")
    yield from (f"note: {visible(note)}" for note in result.notes)
    if line := null_line(result):
        yield line
    if result.why_nothing:
        yield visible(result.why_nothing)
    yield result.ended or "not over yet"


def reasons(result: ABResult) -> Iterator[str]:
    """Why some comparisons are not judged, a line for each reason."""
    counts = Counter(one.reason for one in result.comparisons if one.reason)
    yield from (f"{count(number, 'comparison')} not judged: {reason}" for reason, number in counts.items())


def markdown(result: ABResult) -> str:
    """The whole result."""
    return "\n".join(_markdown_lines(result)) + "\n"


def _markdown_lines(result: ABResult) -> Iterator[str]:
    yield f"# A/B test {escape(result.name)}"
    yield ""
    yield f"**{headline(result)}**; {result.ended or 'not over yet'}. Seed {result.seed}."
    if line := null_line(result):
        yield ""
        yield escape(line) + "."
    yield ""
    yield "| " + " | ".join(HEADERS) + " |"
    yield "|" + "---|" * len(HEADERS)
    for one in by_effect(result.comparisons):
        yield "| " + " | ".join(escape(text) for text in row(one)) + " |"
    yield ""
    yield from (f"{escape(line)}.\n" for line in reasons(result))
    yield (
        f"With {percent(result.level)} confidence all intervals of an arm hold at once, at all looks. "
        f"`same`: any difference is smaller than {percent(result.margin)}."
    )
    if result.missing:
        yield from ("", "## Not compared", "")
        for gap in result.missing:
            yield f"- {escape(gap.what)} in {escape(gap.arm)}: {escape(gap.reason)}"
    if result.notes:
        yield from ("", "## Notes", "", *(f"- {escape(note)}" for note in result.notes))
    yield from ("", "## Arms", "")
    for arm in result.arms:
        yield f"- **{escape(arm.name)}** ({arm.runs} runs): {escape(describe(arm))}"


def describe(arm: ArmInfo) -> str:
    """What sets an arm apart, in a line."""
    if arm.null:
        return "the baseline once more (A/A)"
    facts = [f"{name} {_spoken(value)}" for name, value in arm.facts.items() if name != "environment"]
    return "; ".join(facts) or "the suite as it is"


def _spoken(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_spoken(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def page(result: ABResult) -> str:
    """The whole page; all foreign text is escaped."""
    return "\n".join(_page_lines(result)) + "\n"


def _page_lines(result: ABResult) -> Iterator[str]:
    title = in_html(f"A/B test {result.name}")
    yield open_page(title, _STYLE)
    yield f"<h1>{title}</h1>"
    yield f"<p><strong>{in_html(headline(result))}</strong>; {in_html(result.ended or 'not over yet')}.</p>"
    if line := null_line(result):
        yield f'<p class="{"alarm" if result.null_alarms else "faint"}">{in_html(line)}.</p>'
    ordered = by_effect(result.comparisons)
    yield from _chart(ordered, result.margin)
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f"<th>{in_html(name)}</th>" for name in HEADERS) + "</tr></thead><tbody>"
    for one in ordered:
        first, *rest = row(one)
        cells = "".join(f"<td>{in_html(text)}</td>" for text in rest)
        yield f'<tr><td class="{one.verdict}">{in_html(first)}</td>{cells}</tr>'
    yield "</tbody></table></div>"
    yield from (f'<p class="alarm">{in_html(line)}.</p>' for line in reasons(result))
    yield (
        f'<p class="faint">With {percent(result.level)} confidence all intervals of an arm hold at once, at all looks. '
        f"<em>same</em>: any difference is smaller than {percent(result.margin)}. Seed {result.seed}.</p>"
    )
    if result.missing:
        gaps = (f"{in_html(gap.what)} in {in_html(gap.arm)}: {in_html(gap.reason)}" for gap in result.missing)
        yield "<h2>Not compared</h2><ul>" + "".join(f"<li>{gap}</li>" for gap in gaps) + "</ul>"
    if result.notes:
        yield "<h2>Notes</h2><ul>" + "".join(f"<li>{in_html(note)}</li>" for note in result.notes) + "</ul>"
    yield "<h2>Arms</h2><ul>"
    for arm in result.arms:
        yield f"<li><strong>{in_html(arm.name)}</strong> ({arm.runs} runs): {in_html(describe(arm))}"
        if arm.installed:
            listed = in_html(", ".join(arm.installed))
            yield f"<details><summary>packages: {len(arm.installed)}</summary><code>{listed}</code></details>"
        yield "</li>"
    yield "</ul>"
    yield CLOSE_PAGE


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
        y = _ROW * i + 18
        low, middle, high = (across(_log(value)) for value in (one.low, one.ratio, one.high))
        label = visible(f"{one.case} · {one.metric} · {one.arm}")
        short = label if len(label) <= 58 else label[:57] + "…"
        yield f'<text x="0" y="{y}">{in_html(short)}<title>{in_html(label)}</title></text>'
        yield f'<g class="{one.verdict}">'
        yield f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y - 4}" y2="{y - 4}" stroke-width="2"/>'
        yield f'<circle cx="{middle:.1f}" cy="{y - 4}" r="4"/></g>'
    for edge in (-reach, 0.0, reach):
        label = _change(math.exp(edge))
        yield f'<text class="axis" text-anchor="middle" x="{across(edge):.1f}" y="{height - 6}">{label}</text>'
    yield "</svg>"


def _log(ratio: float | None) -> float:
    if ratio is None or not ratio > 0:
        return -_WIDEST
    return math.log(ratio) if math.isfinite(ratio) else _WIDEST
