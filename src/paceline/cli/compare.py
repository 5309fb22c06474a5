"""`paceline compare`: two sessions, revisions, branches, environments or files, metric by metric."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli import Respelled
from paceline.cli.completion import complete_session
from paceline.cli.database import (
    case_option,
    chosen_repository,
    db_option,
    find_database,
    json_option,
    metric_option,
    repo_option,
    share_of,
)
from paceline.cli.output import page_lines, write_json, write_lines
from paceline.cli.stored import (
    find_results_place,
    find_session,
    read_session,
    results_dir_option,
    stored_sessions,
)
from paceline.errors import PacelineError
from paceline.metrics import AUTOMATIC
from paceline.numbers import change, count, percent, range_of
from paceline.record.layout import is_session
from paceline.report.cases import primary_metric
from paceline.report.format import quantity, unit_beside, visible
from paceline.report.table import Cell, Column, Meaning, screen_of, table

if TYPE_CHECKING:
    from paceline.findings.comparing import Compared, Outcome
    from paceline.findings.sides import Side, Sides
    from paceline.history import Store

EPILOG = """\b
Examples:
  paceline compare                                   the newest session with the one before it
  paceline compare monday tuesday                    two sessions, by name or path
  paceline compare v1.2 HEAD                         two revisions that were measured, or branches
  paceline compare main my-branch --case 'join*'
  paceline compare old.json new.json                 files: record.json, report.json, or another tool's results
  paceline compare env:3f2a env:91bc                 everything measured in two environments
  paceline compare --by executor                     values of a parameter, within the newest session
  paceline compare last:sort 'last:join[n=10]'       two cases of a session
  paceline compare previous last --fail-above 5%     a gate: exit 1 if anything is 5 % worse, gone or failing
  paceline compare monday tuesday --markdown > comparison.md
"""
_MOST_MISSING = 20
_MOST_SEARCHED = 50


@click.command("compare", epilog=EPILOG)
@click.argument("baseline", metavar="A", default="", shell_complete=complete_session)
@click.argument("candidate", metavar="B", default="", shell_complete=complete_session)
@case_option
@metric_option
@click.option(
    "--fail-above",
    "margin",
    metavar="SHARE",
    callback=share_of,
    default="3%",
    show_default=True,
    help="Changes smaller than this do not count.",
)
@click.option(
    "--by",
    metavar="PARAMETER",
    help="Compare the values of a parameter within A, the newest session without one.",
)
@click.option("--allow-missing", is_flag=True, help="Cases that only A has do not fail.")
@click.option("--all", "everything", is_flag=True, help="Show every row, not only what changed.")
@click.option(
    "--force",
    "anyway",
    cls=Respelled,
    formerly=["--anyway"],
    is_flag=True,
    help="Compare also what ran on unlike machines.",
)
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
    by: str | None,
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

    SESSION:CASE is one case; two of them, or the values of --by, are alternatives, of which none fails: exit 0.
    """
    if as_json and markdown:
        raise click.UsageError("choose --json or --markdown")
    if by and candidate:
        raise click.UsageError("--by compares within one session: give A alone, or neither")
    if baseline and not candidate and not by:
        raise click.UsageError("give A and B, or neither for the newest session and the one before it")
    from paceline.findings.comparing import compare_sides
    from paceline.history.store.names import matcher

    metric = matcher(metrics).fullmatch if metrics else None
    with ExitStack() as stack:
        sides, store = find_sides(stack, db, repo, results_dir)
        case = matcher(sides.case_patterns(cases)).fullmatch if cases else None
        pairs, within = _pairs(sides, baseline, candidate, by)
        outcomes = [
            compare_sides(
                *pair,
                cases=case,
                metrics=metric,
                anyway=anyway,
                margin=margin,
                allow_missing=allow_missing,
                history=None if within else store,
                unlike_work=within,
            )
            for pair in pairs
        ]
    _print(outcomes, everything, markdown=markdown, as_json=as_json, as_list=bool(by))
    for found in outcomes:
        if not found.compared:
            click.echo(_why_nothing(found, cases, metrics), err=True)
    if within:
        return 0 if any(found.compared for found in outcomes) else 2
    return outcomes[0].exit_code


