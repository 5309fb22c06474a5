"""`paceline compare`: two sessions, revisions, branches, environments or files, metric by metric."""

import os
import re
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
from paceline.cli.stored import find_results_place, find_session, results_dir_option, stored_sessions
from paceline.errors import PacelineError
from paceline.numbers import change, count, percent
from paceline.report.format import aligned, quantity, unit_beside, visible

if TYPE_CHECKING:
    from paceline.findings.comparing import Compared, Outcome
    from paceline.findings.sides import Sides
    from paceline.history import Store

EPILOG = """\b
Examples:
  paceline compare                                   the newest session with the one before it
  paceline compare monday tuesday                    two sessions, by name or path
  paceline compare v1.2 HEAD                         two revisions that were measured, or branches
  paceline compare main my-branch --case 'join*'
  paceline compare old.json new.json                 files: record.json, report.json, or another tool's results
  paceline compare env:3f2a env:91bc                 everything measured in two environments
  paceline compare previous last --fail-above 5%     a gate: exit 1 if anything is 5 % worse, gone or failing
  paceline compare monday tuesday --markdown > comparison.md
"""
_MOST_MISSING = 20
_FAIL_ABOVE = re.compile(r"(\d+(?:\.\d+)?) ?%")


def _share(_: click.Context, __: click.Parameter, text: str) -> float:
    """A share such as 5%, or 0.05."""
    found = _FAIL_ABOVE.fullmatch(text)
    try:
        share = float(found[1]) / 100 if found else float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise click.BadParameter(f"{text!r} is not a share: write it like 5%")
    return share


@click.command("compare", epilog=EPILOG)
@click.argument("baseline", metavar="A", default="", shell_complete=complete_session)
@click.argument("candidate", metavar="B", default="", shell_complete=complete_session)
@case_option
@metric_option
@click.option(
    "--fail-above",
    "margin",
    metavar="SHARE",
    callback=_share,
    default="3%",
    show_default=True,
    help="Changes smaller than this do not count.",
)
@click.option("--allow-missing", is_flag=True, help="Cases that only A has do not fail.")
@click.option("--all", "everything", is_flag=True, help="Show also the rows that nothing follows from.")
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
    margin: float,
    allow_missing: bool,
    everything: bool,
    anyway: bool,
    markdown: bool,
    as_json: bool,
    repo: Path | None,
    results_dir: Path | str | None,
    db: str | None,
) -> int:
    """Compare B with A, by default the newest session with the one before it; exit 1 if anything is worse.

    A and B are sessions, revisions, branches, environments (env:ID) or files. 'worse' and 'better' are changes of at
    least the margin and beyond chance, taking all rows together; 'same' is less than the margin, 'inconclusive' that
    it takes more samples or sessions to say, or that a side was disturbed. 'question' is too good to be an improvement.
    Exit 1 also if a case is gone or fails that passed before, 2 if nothing was compared, or only under disturbance.
    """
    if as_json and markdown:
        raise click.UsageError("choose --json or --markdown")
    if baseline and not candidate:
        raise click.UsageError("give A and B, or neither for the newest session and the one before it")
    from paceline.findings.comparing import compare_sides
    from paceline.findings.sides import LAST, PREVIOUS
    from paceline.history.store.names import matcher

    metric = matcher(metrics).fullmatch if metrics else None
    with ExitStack() as stack:
        sides, store = find_sides(stack, db, repo, results_dir)
        case = matcher(sides.case_patterns(cases)).fullmatch if cases else None
        found = compare_sides(
            sides.find(baseline or PREVIOUS),
            sides.find(candidate or LAST),
            cases=case,
            metrics=metric,
            anyway=anyway,
            margin=margin,
            allow_missing=allow_missing,
            history=store,
        )
    if as_json:
        write_json(_json(found))
    else:
        write_lines(_markdown(found, everything) if markdown else _lines(found, everything))
    if not found.compared:
        click.echo(_why_nothing(found, cases, metrics), err=True)
    return found.exit_code


