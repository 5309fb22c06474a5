"""A bisection from its first run to its report: states made, cases run, every run in a journal before the next."""

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.errors import BuildError, PacelineError, SelectionError, SessionError
from paceline.experiments.bisect.page import bisection_markdown, bisection_page
from paceline.experiments.bisect.result import BisectionResult, Candidate, bisection_data
from paceline.experiments.bisect.searching import GOOD, Limits, Question, Run, Search
from paceline.experiments.builds.workshop import Made, State, Workshop
from paceline.experiments.builds.worktrees import diff_stat
from paceline.experiments.journal import Journal
from paceline.experiments.trials import TrialSetting, run_trial
from paceline.model import Case, Direction, Measurement, Record, Status
from paceline.plan import find_results_place
from paceline.record.atomic import write_atomic
from paceline.record.codec import dump
from paceline.record.layout import safe_name
from paceline.record.remote.address import working_dir
from paceline.session.request import Request, load_config, prepare

MEASURED = frozenset({Status.PASSED, Status.REQUIREMENT_FAILED})
"""How a case ends whose numbers count: one that misses its bounds was measured all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectTask:
    """All that a bisection needs; `good` lies before the first of `states`, the last of which is bad."""

    configs: tuple[Path, ...]
    case: Case
    metric: str
    good: State
    states: tuple[State, ...]
    workshop: Workshop
    limits: Limits
    out: Path
    datasets: Path | None = None
    unit: str | None = None
    direction: Direction | None = None
    improved: bool = False
    origin: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The same for the same runs: a search may go on with higher limits, or look for the opposite."""
        states = [[one.candidate.ident, one.revision, one.packages, one.overlay] for one in self.all_states]
        shop = self.workshop
        made = [str(shop.repo), shop.setup, shop.install, shop.options]
        asked = [self.case.key, self.case.fingerprint, self.metric, states, made]
        return hashlib.sha256(dump(asked)).hexdigest()[:16]

    @property
    def all_states(self) -> tuple[State, ...]:
        return (self.good, *self.states)

    def state(self, index: int) -> State:
        return self.good if index == GOOD else self.states[index]

    def placed_under(self, parent: Path) -> "BisectTask":
        """The same task in a directory of its own, always the same one for the same question."""
        out = parent / "bisect" / f"{safe_name(self.case.name)}-{self.key[:10]}"
        return replace(self, out=out, workshop=replace(self.workshop, log=out / "build.log"))

    def question(self) -> Question:
        return Question(
            case=self.case.name,
            metric=self.metric,
            unit=self.unit,
            direction=self.direction,
            improved=self.improved,
            good=self.good.candidate,
            candidates=tuple(state.candidate for state in self.states),
        )


OnRun = Callable[[Run, Search, Candidate], None]
"""Told of every run that is new, with the search as it stands then."""


def run_bisection(
    task: BisectTask, on_run: OnRun, *, ends_only: bool = False, ends_at_s: float = math.inf
) -> BisectionResult:
    """Search until it is over; what ran before, in this process or one that was killed, is not run again.

    With `ends_only` it stops as soon as the ends are known to differ, or not to; a later call goes on from there.
    `ends_at_s` is a moment of the monotonic clock after which no run begins.
    """
    with Journal(task.out) as journal:
        _check_same(journal, task)
        search = Search(task.question(), task.limits)
        for entry in journal.of("run"):
            _take(search, entry)
        maker = _Maker(task)
        while (index := search.next()) is not None and not (ends_only and search.guess):
            if time.monotonic() >= ends_at_s:
                break
            run, told = _measure(task, maker, search, index)
            _take(search, journal.append("run", **_run_data(run), **told))
            on_run(run, search, task.state(index).candidate)
    return _explained(replace(search.result(), origin=task.origin, notes=task.notes), task)


def _explained(result: BisectionResult, task: BisectTask) -> BisectionResult:
    """The result with what the culprit changed."""
    if result.culprit is None:
        return result
    revision = task.states[result.culprit].revision
    if task.workshop.repo is None or result.candidates[result.culprit].kind != "commit":
        return result
    return replace(result, diff_stat=diff_stat(task.workshop.repo, revision))


def write_result(result: BisectionResult, out: Path) -> None:
    """The three files of a result."""
    files = {
        "bisect.json": dump(bisection_data(result), pretty=True),
        "bisect.md": bisection_markdown(result).encode("utf-8", "replace"),
        "bisect.html": bisection_page(result).encode("utf-8", "replace"),
    }
    try:
        for name, data in files.items():
            write_atomic(out / name, data)
    except OSError as error:
        raise SessionError(f"cannot write the report: {out}: {error.strerror or error}") from error