def _pairs(
    sides: "Sides", baseline: str, candidate: str, by: str | None
) -> "tuple[list[tuple[Side, Side]], bool]":
    """What is compared with what, and whether that is within a session, whose cases are alternatives."""
    from paceline.findings.sides import ENVIRONMENT, LAST, PREVIOUS
    from paceline.findings.within import BETWEEN, one_case, split_by, under_one_name

    if by:
        first, *others = split_by(sides.find(baseline or LAST), by)
        return [(first, other) for other in others], True
    names = (baseline or PREVIOUS, candidate or LAST)
    is_case = [BETWEEN in one and not one.startswith(ENVIRONMENT) and not Path(one).exists() for one in names]
    if all(is_case):
        parts = [one.partition(BETWEEN) for one in names]
        found = [one_case(sides.find(session or LAST), case) for session, _, case in parts]
        return [under_one_name(*found)], True
    return [(sides.find(names[0]), sides.find(names[1]))], False


def _print(
    outcomes: "Sequence[Outcome]", everything: bool, *, markdown: bool, as_json: bool, as_list: bool
) -> None:
    if as_json:
        found = [_json(one) for one in outcomes]
        write_json(found if as_list else found[0])
        return
    parts = [[*_markdown(one, everything)] if markdown else [*_lines(one, everything)] for one in outcomes]
    lines = [line for part in parts for line in (*part, "")][:-1]
    (write_lines if markdown else page_lines)(lines)


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
                newest, *others = stored_sessions(find_results_place(results_dir))
                session = newest if name == LAST else _of_the_same_suite(newest, others)
            elif os.sep not in name:
                session = find_session(name, results_dir)
        except (PacelineError, ValueError):  # an unreadable one, or none at all
            return None
        return session if isinstance(session, Path) else None

    url = find_database(db, results_dir)
    path = parse_target(url).path
    # Files are compared without a history, too.
    is_there = path is None or path.exists() or bool(db)
    store = stack.enter_context(open_store(url, create=False)) if is_there else None
    return Sides(store, chosen_repository(repo), find), store


def _of_the_same_suite(newest: Path | str, others: "Sequence[Path | str]") -> Path | None:
    """The newest session on disk that has a case of this one; several suites may keep their results together."""
    if not isinstance(newest, Path):
        return None
    names = {case.name for case in read_session(newest).cases}
    paths = [one for one in others[:_MOST_SEARCHED] if isinstance(one, Path)]
    return next((one for one in paths if names & {case.name for case in read_session(one).cases}), None)


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


_COLUMNS = (
    Column(title="verdict"),
    Column(title="case", least=24, weight=3),
    Column(title="metric", least=8),
    Column(title="change", right=True),
    Column(title="interval", leaves=1),
    Column(title="A → B", leaves=2),
    Column(title="would be seen", right=True, leaves=3),
)
_MEANINGS: Mapping[str, Meaning] = {"worse": "bad", "better": "good", "question": "doubt"}
_MOST_UNCHANGED = 20
_NUMBER = re.compile(r"\d[\d.,]*")


def _cells(one: "Compared") -> tuple[str, ...]:
    unit = unit_beside(one.key.metric, one.key.unit or None)
    judged = one.comparison
    variant = f" ({one.key.variant})" if one.key.variant else ""
    smallest = percent(judged.minimum_detectable) if judged.minimum_detectable < 10 else "nothing"
    values = f"{quantity(judged.baseline, unit)} → {quantity(judged.candidate, unit)}"
    names = (one.word, one.key.case + variant, one.key.metric)
    return (*names, change(judged.ratio - 1), range_of(judged.low - 1, judged.high - 1), values, smallest)


def _shown(found: "Outcome", everything: bool) -> "list[Compared]":
    """The rows to show: what changed, the metric that a case is about first; if nothing did, that of each case."""
    if everything:
        return list(found.compared)
    changed = [one for one in found.compared if one.word in _MEANINGS]
    primary = {one.record.case.key: primary_metric(one.record) for one in found.candidate.measured}

    def how_telling(one: "Compared") -> tuple[bool, bool, bool]:
        is_first = primary.get(one.key.case) == one.key.metric
        return not is_first, one.key.metric in AUTOMATIC, one.is_idle

    if changed:
        return sorted(changed, key=how_telling)
    telling = sorted(found.compared, key=how_telling)
    first = {(one.key.case, one.key.variant): one for one in reversed(telling)}
    return [one for one in found.compared if one in first.values()][:_MOST_UNCHANGED]


