"""A suspicion followed up: run again to confirm it, searched for its cause, and put into a finding."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError
from paceline.experiments.bisect.bisection import BisectTask, case_of, run_bisection, write_result
from paceline.experiments.bisect.brackets import Bracket, Surroundings, find_bracket
from paceline.experiments.bisect.result import BisectionResult, Candidate, bisection_data, difference_text
from paceline.experiments.bisect.searching import Limits, Run, Search
from paceline.experiments.builds.workshop import State, Workshop
from paceline.experiments.nightly.recheck import recheck
from paceline.experiments.nightly.remembering import remember_confirmed
from paceline.experiments.nightly.suspected import Suspected
from paceline.experiments.trials import Interrupted
from paceline.findings.commits import Repository
from paceline.history import Store
from paceline.model import Finding, Verdict
from paceline.record.codec import load
from paceline.session.request import Request

JUDGE = "nightly"

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What an investigation has at hand; `tonight` is the state that the session was measured in."""

    request: Request
    workshop: Workshop
    tonight: State
    place: Path
    limits: Limits
    own_environment: bool = False
    bisects: bool = True
    ends_at_s: float = float("inf")
    note: Note = lambda text: None

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_at_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What came of a suspicion: whether it holds (None: not known), and what is known of its cause."""

    holds: bool | None
    message: str
    result: BisectionResult | None = None
    out: Path | None = None
    notes: tuple[str, ...] = ()


def investigate(suspected: Suspected, store: Store, repository: Repository | None, means: Means) -> Finding:
    """The finding that a suspicion becomes; what goes wrong on the way is part of it."""
    name = f"{suspected.series.metric} of {suspected.series.case}"
    if means.is_over:
        return _finding(suspected, Followed(holds=None, message="not run again: the night's budget is spent"))
    means.note(f"{name} looks {suspected.effect * 100:+.1f} % worse: running it again")
    try:
        followed = _follow(suspected, _surroundings(suspected, store, repository, means), means)
    except Interrupted:
        raise
    except PacelineError as error:
        followed = Followed(holds=None, message=f"could not be run again: {str(error).splitlines()[0]}")
    means.note(f"{name}: {followed.message}")
    finding = _finding(suspected, followed)
    if followed.holds:
        remember_confirmed(store, repository, suspected, finding)
    return finding


def _surroundings(
    suspected: Suspected, store: Store, repository: Repository | None, means: Means
) -> Surroundings:
    return Surroundings(
        good=suspected.good,
        bad=suspected.bad,
        before=store.environment(suspected.good.environment),
        after=store.environment(suspected.bad.environment),
        repo=repository.root if repository else None,
        own=means.own_environment,
        options=means.workshop.options,
    )


def _follow(suspected: Suspected, around: Surroundings, means: Means) -> Followed:
    bracket = find_bracket(around)
    if bracket.line is None:
        return _follow_without_line(suspected, bracket, means)
    task = make_task(suspected, bracket, means)
    known = _known_result(task)
    if known is not None:
        return known
    result = run_bisection(task, _teller(means), ends_only=True, ends_at_s=means.ends_at_s)
    if result.ending == "unsure" and result.culprit is not None and means.bisects:
        result = run_bisection(task, _teller(means), ends_at_s=means.ends_at_s)
    write_result(result, task.out)
    return _concluded(result, task.out)


def make_task(suspected: Suspected, bracket: Bracket, means: Means) -> BisectTask:
    """The bisection that tells a suspicion's cause."""
    assert bracket.line is not None
    good, states = bracket.line
    task = BisectTask(
        configs=means.request.configs,
        datasets=means.request.datasets,
        case=case_of(means.request, suspected.series.case),
        metric=suspected.series.metric,
        unit=suspected.series.unit or None,
        direction=suspected.direction,
        good=good,
        states=states,
        workshop=means.workshop,
        limits=means.limits,
        out=means.place,
        origin={"regression": suspected.finding.id} if suspected.finding else {},
        notes=bracket.notes,
    )
    return task.placed_under(means.place)


def _teller(means: Means) -> Callable[[Run, Search, Candidate], None]:
    def tell(run: Run, search: Search, candidate: Candidate) -> None:
        guess = search.guess
        likely = f", likely {search.label(guess[0])} {guess[1] * 100:.0f} %" if guess else ""
        gave = search.shown(run.value) if run.value is not None else run.reason
        means.note(f"run {len(search.runs)}: {candidate.label} {gave}{likely}")

    return tell


