"""An A/B test's result as Markdown, and as the lines that a terminal shows."""

from collections.abc import Iterator, Sequence

from paceline.experiments.ab.result import ABResult, ArmComparison, ArmInfo, by_effect
from paceline.report.format import aligned, duration, quantity, visible
from paceline.report.markdown import escape

HEADERS = ("verdict", "case", "metric", "arm", "change", "95 % interval", "baseline", "arm's value", "blocks")


def percent(ratio: float | None, digits: int = 1) -> str:
    """A ratio as a change: 1.05 is +5.0 %."""
    if ratio is None or ratio in (float("inf"), float("-inf")):
        return "?"
    return f"{(ratio - 1) * 100:+.{digits}f} %"


def row(one: ArmComparison) -> tuple[str, ...]:
    """One comparison as texts, in the order of `HEADERS`."""
    known = one.low is not None and one.high is not None
    interval = f"{percent(one.low)} … {percent(one.high)}" if known else "too few blocks"
    return (
        one.verdict + (" (A/A)" if one.null else ""),
        visible(one.case),
        visible(one.metric),
        visible(one.arm),
        percent(one.ratio),
        interval,
        quantity(one.baseline_value, one.unit) if one.baseline_value is not None else "",
        quantity(one.value, one.unit) if one.value is not None else "",
        str(one.blocks),
    )


def headline(result: ABResult) -> str:
    """The result in a line."""
    real = [one for one in result.comparisons if not one.null]
    counts = [
        (word, sum(one.verdict == word for one in real))
        for word in ("worse", "better", "same", "inconclusive")
    ]
    told = ", ".join(f"{count} {word}" for word, count in counts if count) or "nothing compared"
    return f"{told}; {result.runs} runs in {result.blocks} blocks, {duration(result.elapsed_s)}"


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
    names = ", ".join(f"{one.case} {one.metric} {percent(one.ratio)}" for one in alarms)
    return f"A/A: the baseline differs from itself ({visible(names)}); do not trust differences of that size"


def _sharpness(null: Sequence[ArmComparison]) -> str:
    """How small a change the measurement would show, in its best and its worst metric."""
    known = [(one.minimum_detectable, one.metric) for one in null if one.minimum_detectable is not None]
    if not known:
        return ""
    (best, sharp), (worst, blunt) = min(known), max(known)
    if len(known) == 1:
        return f"; a change of {best * 100:.1f} % would be seen"
    return visible(
        f"; a change of {best * 100:.1f} % would be seen in {sharp}, of {worst * 100:.1f} % in {blunt}"
    )


def terminal_lines(result: ABResult) -> Iterator[str]:
    """What a terminal shows at the end."""
    rows = [row(one) for one in by_effect(result.comparisons)]
    yield from aligned([HEADERS, *rows])
    for one in result.missing:
        metric = f" {one.metric}" if one.metric else ""
        yield visible(f"missing: {one.case}{metric} in {one.arm}: {one.reason}")
    yield from (f"note: {visible(note)}" for note in result.notes)
    if line := null_line(result):
        yield line
    yield f"{headline(result)}; {result.ended or 'not over yet'}"


def markdown(result: ABResult) -> str:
    """The whole result."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: ABResult) -> Iterator[str]:
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
    yield (
        f"With {result.level:.0%} confidence all intervals of an arm hold at once, at all looks. "
        f"`same`: any difference is smaller than {result.margin:.1%}."
    )
    if result.missing:
        yield from ("", "## Not compared", "")
        for gap in result.missing:
            metric = f" {gap.metric}" if gap.metric else ""
            yield f"- {escape(gap.case + metric)} in {escape(gap.arm)}: {escape(gap.reason)}"
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