def _check_same(journal: Journal, task: BisectTask) -> None:
    """A directory holds one question; another one needs another directory."""
    begun = next(journal.of("bisection"), None)
    if begun is None:
        good, bad = task.good.candidate.ident, task.states[-1].candidate.ident
        journal.append("bisection", key=task.key, case=task.case.key, metric=task.metric, good=good, bad=bad)
    elif begun.get("key") != task.key:
        raise PacelineError(
            f"{task.out} holds another bisection ({begun.get('metric')} of {begun.get('case')}, "
            f"{begun.get('good')} to {begun.get('bad')}, or an edited suite): give another --out, or --fresh"
        )


class _Maker:
    """Makes each state ready once in this process; one that cannot be made is not tried again."""

    def __init__(self, task: BisectTask) -> None:
        self._task = task
        self._made: dict[int, Made] = {}

    def make(self, index: int) -> Made:
        if index not in self._made:
            self._made[index] = self._task.workshop.make(self._task.state(index))
        return self._made[index]


def _measure(task: BisectTask, maker: _Maker, search: Search, index: int) -> tuple[Run, dict[str, Any]]:
    """One run of a state, and what it told of the metric."""
    began = time.monotonic()
    number = sum(run.index == index for run in search.runs) + 1
    told: dict[str, Any] = {"trial": number, "state": task.state(index).candidate.ident}
    try:
        made = maker.make(index)
    except BuildError as error:
        reason = f"cannot be built: {str(error).splitlines()[0]}"
        return Run(index=index, value=None, reason=reason, took_s=time.monotonic() - began), told
    records = run_trial(_setting(task, index, made), number)
    record = next(record for record in records if record.case.key == task.case.key)
    value, reason = measured_value(record, task.metric)
    if value is not None:
        measured = record.metrics[task.metric]
        told |= {"unit": measured.unit, "direction": measured.direction}
    return Run(index=index, value=value, reason=reason, took_s=time.monotonic() - began), told


def _setting(task: BisectTask, index: int, made: Made) -> TrialSetting:
    candidate = task.state(index).candidate
    name = "good" if index == GOOD else f"{index:04d}"
    return TrialSetting(
        name=f"{name}-{candidate.label}",
        directory=task.out,
        configs=task.configs,
        datasets=task.datasets,
        only=(task.case.name,),
        jobs=1,
        venv=made.venv,
        worktree=made.worktree,
    )


def measured_value(record: Record, metric: str) -> tuple[float | None, str]:
    """What was measured, or why nothing was."""
    if record.status not in MEASURED:
        return None, f"{record.status.value.replace('_', ' ')}: {record.reason}".rstrip(": ")
    measured = record.metrics.get(metric)
    number = _number(measured)
    if number is None:
        known = ", ".join(sorted(name for name, one in record.metrics.items() if _number(one) is not None))
        return None, f"it has no number {metric}, only {known}"
    return number, ""


def _number(measured: Measurement | None) -> float | None:
    value = measured.value if measured else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _run_data(run: Run) -> dict[str, Any]:
    return {"index": run.index, "value": run.value, "reason": run.reason, "took_s": round(run.took_s, 6)}


def _take(search: Search, entry: Mapping[str, Any]) -> None:
    """A run as the journal has it, which is all that a search knows of it."""
    search.describe(entry.get("unit"), entry.get("direction"))
    value = entry["value"]
    search.add(
        Run(
            index=int(entry["index"]),
            value=None if value is None else float(value),
            reason=str(entry.get("reason", "")),
            took_s=float(entry.get("took_s", 0.0)),
        )
    )


def case_of(request: Request, wanted: str) -> Case:
    """The case of that name or key; what is wrong with other cases of the suite does not matter."""
    try:
        cases = prepare(replace(request, only=(wanted,))).cases
    except SelectionError:
        cases = prepare(request).cases
    return find_case(cases, wanted)


def place_for(request: Request) -> Path:
    """Where the suite's sessions are kept on this machine, and its bisections beside them."""
    place = request.results_dir or find_results_place(load_config(request))
    return working_dir(place)


def find_case(cases: Sequence[Case], wanted: str) -> Case:
    """The one case of that name or key, or the only one of that entry."""
    exact = [case for case in cases if wanted in (case.name, case.key)]
    found = exact or [case for case in cases if case.entry == wanted]
    if len(found) == 1:
        return found[0]
    names = ", ".join(case.name for case in (found or cases)[:10])
    if found:
        raise PacelineError(f"{wanted!r} is {len(found)} cases: name one of {names}")
    raise PacelineError(f"the suite has no case {wanted!r}: it has {names}")