def _why_nothing(found: "Outcome", cases: tuple[str, ...], metrics: tuple[str, ...]) -> str:
    """Why no number stands beside another, and what to do about it."""
    names = f"{found.baseline.name} and {found.candidate.name}"
    if cases or metrics:
        chosen = " ".join(
            f"--{option} {value}"
            for option, values in (("case", cases), ("metric", metrics))
            for value in values
        )
        why = f"{chosen} matches no number with a direction that {names} both have; look at the names"
    elif any(one.metric is None for one in found.missing):
        why = f"{names} have no case in common that both have numbers of; compare sessions of one suite"
    else:
        why = f"{names} have no number with a direction; docs/metrics.md says which names have one"
    return f"nothing was compared: {why}"


def find_sides(
    stack: ExitStack, db: str | None, repo: Path | None, results_dir: Path | str | None
) -> "tuple[Sides, Store | None]":
    """What finds the sides that names mean, and the history, if there is one."""
    from paceline.findings.sides import LAST, PREVIOUS, Sides
    from paceline.history import open_store
    from paceline.history.urls import parse_target

    def find(name: str) -> Path | None:
        try:
            session: Path | str | None = None
            if name in (LAST, PREVIOUS):
                session = stored_sessions(find_results_place(results_dir))[name == PREVIOUS]
            elif os.sep not in name:
                session = find_session(name, results_dir)
        except IndexError:
            return None
        except PacelineError:
            return None
        return session if isinstance(session, Path) else None

    url = find_database(db)
    path = parse_target(url).path
    # Files are compared without a history, too.
    is_there = path is None or path.exists() or bool(db)
    store = stack.enter_context(open_store(url, create=False)) if is_there else None
    return Sides(store, chosen_repository(repo), find), store


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
                "baseline": one.comparison.baseline,
                "candidate": one.comparison.candidate,
                "samples": list(one.samples),
                "sessions": list(one.sessions),
                "p_value": one.comparison.p_value,
                "p_adjusted": one.p_adjusted,
                "noise_between_sessions": one.between,
                **({"reason": one.reason} if one.reason else {}),
                **({"question": one.question} if one.question else {}),
            }
            for one in found.compared
        ],
        "missing": [
            {"case": one.case, "metric": one.metric, "side": one.side, "why": one.why, "kind": one.kind}
            | ({"reason": one.reason} if one.reason else {})
            for one in found.missing
        ],
        "geometric_mean": found.geometric_means(),
        "unlike_machines": list(found.unlike),
        "margin": found.margin,
        "exit_code": found.exit_code,
    }


_HEADER = ("case", "metric", "verdict", "A", "B", "change", "interval", "would be seen")


def _cells(one: "Compared") -> tuple[str, ...]:
    unit = unit_beside(one.key.metric, one.key.unit or None)
    judged = one.comparison
    variant = f" ({one.key.variant})" if one.key.variant else ""
    known = judged.high < float("inf")
    interval = f"{change(judged.low - 1)} to {change(judged.high - 1)}" if known else "unknown"
    smallest = percent(judged.minimum_detectable) if judged.minimum_detectable < 10 else "nothing"
    values = (quantity(judged.baseline, unit), quantity(judged.candidate, unit))
    names = (one.key.case + variant, one.key.metric, one.word)
    return (*names, *values, change(judged.ratio - 1), interval, smallest)


def _shown(found: "Outcome", everything: bool) -> "tuple[list[Compared], int]":
    """The rows to show, and how many more there are that nothing follows from."""
    shown = [one for one in found.compared if everything or not one.is_idle] or list(found.compared)
    return shown, len(found.compared) - len(shown)


def _lines(found: "Outcome", everything: bool) -> Iterator[str]:
    yield visible(f"A: {found.baseline.about}")
    yield visible(f"B: {found.candidate.about}")
    yield ""
    shown, folded = _shown(found, everything)
    if shown:
        yield from aligned([_HEADER, *([visible(cell) for cell in _cells(one)] for one in shown)])
    yield from _footnotes(found, folded)