def _known_result(task: BisectTask) -> Followed | None:
    """What an earlier night found out, if its culprit lies between the good and the bad of this one.

    Every night brings another point, and so another bracket around the same culprit.
    """
    idents = {state.candidate.ident: number for number, state in enumerate(task.states)}
    for file in sorted(task.out.parent.glob("*/bisect.json")):
        try:
            data = load(file.read_bytes())
        except (OSError, ValueError):
            continue
        same = (data.get("case"), data.get("metric")) == (task.case.name, task.metric)
        if same and data.get("ending") == "found" and data.get("culprit") in idents:
            return Followed(holds=True, message=str(data["message"]), out=file.parent, result=None)
    return None


def _concluded(result: BisectionResult, out: Path) -> Followed:
    holds = {"found": True, "not_reproduced": False, "reversed": False, "unmeasurable": None}
    if result.ending != "unsure":
        return Followed(
            holds=holds[result.ending], message=result.message, result=result, out=out, notes=result.notes
        )
    is_confirmed = result.culprit is not None
    by = f" by {difference_text(result.difference)}" if result.difference and is_confirmed else ""
    message = f"Confirmed{by}. {result.message}" if is_confirmed else result.message
    return Followed(
        holds=True if is_confirmed else None, message=message, result=result, out=out, notes=result.notes
    )


def _follow_without_line(suspected: Suspected, bracket: Bracket, means: Means) -> Followed:
    """Nothing that can be tried again changed: only whether the new values come again can be told."""
    holds, message = recheck(
        suspected, means.request, means.tonight, means.workshop, means.place, means.limits.end_runs
    )
    return Followed(holds=holds, message=message, notes=bracket.notes)


def _finding(suspected: Suspected, followed: Followed) -> Finding:
    verdict: Verdict = "worse"
    if followed.holds is False or (followed.holds is None and not suspected.is_certain):
        verdict = "inconclusive"
    result = followed.result
    difference = result.difference if result else None
    notes = "".join(f" Note: {note}." for note in followed.notes)
    return Finding(
        id=suspected.id,
        judge=JUDGE,
        case=suspected.series.case,
        metric=suspected.series.metric,
        verdict=verdict,
        effect=difference.ratio - 1 if difference else suspected.effect,
        low=difference.low - 1 if difference else None,
        high=difference.high - 1 if difference else None,
        evidence=_evidence(suspected, followed),
        message=f"{followed.message}{notes}",
    )


def _evidence(suspected: Suspected, followed: Followed) -> dict[str, Any]:
    named = followed.result.named if followed.result and followed.result.ending == "found" else None
    data = _stored(followed)
    return {
        "confirmed": followed.holds,
        "culprit": named.ident if named else data.get("culprit"),
        "kind": named.kind if named else data.get("kind"),
        "subject": named.title if named else data.get("subject"),
        "confidence": data.get("confidence"),
        "runs": data.get("runs"),
        "bisection": str(followed.out) if followed.out else None,
        "regression": suspected.finding.id if suspected.finding else None,
        "last_good": {"revision": suspected.good.revision, "session": suspected.good.session},
        "first_bad": {"revision": suspected.bad.revision, "session": suspected.bad.session},
        "also": [f"{key.metric} of {key.case}" for key in suspected.also],
        "notes": list(followed.notes),
    }


def _stored(followed: Followed) -> dict[str, Any]:
    """The data of the bisection, of this night or of an earlier one."""
    if followed.result is not None:
        return bisection_data(followed.result)
    if followed.out is None:
        return {}
    data = load((followed.out / "bisect.json").read_bytes())
    return data if isinstance(data, dict) else {}


def merge_findings(found: Sequence[Finding], known: Sequence[Finding]) -> tuple[Finding, ...]:
    """What was followed up, in place of what was said of the same metric before."""
    told = {(one.case, one.metric) for one in found}
    also = {name for one in found if one.verdict != "worse" for name in one.evidence.get("also", ())}
    rest = [
        one
        for one in known
        if (one.case, one.metric) not in told and f"{one.metric} of {one.case}" not in also
    ]
    return (*found, *rest)
