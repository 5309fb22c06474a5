"""`paceline compare`: two sessions, revisions, branches, environments or files, metric by metric."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.completion import complete_session
from paceline.cli.database import (
    case_option,
    chosen_repository,
    db_option,
    find_database,
    json_option,
    metric_option,
    repo_option,
)
from paceline.cli.output import write_json, write_lines
from paceline.cli.stored import find_session, results_dir_option
from paceline.errors import PacelineError
from paceline.numbers import change, count, percent
from paceline.report.format import aligned, quantity, unit_beside, visible

if TYPE_CHECKING:
    from paceline.findings.comparing import Compared, Outcome
    from paceline.findings.sides import Sides

EPILOG = """\b
Examples:
  paceline compare monday tuesday                    two sessions, by name or path
  paceline compare v1.2 HEAD                         two revisions that were measured, or branches
  paceline compare main my-branch --case 'join*'
  paceline compare old.json new.json                 files: record.json, report.json, or another tool's results
  paceline compare env:3f2a env:91bc                 everything measured in two environments
  paceline compare monday tuesday --markdown > comparison.md
"""
_MOST_MISSING = 20


@click.command("compare", epilog=EPILOG)
@click.argument("baseline", metavar="A", shell_complete=complete_session)
@click.argument("candidate", metavar="B", shell_complete=complete_session)
@case_option
@metric_option
@click.option("--anyway", is_flag=True, help="Compare also what ran on unlike machines.")
@click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request.")
@json_option
@repo_option
@results_dir_option
@db_option
def command(
    baseline: str,
    candidate: str,
    cases: tuple[str, ...],
    metrics: tuple[str, ...],
    anyway: bool,
    markdown: bool,
    as_json: bool,
    repo: Path | None,
    results_dir: Path | str | None,
    db: str | None,
) -> int:
    """Compare B with A: each metric that has a direction, by the size of the difference; exit 1 if any is worse.

    A and B are sessions, revisions, branches, environments (env:ID) or files. 'same' means that the difference is
    smaller than 3 %, 'inconclusive' that it takes more samples to say, or that a side was disturbed; exit 2 if all
    times and rates were. 'question' is too good to be an improvement. One comparison in twenty differs by chance.
    """
    if as_json and markdown:
        raise click.UsageError("choose --json or --markdown")
    from paceline.findings.comparing import compare_sides
    from paceline.history.store.names import matcher

    metric = matcher(metrics).fullmatch if metrics else None
    with ExitStack() as stack:
        sides = _sides(stack, db, repo, results_dir)
        case = matcher(sides.case_patterns(cases)).fullmatch if cases else None
        found = compare_sides(
            sides.find(baseline), sides.find(candidate), cases=case, metrics=metric, anyway=anyway
        )
    if not found.compared and not found.missing:
        chosen = (
            "; look at --case and --metric"
            if cases or metrics
            else ": docs/metrics.md says which names have one"
        )
        raise PacelineError(f"{baseline} and {candidate} have no number with a direction to compare{chosen}")
    if as_json:
        write_json(_json(found))
    else:
        write_lines(_markdown(found) if markdown else _lines(found))
    return found.exit_code


def _sides(stack: ExitStack, db: str | None, repo: Path | None, results_dir: Path | str | None) -> "Sides":
    from paceline.findings.sides import Sides
    from paceline.history import open_store
    from paceline.history.urls import parse_target

    def find(name: str) -> Path | None:
        try:
            session = find_session(name, results_dir) if os.sep not in name else None
        except PacelineError:
            return None
        return session if isinstance(session, Path) else None

    url = find_database(db)
    path = parse_target(url).path
    # Files are compared without a history, too.
    is_there = path is None or path.exists() or bool(db)
    store = stack.enter_context(open_store(url, create=False)) if is_there else None
    return Sides(store, chosen_repository(repo), find)


def _json(found: "Outcome") -> dict[str, Any]:
    return {
        "baseline": {"name": found.baseline.name, "about": found.baseline.about},
        "candidate": {"name": found.candidate.name, "about": found.candidate.about},
        "comparisons": [
            {
                "case": one.key.case,
                "metric": one.key.metric,
                "verdict": one.comparison.verdict,
                "ratio": one.comparison.ratio,
                "low": one.comparison.low,
                "high": one.comparison.high,
                "minimum_detectable": one.comparison.minimum_detectable,
                "variant": one.key.variant or None,
                "unit": one.key.unit or None,
                "direction": one.direction,
                "baseline": one.baseline,
                "candidate": one.candidate,
                "samples": list(one.samples),
                **({"reason": one.reason} if one.reason else {}),
                **({"question": one.question} if one.question else {}),
            }
            for one in found.compared
        ],
        "missing": [
            {"case": one.case, "metric": one.metric, "side": one.side, "why": one.why}
            for one in found.missing
        ],
        "geometric_mean": found.geometric_means(),
        "unlike_machines": list(found.unlike),
    }


_HEADER = ("case", "metric", "verdict", "A", "B", "change", "interval", "would be seen")


def _cells(one: "Compared") -> tuple[str, ...]:
    unit = unit_beside(one.key.metric, one.key.unit or None)
    judged = one.comparison
    variant = f" ({one.key.variant})" if one.key.variant else ""
    known = judged.high < float("inf")
    interval = f"{change(judged.low - 1)} to {change(judged.high - 1)}" if known else "unknown"
    smallest = percent(judged.minimum_detectable) if judged.minimum_detectable < 10 else "nothing"
    values = (quantity(one.baseline, unit), quantity(one.candidate, unit))
    names = (one.key.case + variant, one.key.metric, one.word)
    return (*names, *values, change(judged.ratio - 1), interval, smallest)


def _lines(found: "Outcome") -> Iterator[str]:
    yield visible(f"A: {found.baseline.about}")
    yield visible(f"B: {found.candidate.about}")
    yield ""
    if found.compared:
        yield from aligned([_HEADER, *([visible(cell) for cell in _cells(one)] for one in found.compared)])
    yield from _footnotes(found)


def _footnotes(found: "Outcome") -> Iterator[str]:
    if found.compared:
        yield ""
    for metric, ratio in sorted(found.geometric_means().items()):
        cases = sum(1 for one in found.compared if one.key.metric == metric)
        if cases > 1:
            yield visible(f"geometric mean of {metric} over {count(cases, 'case')}: {change(ratio - 1)}")
    yield from (visible(f"unlike machines: {text}") for text in found.unlike)
    if any(min(one.samples) < 2 for one in found.compared):
        yield "one sample on a side says nothing about noise: use 'repeat', or compare revisions of several sessions"
    for one in found.missing[:_MOST_MISSING]:
        why = f" ({one.why})" if one.why else ""
        yield visible(f"missing in {one.side}: {one.case} {one.metric or ''}".rstrip() + why)
    if len(found.missing) > _MOST_MISSING:
        yield f"… and {len(found.missing) - _MOST_MISSING:,} more missing (--json lists all)"
    for asked_of in (one for one in found.compared if one.question):
        yield visible(f"question: {asked_of.key.case} {asked_of.key.metric}: {asked_of.question}")
    reasons = Counter(one.reason for one in found.compared if one.reason)
    for reason, number in reasons.items():
        yield visible(f"{count(number, 'comparison')} not judged: {reason}")
    verdicts = [one.word for one in found.compared]
    parts = [f"{verdicts.count(one):,} {one}" for one in ("worse", "better", "same", "inconclusive")]
    asked = verdicts.count("question")
    parts += [count(asked, "question")] if asked else []
    yield f"{', '.join(parts)} of {count(len(verdicts), 'comparison')}"


def _markdown(found: "Outcome") -> Iterator[str]:
    from paceline.report.markdown import escape

    yield "## Comparison"
    yield from ("", f"- A: {escape(found.baseline.about)}", f"- B: {escape(found.candidate.about)}", "")
    if found.compared:
        yield f"| {' | '.join(_HEADER)} |"
        yield f"|---|---|---{'|---:' * 5}|"
    yield from (f"| {' | '.join(map(escape, _cells(one)))} |" for one in found.compared)
    yield ""
    yield from (f"- {escape(line)}" for line in _footnotes(found) if line)
