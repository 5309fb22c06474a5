"""What a check found: as data, as lines for a terminal, and as Markdown for a pull request."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from paceline.experiments.ab.report import (
    ORDER,
    ArmComparison,
    by_effect,
    headline,
    reasons,
    result_json,
)
from paceline.experiments.check.check import CheckResult, Side
from paceline.experiments.explain.explanation import (
    explanation_json,
    explanation_lines,
    explanation_markdown,
    in_comment,
)
from paceline.numbers import change, digits, percent
from paceline.report.format import quantity, visible
from paceline.report.table import Column, screen_of, table

HEADERS = ("verdict", "case", "metric", "base", "head", "change", "95 % interval", "blocks")
_LEAST = {"case": 16, "metric": 10}
_LEAVES = {"blocks": 3, "base": 2, "95 % interval": 1}
_SIGNS = {"worse": "📉", "better": "📈", "inconclusive": "❔", "same": ""}
_SHOWN_SAME = 200


def check_json(result: CheckResult) -> dict[str, Any]:
    """The result as `check.json` and `--json` have it: that of an A/B test, and what is of a check alone."""
    return {
        **result_json(result.ab),
        "base": _side_json(result.base),
        "head": _side_json(result.head),
        "fail_above": result.fail_above,
        "ok": result.exit_code == 0,
        "verdict": verdict_line(result),
        "not_run": [{"case": one.case, "why": one.why} for one in result.not_run],
        "explained": [explanation_json(one) for one in result.explained],
        "reproduce": reproduce(result),
    }


def _side_json(side: Side) -> dict[str, Any]:
    return {"revision": side.revision, "title": side.title, "note": side.note}


def verdict_line(result: CheckResult) -> str:
    """The whole in a line."""
    limit = percent(result.fail_above)
    losses = by_effect(result.losses)
    if losses or result.failing:
        words = [f"{one.case} {one.metric} {change((one.ratio or 1) - 1)}" for one in losses[:3]]
        words += [f"{name} fails" for name in result.failing[:3]]
        more = len(losses) + len(result.failing) - len(words)
        rest = f" and {more} more" if more else ""
        return f"worse than the base: {', '.join(words)}{rest} (limit {limit})"
    if result.ab.why_nothing:
        return result.ab.why_nothing
    if result.exit_code == 2:
        return "nothing can be said: one side of each comparison was disturbed"
    unsure = [one for one in result.ab.comparisons if one.verdict == "inconclusive"]
    compared = len(result.ab.comparisons)
    if unsure:
        return f"no loss beyond {limit} was found; {len(unsure)} of {compared} comparisons are undecided"
    return f"no loss beyond {limit} in {compared} comparisons"


def reproduce(result: CheckResult) -> str:
    """A command that does the same again, for what got worse alone if anything did."""
    losses = by_effect(result.losses)
    cases = list(dict.fromkeys(one.case for one in losses)) or list(result.failing)
    words = ["paceline", "check", *result.words]
    words += ["--base", result.base.revision]
    words += [] if result.head.note else ["--head", result.head.revision]
    words += ["--fail-above", f"{digits(result.fail_above * 100, 6)}%"]
    for name in cases:
        words += ["--only", name]
    for name in dict.fromkeys(one.metric for one in losses):
        words += ["--metric", name]
    return shlex.join(words)


def rows(comparisons: Sequence[ArmComparison]) -> Iterator[tuple[str, ...]]:
    """The comparisons as texts, in the order of `HEADERS`."""
    for one in by_effect(comparisons):
        known = one.ratio is not None and one.low is not None and one.high is not None
        interval = (
            f"{change(one.low - 1)} to {change(one.high - 1)}"
            if known and one.low is not None and one.high is not None
            else "too few blocks"
        )
        yield (
            one.verdict,
            visible(one.case),
            visible(one.metric),
            quantity(one.baseline, one.unit) if one.baseline is not None else "",
            quantity(one.candidate, one.unit) if one.candidate is not None else "",
            change(None if one.ratio is None else one.ratio - 1),
            interval,
            str(one.blocks),
        )


def terminal_lines(result: CheckResult) -> Iterator[str]:
    """What a terminal shows at the end."""
    columns = [Column(title=one, least=_LEAST.get(one), leaves=_LEAVES.get(one, 0)) for one in HEADERS]
    yield from table(columns, list(rows(result.ab.comparisons)), screen_of(sys.stdout))
    yield from map(visible, reasons(result.ab))
    for gap in result.ab.missing:
        yield visible(f"not compared: {gap.what} at the {gap.arm}: {gap.reason}")
    for one in result.not_run:
        yield visible(f"not run: {one.case}: {one.why}")
    yield from (f"note: {visible(note)}" for note in result.ab.notes)
    yield f"{headline(result.ab)}; {result.ab.ended}"
    yield visible(("ok: " if result.exit_code == 0 else "") + verdict_line(result))
    for explained in result.explained:
        yield from explanation_lines(explained)
    if result.exit_code == 1:
        yield visible(f"again: {reproduce(result)}")


def markdown(result: CheckResult, *, marker: str = "", link: str = "", brief: bool = False) -> str:
    """The whole result; what did not change is folded away, or left out if it is to be `brief`."""
    return "\n".join(_markdown_lines(result, marker, link, brief=brief)) + "\n"


def _markdown_lines(result: CheckResult, marker: str, link: str, *, brief: bool) -> Iterator[str]:
    if marker:
        yield marker
    sign = {0: "✅", 1: "❌"}.get(result.exit_code, "❔")
    yield f"## {sign} Benchmarks: {in_comment(verdict_line(result))}"
    yield ""
    yield (
        f"Head `{result.head.revision[:12]}`{_note(result.head)} against base `{result.base.revision[:12]}`"
        f"{_note(result.base)}, in turns on one machine; "
        f"{in_comment(headline(result.ab))}; {in_comment(result.ab.ended)}."
    )
    if link:
        yield from ("", f"[The job]({link})")
    comparisons = by_effect(result.ab.comparisons)
    telling = [one for one in comparisons if ORDER[one.verdict] < ORDER["same"]]
    same = [one for one in comparisons if one not in telling]
    if telling:
        yield from ("", *_markdown_table(telling))
    for line in reasons(result.ab):
        yield from ("", f"{in_comment(line)}.")
    for one in result.explained:
        yield from explanation_markdown(replace(one, diff="") if brief else one)
    gaps = [
        f"- {in_comment(gap.what)} at the {in_comment(gap.arm)}: {in_comment(gap.reason)}"
        for gap in result.ab.missing
    ]
    gaps += [f"- {in_comment(one.case)}: {in_comment(one.why)}" for one in result.not_run]
    if gaps:
        yield from ("", "### Not compared", "", *gaps)
    if result.exit_code == 1:
        yield from ("", "### Reproduce", "", "```sh", visible(reproduce(result)), "```")
    if same and not brief:
        summary = f"{len(same)} comparisons without a difference"
        yield from ("", f"<details><summary>{summary}</summary>", "", *_markdown_table(same[:_SHOWN_SAME]))
        yield from ("", "</details>")
    yield ""
    yield (
        f"<sub>Worse: at least {percent(result.fail_above)}, and surely more than noise. With 95 % confidence all "
        "intervals hold at once.</sub>"
    )


def _note(side: Side) -> str:
    return f" ({in_comment(side.note)})" if side.note else ""


def _markdown_table(comparisons: Sequence[ArmComparison]) -> Iterator[str]:
    yield "| " + " | ".join(HEADERS) + " |"
    yield "|" + "---|" * 3 + "---:|" * (len(HEADERS) - 3)
    for verdict, *rest in rows(comparisons):
        cells = (f"{_SIGNS[verdict]} {verdict}".strip(), *map(in_comment, rest))
        yield "| " + " | ".join(cells) + " |"