def _lines(found: "Outcome", everything: bool) -> Iterator[str]:
    screen = screen_of(sys.stdout)
    yield screen.paint(_verdict(found), "bad" if found.exit_code == 1 else "bold")
    yield visible(f"A  {_about(found.baseline)}")
    yield visible(f"B  {_about(found.candidate)}")
    shown = _shown(found, everything)
    if shown:
        yield ""
        rows = [
            [
                Cell(text, _MEANINGS.get(one.word, "") if place in (0, 3) else "")
                for place, text in enumerate(cells)
            ]
            for one in shown
            for cells in [[visible(cell) for cell in _cells(one)]]
        ]
        yield from table(_COLUMNS, rows, screen)
    yield from _footnotes(found, len(found.compared) - len(shown))


def _about(side: "Side") -> str:
    """What a side is; a session by its name, wherever it lies."""
    first, of, path = side.about.rpartition(" of ")
    return f"{first}{of}session {Path(path).name}" if is_session(Path(path)) else side.about


def _verdict(found: "Outcome") -> str:
    """What all rows come to."""
    words = Counter(one.word for one in found.compared)
    parts = [f"{words[word]:,} {word}" for word in ("worse", "better", "same", "inconclusive")]
    parts += [count(words["question"], "question")] if words["question"] else []
    parts += [f"{len(found.failing):,} failing"] if found.failing else []
    parts += [f"{len(found.gone):,} gone"] if found.gone else []
    return f"{', '.join(parts)} of {count(len(found.compared), 'comparison')}"


def _footnotes(found: "Outcome", folded: int) -> Iterator[str]:
    if folded:
        yield f"… {folded:,} more: --all"
    if found.compared:
        yield ""
    # Over unlike machines a mean says nothing.
    for metric, ratio in () if found.unlike else sorted(found.geometric_means().items()):
        cases = sum(1 for one in found.compared if one.key.metric == metric and not one.is_idle)
        if cases > 1 and metric not in AUTOMATIC:
            yield visible(f"geometric mean of {metric} over {count(cases, 'case')}: {change(ratio - 1)}")
    yield from (visible(f"unlike machines: {text}") for text in found.unlike)
    yield from _about_noise(found)
    yield from _about_missing(found)
    for asked_of in (one for one in found.compared if one.question):
        yield visible(f"question: {asked_of.key.case} {asked_of.key.metric}: {asked_of.question}")
    # Figures differ from case to case; what they say is the same.
    reasons = Counter(_NUMBER.sub("#", one.reason) for one in found.compared if one.reason)
    first = {_NUMBER.sub("#", one.reason): one.reason for one in reversed(found.compared)}
    for kind, number in reasons.items():
        like = " or the like" if number > 1 else ""
        yield visible(f"{count(number, 'comparison')} not judged: {first[kind]}{like}")


def _is_one_session(found: "Outcome") -> bool:
    return (
        len({one.record.session for side in (found.baseline, found.candidate) for one in side.measured}) == 1
    )


def _about_noise(found: "Outcome") -> Iterator[str]:
    """What is known of how sessions differ by themselves, and what is not."""
    from paceline.judge.comparison import LEVEL

    unknown = [one for one in found.compared if one.between == "assumed"]
    if any(min(one.samples) < 2 for one in unknown):
        yield (
            "one sample on a side says nothing about noise, and the history has too few nights: use 'repeat', "
            "or compare revisions of several sessions"
        )
    if unknown and not _is_one_session(found):
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
    yield from ("", f"- A: {escape(_about(found.baseline))}", f"- B: {escape(_about(found.candidate))}", "")
    yield from (f"**{_verdict(found)}**", "")
    shown = _shown(found, everything)
    if shown:
        yield f"| {' | '.join(column.title for column in _COLUMNS)} |"
        yield f"|---|---|---{'|---:' * 4}|"
    yield from (f"| {' | '.join(map(escape, _cells(one)))} |" for one in shown)
    yield ""
    yield from (f"- {escape(line)}" for line in _footnotes(found, len(found.compared) - len(shown)) if line)
