"""The suite at a base and at a head, in turns on one machine, by the engine of A/B tests: what did the head lose?"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.errors import BuildError, PacelineError
from paceline.experiments.ab.ab_test import Prepared, add_to_history, find_directory
from paceline.experiments.ab.arms import Arm
from paceline.experiments.ab.experiment import Experiment, make_schedule, plan_arms
from paceline.experiments.ab.report import ABResult, ArmComparison, by_effect
from paceline.experiments.ab.spec import ABSpec, ArmOptions, ArmSpec
from paceline.experiments.builds.build import (
    Builder,
    Built,
    Candidate,
    diff,
    merge_base,
    missing_script,
    resolve,
    subjects,
)
from paceline.experiments.builds.snapshot import snapshot, uncommitted
from paceline.experiments.explain.explanation import Explanation, explain
from paceline.experiments.journal import Journal
from paceline.experiments.trials import TrialSetting
from paceline.model import Case, Plan, Setting
from paceline.record.layout import suite_name
from paceline.record.redact import Redactor, credentials_in
from paceline.record.repository import default_branch, is_shallow
from paceline.session.request import Request, load_config, prepare

BASE, HEAD = "base", "head"
_EXPLAINED = 3
"""Cases that are profiled, those that lost most."""
_SHOWN = 5
"""Names of cases that are not selected and still listed."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTask:
    """What is to be checked. An empty `base` is the default branch, an empty `head` the tree as it is."""

    request: Request
    repo: Path
    builder: Builder
    results_dir: Path
    base: str = ""
    head: str = ""
    fail_above: float = 0.05
    metrics: tuple[str, ...] = ()
    max_runs: int = 200
    max_time_s: float = 600.0
    vary_hash_seed: bool = True
    database: str | None = None
    words: tuple[str, ...] = ()
    explains: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: its tree and environment, and what it is called."""

    revision: str
    title: str
    built: Built
    note: str = ""
    """What is to be said of it: that it is the merge base, or has uncommitted changes."""

    @property
    def label(self) -> str:
        return f"{self.revision[:12]} ({self.note})" if self.note else self.revision[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """A case, or some of them, that took no part, and why."""

    case: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What a check found."""

    ab: ABResult
    base: Side
    head: Side
    fail_above: float
    not_run: tuple[NotRun, ...] = ()
    sources: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """The file and line that each case comes from."""
    directory: Path = Path()
    suite: str = ""
    words: tuple[str, ...] = ()
    """The words of the command that name suite, repository and build."""
    explained: tuple[Explanation, ...] = ()

    @property
    def losses(self) -> tuple[ArmComparison, ...]:
        return tuple(one for one in self.ab.comparisons if one.verdict == "worse")

    @property
    def failing(self) -> tuple[str, ...]:
        """Cases that pass at the base and fail at the head."""
        return tuple(one.case for one in self.ab.missing if one.is_new)

    @property
    def exit_code(self) -> int:
        return self.ab.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A check that could begin."""

    task: CheckTask
    base: Side
    head: Side
    prepared: Prepared
    not_run: tuple[NotRun, ...]

    @property
    def redactor(self) -> Redactor:
        return Redactor((*self.prepared.secret_values, *credentials_in(self.task.database or "")))


def prepare_check(task: CheckTask, say: Say) -> Ready:
    """Find both sides, build them and plan a run of each; what cannot run on both is left out, with the reason."""
    base, head = _sides(task, say)
    spec = ABSpec(
        name="check",
        base=Path.cwd(),
        configs=task.request.configs,
        arms=tuple(ArmSpec(name=name, options=ArmOptions()) for name in (BASE, HEAD)),
        metrics=dict.fromkeys(task.metrics),
        null_arm=False,
        max_runs=task.max_runs,
        max_time_s=task.max_time_s,
        margin=task.fail_above,
        vary_hash_seed=task.vary_hash_seed,
    )
    arms = tuple(_arm(task, name, side) for name, side in ((BASE, base), (HEAD, head)))
    arms, plans, absent = plan_arms(arms)
    not_run = [*_not_selected(task, plans[HEAD]), *(_absent(arm, case) for arm, case in absent)]
    unable = _unable(plans, {BASE: base, HEAD: head})
    not_run += unable
    if unable:
        rest = tuple(case.name for case in plans[HEAD].cases if case.name not in {one.case for one in unable})
        if not rest:
            whys = "; ".join(f"{one.case}: {one.why}" for one in unable[:3])
            raise PacelineError(f"nothing was compared: no case can run on both sides ({whys})")
        arms = tuple(replace(arm, setting=replace(arm.setting, only=rest, exclude=())) for arm in arms)
        arms, plans, _ = plan_arms(arms)
    prepared = Prepared(spec=spec, arms=arms, plans=plans, schedule=make_schedule(spec))
    return Ready(task=task, base=base, head=head, prepared=prepared, not_run=tuple(not_run))


def run_check(ready: Ready, say: Say) -> CheckResult:
    """Run both sides in turns until every metric is decided or the budget is spent."""
    prepared, task = ready.prepared, ready.task
    directory = find_directory(prepared, "check-", say)
    arms = tuple(replace(arm, setting=replace(arm.setting, directory=directory)) for arm in prepared.arms)
    with Journal(directory) as journal:
        experiment = Experiment(prepared.spec, arms, prepared.plans, journal, say=say, allow_missing=True)
        found = experiment.run()
    if task.database is not None:
        say(f"{add_to_history(directory, arms, task.database)} records are new in the history")
    cases = prepared.plans[HEAD].cases
    result = CheckResult(
        ab=found,
        base=ready.base,
        head=ready.head,
        fail_above=task.fail_above,
        not_run=ready.not_run,
        sources={case.name: (_relative(case, task.repo), case.source.line) for case in cases},
        directory=directory,
        suite=suite_name(task.request.configs[0]),
        words=task.words,
    )
    return replace(result, explained=_explain(result, ready, arms, say)) if task.explains else result


def _explain(result: CheckResult, ready: Ready, arms: Sequence[Arm], say: Say) -> tuple[Explanation, ...]:
    """Why the largest losses are: each case once more on both sides, under a profiler."""
    worst = {one.case: one for one in reversed(by_effect(result.losses))}
    cases = {case.name: case for case in ready.prepared.plans[HEAD].cases}
    tree = ready.head.built.worktree
    found = []
    for name in list(worst)[::-1][:_EXPLAINED]:
        say(f"profiles {name} on both sides")
        found.append(
            explain(
                cases[name],
                worst[name].metric,
                worst[name].unit,
                (arms[0].setting, arms[1].setting),
                diff=lambda files: diff(tree.path, ready.base.revision, files) if tree else "",
                out=result.directory / "explained",
            )
        )
    return tuple(found)


def _sides(task: CheckTask, say: Say) -> tuple[Side, Side]:
    repo = task.repo
    apart = (task.results_dir, task.builder.cache_dir)
    changed = uncommitted(repo, but=apart) if not task.head else ()
    head = resolve(repo, task.head or "HEAD")
    wanted = task.base or _default_base(repo)
    tip = resolve(repo, wanted)
    base = merge_base(repo, tip, head)
    if not base:
        why = (
            "the clone is shallow: fetch its history (fetch-depth: 0)"
            if is_shallow(repo)
            else "none is known"
        )
        raise BuildError(f"{wanted} and {task.head or 'HEAD'} have no commit in common: {why}")
    if base == head and not changed:
        raise PacelineError(
            f"nothing was compared: {task.head or 'HEAD'} has nothing that {wanted} does not have; give another --base"
        )
    titles = subjects(repo, [base, head])
    notes = f"merge base with {wanted}" if base != tip else wanted
    say(f"base {base[:12]} ({notes}), head {head[:12]}{' with uncommitted changes' if changed else ''}")
    tree = snapshot(repo, changed, cache_dir=task.builder.cache_dir) if changed else None
    sides = []
    for revision, note, given in (
        (base, notes, None),
        (head, "with uncommitted changes" if tree else "", tree),
    ):
        candidate = Candidate(ident=revision, label=revision[:12], revision=revision)
        built = task.builder.build(candidate, tree=given)
        sides.append(Side(revision=revision, title=titles.get(revision, ""), built=built, note=note))
    return sides[0], sides[1]


def _default_base(repo: Path) -> str:
    """What the head is to be merged into: as the CI says, else the default branch."""
    for variable in ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"):
        if name := os.environ.get(variable):
            return f"origin/{name}"
    _, *tips = default_branch(repo)
    if not tips:
        raise BuildError(f"{repo} has no default branch that is known: give --base")
    return tips[0].removeprefix("refs/remotes/").removeprefix("refs/heads/")


def _arm(task: CheckTask, name: str, side: Side) -> Arm:
    request = task.request
    setting = TrialSetting(
        name=name,
        directory=task.results_dir,
        configs=request.configs,
        datasets=request.datasets,
        only=request.only,
        exclude=request.exclude,
        jobs=request.jobs,
        venv=side.built.venv,
        worktree=side.built.worktree,
        details={"arm": name},
    )
    return Arm(name=name, setting=setting, facts={"revision": side.revision})


def _not_selected(task: CheckTask, plan: Plan) -> list[NotRun]:
    """What the selection leaves out, in one line, and evals, which no experiment runs."""
    request = replace(task.request, only=(), exclude=(), setting=Setting())
    evals = load_config(request).config.evals is not None
    found = [NotRun(case="evals", why="a check runs entries only")] if evals else []
    if not (task.request.only or task.request.exclude):
        return found
    chosen = {case.name for case in plan.cases}
    left = [case.name for case in prepare(request).cases if case.name not in chosen]
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    return [*found, *([NotRun(case=f"{', '.join(left[:_SHOWN])}{more}", why="not selected")] if left else [])]


def _absent(arm: str, case: str) -> NotRun:
    return NotRun(case=case, why=f"the {arm} does not have it")


def _unable(plans: Mapping[str, Plan], sides: Mapping[str, Side]) -> list[NotRun]:
    """Cases that cannot run on a side: what they run is not there, or a variable is not set."""
    found: dict[str, NotRun] = {}
    for name, plan in plans.items():
        for case in plan.cases:
            lacking = missing_script(case, sides[name].built.worktree)
            if why := case.blocked or (lacking and f"the {name} has no {lacking}"):
                found.setdefault(case.name, NotRun(case=case.name, why=why))
    return list(found.values())


def _relative(case: Case, repo: Path) -> str:
    return os.path.relpath(case.source.file, repo) if case.source.file else ""