def _footnotes(found: "Outcome", folded: int) -> Iterator[str]:
    if folded:
        yield f"{count(folded, 'row')} more, too noisy or with too few samples to tell even 50 %: --all shows them"
    if found.compared:
        yield ""
    for metric, ratio in sorted(found.geometric_means().items()):
        cases = sum(1 for one in found.compared if one.key.metric == metric and not one.is_idle)
        if cases > 1:
            yield visible(f"geometric mean of {metric} over {count(cases, 'case')}: {change(ratio - 1)}")
    yield from (visible(f"unlike machines: {text}") for text in found.unlike)
    yield from _about_noise(found)
    yield from _about_missing(found)
    for asked_of in (one for one in found.compared if one.question):
        yield visible(f"question: {asked_of.key.case} {asked_of.key.metric}: {asked_of.question}")
    reasons = Counter(one.reason for one in found.compared if one.reason)
    for reason, number in reasons.items():
        yield visible(f"{count(number, 'comparison')} not judged: {reason}")
    verdicts = [one.word for one in found.compared]
    parts = [f"{verdicts.count(one):,} {one}" for one in ("worse", "better", "same", "inconclusive")]
    asked = verdicts.count("question")
    parts += [count(asked, "question")] if asked else []
    parts += [f"{len(found.failing):,} failing"] if found.failing else []
    parts += [f"{len(found.gone):,} gone"] if found.gone else []
    yield f"{', '.join(parts)} of {count(len(verdicts), 'comparison')}"


def _about_noise(found: "Outcome") -> Iterator[str]:
    """What is known of how sessions differ by themselves, and what is not."""
    from paceline.judge.comparison import LEVEL

    unknown = [one for one in found.compared if one.between == "assumed"]
    if any(min(one.samples) < 2 for one in unknown):
        yield (
            "one sample on a side says nothing about noise, and the history has too few nights: use 'repeat', "
            "or compare revisions of several sessions"
        )
    if unknown:
        which = "" if len(unknown) == len(found.compared) else f" of {count(len(unknown), 'row')}"
        assumed = percent(found.margin / 2)
        yield f"the noise between sessions{which} is not known: {assumed} is assumed; a history of 6 nights knows it"
    chance = sum(one.p_adjusted > 1 - LEVEL >= one.comparison.p_value for one in found.compared)
    if chance:
        rows = count(chance, "row")
        yield f"{rows} alone would differ, but not as one of {len(found.compared):,}: --metric asks about fewer"


def _about_missing(found: "Outcome") -> Iterator[str]:
    listed = [one for one in found.missing if one.kind != "left_out"]
    for one in listed[:_MOST_MISSING]:
        told = ": ".join(filter(None, (one.why, one.reason)))
        why = f" ({told})" if told else ""
        word = "fails in" if one.kind == "failing" else "missing in"
        yield visible(f"{word} {one.side}: {one.case} {one.metric or ''}".rstrip() + why)
    if len(listed) > _MOST_MISSING:
        yield f"… and {len(listed) - _MOST_MISSING:,} more missing (--json lists all)"
    left_out = Counter(one.why for one in found.missing if one.kind == "left_out")
    for why, number in left_out.items():
        yield visible(f"{count(number, 'case')} left out by {found.candidate.name} itself ({why})")


def _markdown(found: "Outcome", everything: bool) -> Iterator[str]:
    from paceline.report.markdown import escape

    yield "## Comparison"
    yield from ("", f"- A: {escape(found.baseline.about)}", f"- B: {escape(found.candidate.about)}", "")
    shown, folded = _shown(found, everything)
    if shown:
        yield f"| {' | '.join(_HEADER)} |"
        yield f"|---|---|---{'|---:' * 5}|"
    yield from (f"| {' | '.join(map(escape, _cells(one)))} |" for one in shown)
    yield ""
    yield from (f"- {escape(line)}" for line in _footnotes(found, folded) if line)
