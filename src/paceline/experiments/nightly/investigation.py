"""A suspicion followed up: run again to confirm it, searched for its cause, and put into a finding."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.config.sections import Nightly
from paceline.errors import BuildError, PacelineError
from paceline.experiments.ab.blocks import FIRST_LOOK
from paceline.experiments.bisect.bisection import (
    BisectTask,
    case_of,
    measured_value,
    run_bisection,
    run_case,
    write_result,
)
from paceline.experiments.bisect.report import (
    BisectionResult,
    Question,
    bisection_data,
    culprit_of,
    difference_text,
)
from paceline.experiments.bisect.search import Limits, Run, Search
from paceline.experiments.bisect.steps import Bracket, find_bracket
from paceline.experiments.builds.build import Builder, Candidate
from paceline.experiments.nightly.suspicions import Suspected
from paceline.experiments.trials import Interrupted, TrialSetting
from paceline.finding import Finding, Stage
from paceline.findings.commits import Repository
from paceline.findings.suspects import commit_suspects, environment_suspects
from paceline.history import Store
from paceline.history.findings import read_culprits, write_findings
from paceline.judge import Comparison
from paceline.judge.comparison import LEVEL, student_quantile
from paceline.judge.suspicion import spread
from paceline.numbers import chance, change, interval
from paceline.record.codec import load
from paceline.record.layout import safe_name
from paceline.session.request import Request

JUDGE = "nightly"
_RUNS_AGAIN = 5
_FEWEST_NIGHTS = 4
_DOUBT = 0.00025

_ODD_NIGHTS = 50
"""So many nights look odd, and are not, for each change that the series itself does not show yet."""
_ODD_RUNS = 9
"""Runs of each side for a night that looks odd, at most: what is true and needs more, the series shows soon."""
FEWEST_RUNS = 2 * FIRST_LOOK
"""Fewer runs decide nothing."""

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What a night is made of; `tonight` is what its session is measured in, `request` asks for runs without sinks."""

    request: Request
    options: Nightly
    builder: Builder
    tonight: Candidate
    repository: Repository | None
    results_dir: Path
    bisects: bool = True
    ends_at_s: float = float("inf")
    note: Note = lambda text: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What came of a suspicion: whether it holds (None: not known), and the bisection that looked for its cause.

    `runs` are those that were made tonight; once all are spent that may be made, and the cause is not known, it is
    `undecided`. `unseen`: the old and the new state were run in turns, and have shown no difference so far.
    """

    holds: bool | None
    message: str
    runs: int = 0
    undecided: bool = False
    unseen: bool = False
    bisection: Mapping[str, Any] = field(default_factory=dict)
    difference: Comparison | None = None
    out: Path | None = None
    notes: tuple[str, ...] = ()


def investigate(suspected: Suspected, store: Store, night: Night) -> Finding:
    """The finding that a suspicion becomes; what goes wrong on the way is part of it."""
    name = f"{suspected.series.metric} of {suspected.series.case}"
    if time.monotonic() >= night.ends_at_s:
        followed = Followed(holds=None, message="not run again: the night's budget is spent")
        return _settled(suspected, followed, store, night.repository)
    night.note(f"{name} looks {change(suspected.effect)} worse: running it again")
    try:
        followed = _follow(suspected, store, night)
    except Interrupted:
        raise
    except PacelineError as error:
        followed = Followed(holds=None, message=f"could not be run again: {str(error).splitlines()[0]}")
    night.note(f"{name}: {followed.message}")
    return _settled(suspected, followed, store, night.repository)


def _follow(suspected: Suspected, store: Store, night: Night) -> Followed:
    good, bad = suspected.good, suspected.bad
    bracket = find_bracket(
        good,
        bad,
        (store.environment(good.environment), store.environment(bad.environment)),
        repo=night.repository.root if night.repository else None,
        own=bool(night.options.packages or night.options.install),
        options=night.builder.options,
    )
    left = suspected.runs_left(night.options.max_runs)
    if bracket.steps is not None:
        task = _make_task(suspected, bracket, night, _known_culprits(store))
        known = _known_result(task)
        if known is not None:
            return known
    if (bracket.steps is None or not night.bisects) and suspected.stage == "confirmed":
        return Followed(holds=True, message="Confirmed on an earlier night.", notes=bracket.notes)
    if left < FEWEST_RUNS:
        if suspected.stage != "confirmed" and bracket.steps is not None:
            return Followed(holds=False, message=f"Not confirmed by {suspected.runs} runs on earlier nights.")
        spent = f"Not decided by {suspected.runs} runs on earlier nights"
        return Followed(holds=None, message=f"{spent}: no more are made for it.", undecided=True)
    if bracket.steps is None:
        holds, message, runs = _run_again(suspected, night)
        return Followed(holds=holds, message=message, runs=runs, notes=bracket.notes)
    made = 0

    def tell(run: Run, search: Search, candidate: Candidate) -> None:
        nonlocal made
        made += 1
        guess, question = search.guess, search.question
        likely = f", likely {question.at(guess[0]).label} {chance(guess[1])}" if guess else ""
        gave = question.shown(run.value) if run.value is not None else run.reason
        night.note(f"run {len(search.runs)}: {candidate.label} {gave}{likely}")

    result = run_bisection(task, tell, ends_only=True, ends_at_s=night.ends_at_s, most_runs=left)
    if result.ending == "unsure" and result.culprit is not None and night.bisects:
        left = night.options.max_runs - suspected.runs
        result = run_bisection(task, tell, ends_at_s=night.ends_at_s, most_runs=left - made)
    write_result(result, task.out)
    followed = replace(_concluded(result, task.out), runs=made, undecided=made >= left)
    if followed.holds is None and result.ending == "unsure" and suspected.stage != "confirmed":
        if followed.undecided:
            return replace(followed, holds=False, message=f"Not confirmed by {suspected.runs + made} runs.")
        return replace(followed, unseen=True)
    return followed


def _known_culprits(store: Store) -> frozenset[str]:
    """What earlier bisections found to be the cause of something: it may be the cause of more."""
    with store.database.reading():
        known = read_culprits(store.database).values()
    return frozenset(str(one.get("revision") or one.get("name")) for one in known)


def _make_task(suspected: Suspected, bracket: Bracket, night: Night, known: frozenset[str]) -> BisectTask:
    """The bisection that finds a suspicion's cause."""
    assert bracket.steps is not None
    good, candidates = bracket.steps
    options = night.options
    left = suspected.runs_left(options.max_runs)
    case = case_of(night.request, suspected.series.case)
    task = BisectTask(
        configs=night.request.configs,
        datasets=night.request.datasets,
        case=case,
        question=Question(
            case=case.name,
            metric=suspected.series.metric,
            unit=suspected.series.unit or None,
            direction=suspected.direction,
            good=good,
            candidates=candidates,
            known=known,
        ),
        builder=night.builder,
        limits=Limits(
            confidence=options.confidence,
            max_runs=options.max_runs,
            end_runs=max(3, min(options.confirm_runs if suspected.is_certain else _ODD_RUNS, left // 2)),
            asked=1 if suspected.is_certain else _ODD_NIGHTS,
            effect=suspected.effect if suspected.is_certain else 0.0,
        ),
        out=night.results_dir,
        origin={"regression": suspected.finding.id} if suspected.finding else {},
        notes=bracket.notes,
        explains=True,
    )
    return task.placed_under(night.results_dir)


def _known_result(task: BisectTask) -> Followed | None:
    """What an earlier night found out, if its culprit lies between the good and the bad of this one.

    Every night brings another point, and so another bracket around the same culprit.
    """
    question = task.question
    idents = {candidate.ident for candidate in question.candidates}
    for file in sorted(task.out.parent.glob("*/bisect.json")):
        try:
            data = load(file.read_bytes())
        except (OSError, ValueError):
            continue
        same = (data.get("case"), data.get("metric")) == (question.case, question.metric)
        if same and data.get("ending") == "found" and data.get("culprit") in idents:
            return Followed(holds=True, message=str(data["message"]), out=file.parent, bisection=data)
    return None


def _concluded(result: BisectionResult, out: Path) -> Followed:
    holds = {"found": True, "not_reproduced": False, "reversed": False}.get(result.ending)
    message = result.message
    if result.ending == "unsure" and result.culprit is not None:
        holds = True
        by = f" by {difference_text(result.difference)}" if result.difference else ""
        message = f"Confirmed{by}. {message}"
    return Followed(
        holds=holds,
        message=message,
        bisection=bisection_data(result),
        difference=result.difference,
        out=out,
        notes=result.notes,
    )


def _run_again(suspected: Suspected, night: Night) -> tuple[bool | None, str, int]:
    """Whether the case is still worse than in the nights before, where nothing changed that could be put back.

    And a sentence, and how many runs were made.

    A night counts once, however often it is run: what all of its runs share cannot be told from a change. So a few
    runs are enough, and the noise between nights is what the difference is held against.
    """
    try:
        built = night.builder.build(night.tonight)
    except BuildError as error:
        raise BuildError(f"tonight's environment cannot be made again: {error}") from error
    case = case_of(night.request, suspected.series.case)
    # Trials of their own for each night's suspicion: another night is run anew.
    name = safe_name(f"{suspected.series.case}-{suspected.series.metric}-{suspected.bad.session}")
    setting = TrialSetting(
        name=f"again-{built.worktree.revision[:10] if built.worktree else 'here'}",
        directory=night.results_dir / "recheck" / name,
        configs=night.request.configs,
        datasets=night.request.datasets,
    )
    values: list[float] = []
    for number in range(1, min(_RUNS_AGAIN, max(3, night.options.confirm_runs)) + 1):
        record, disturbance = run_case(case, setting, built, number, suspected.series.metric)
        if disturbance:
            return None, f"Neither confirmed nor refuted: the runs were disturbed ({disturbance}).", number
        value, reason = measured_value(record, suspected.series.metric)
        if value is None:
            return None, f"could not be run again: {reason}", number
        values.append(value)
    return (*_held_against_nights(suspected, values), len(values))


def _held_against_nights(suspected: Suspected, values: Sequence[float]) -> tuple[bool | None, str]:
    """Whether runs of one night say that a level is worse than that of the nights before; and a sentence.

    A suspicion picks the oddest of a hundred nights, so it takes what one in four thousand nights shows by chance.
    """
    before = suspected.before
    text = f"{len(values)} runs, held against {len(before)} nights before"
    if len(before) < _FEWEST_NIGHTS:
        return None, f"Neither confirmed nor refuted by {text}: these are too few."
    is_relative = min(*before, *values) > 0
    old, new = ([math.log(one) if is_relative else one for one in part] for part in (before, values))
    size = 1.0 if is_relative else abs(statistics.median(old)) or 1.0
    difference = (statistics.fmean(new) - statistics.median(old)) / size
    noise = spread(old) or statistics.stdev(old)
    # A median of n values is as exact as a mean of n / 1.57.
    error = math.sqrt(noise**2 * (1 + 1.57 / len(old)) + statistics.variance(new) / len(new)) / size

    def interval_of(doubt: float) -> tuple[float, float]:
        reach = error * student_quantile(1 - doubt, len(old) - 1)
        return difference - reach, difference + reach

    def shown(one: float) -> float:
        return math.expm1(min(one, 700.0)) if is_relative else one

    sign = -1 if suspected.direction == "higher" else 1
    usual = [shown(one) for one in interval_of((1 - LEVEL) / 2)]
    by = interval(shown(difference), *usual)
    if min(sign * one for one in interval_of(_DOUBT)) > 0:
        weaker = "Weaker evidence than runs in turns: there is no old state that could be run again."
        return True, f"Confirmed by {text}: {by}. {weaker}"
    if max(sign * one for one in usual) < abs(suspected.effect):
        return False, f"Not confirmed by {text}: {by}."
    return None, f"Neither confirmed nor refuted by {text}: {by}."


def _settled(
    suspected: Suspected, followed: Followed, store: Store, repository: Repository | None
) -> Finding:
    """The finding with what came of it, which the history keeps, so that the next night knows of it."""
    difference = followed.difference
    finding = suspected.finding or _new_finding(suspected, store, repository)
    stage: Stage = "confirmed" if followed.holds else finding.stage
    culprit = None
    if followed.holds is False:
        stage = "not_reproduced"
    elif followed.bisection.get("ending") == "found" and followed.out:
        stage, culprit = "bisected", culprit_of(followed.bisection, followed.out)
    elif followed.undecided:
        stage = "undecided"
    if difference is not None:
        size = difference.ratio - 1
        finding = replace(finding, effect=size, low=difference.low - 1, high=difference.high - 1)
    if stage == "not_reproduced" and suspected.finding is None:
        refuted = replace(
            finding,
            id=suspected.refuted_id,
            verdict="inconclusive",
            stage=stage,
            stands=False,
            runs=followed.runs,
        )
        with store.database.writing():
            write_findings(store.database, [refuted])
        finding = replace(finding, stage=stage)
    elif stage != "suspected" or suspected.finding:
        kept = store.settle(finding, stage, culprit, followed.runs)
        finding = replace(finding, stage=kept.stage, culprit=kept.culprit, runs=kept.runs)
    holds = followed.holds or (followed.holds is None and suspected.is_certain and not followed.unseen)
    notes = "".join(f" Note: {note}." for note in followed.notes)
    return replace(
        finding,
        judge=JUDGE,
        verdict="worse" if holds else "inconclusive",
        suspects=(finding.culprit,) if finding.culprit else finding.suspects,
        message=f"{followed.message}{notes}",
    )


def _new_finding(suspected: Suspected, store: Store, repository: Repository | None) -> Finding:
    """A suspicion about the newest values, which no detector has seen yet."""
    good, bad = suspected.good, suspected.bad
    environments = store.environment(good.environment), store.environment(bad.environment)
    return Finding(
        id=suspected.id,
        **suspected.series.parts,
        epoch=suspected.epoch,
        verdict="worse",
        effect=suspected.effect,
        low=suspected.effect,
        high=suspected.effect,
        p_value=suspected.chance,
        last_good=good,
        first_bad=bad,
        at_record=suspected.at.record_id,
        at_time=suspected.at.time,
        found_at=bad.time,
        found_in=bad.session_id,
        suspects=(*commit_suspects(repository, good, bad), *environment_suspects(*environments)),
    )


def merge_findings(
    followed: Sequence[tuple[Suspected, Finding]], known: Sequence[Finding]
) -> tuple[Finding, ...]:
    """What was followed up, in place of what was said of the same metric before."""
    found = [finding for _, finding in followed]
    replaced = {(one.case, one.metric) for one in found}
    for suspected, finding in followed:
        if finding.verdict != "worse":
            replaced |= {(key.case, key.metric) for key in suspected.also}
    return (*found, *(one for one in known if (one.case, one.metric) not in replaced))
