"""A good and a bad end in, the culprit between them out, with how sure that is.

Candidates are built, cases run, and every run is in a journal before the next.
"""

import functools
import math
import os
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.errors import BuildError, PacelineError, SelectionError
from paceline.experiments import trials
from paceline.experiments.bisect.report import (
    GOOD,
    BisectionResult,
    Question,
    bisection_data,
    bisection_markdown,
    bisection_page,
)
from paceline.experiments.bisect.search import Limits, Run, Search
from paceline.experiments.builds.build import Builder, Built, Candidate, diff, diff_stat
from paceline.experiments.explain.explanation import Explanation, explain
from paceline.experiments.journal import Journal, write_report
from paceline.experiments.trials import TrialSetting
from paceline.metrics import is_steady
from paceline.model import Case, Record, Status, is_finite, one_spelling
from paceline.plan import find_results_place
from paceline.record.codec import digest, dump
from paceline.record.layout import safe_name
from paceline.record.remote.address import working_dir
from paceline.session.request import Request, load_config, prepare

MEASURED = frozenset({Status.PASSED, Status.REQUIREMENT_FAILED})
"""How a case ends whose numbers count: one that misses its bounds was measured all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectTask:
    """All that a bisection needs."""

    configs: tuple[Path, ...]
    case: Case
    question: Question
    builder: Builder
    limits: Limits
    out: Path
    datasets: Path | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    explains: bool = False
    """Whether the culprit and what lies before it run once more under a profiler."""

    @property
    def key(self) -> str:
        """The same for the same runs: a search may go on with higher limits, or look for the opposite."""
        question, builder = self.question, self.builder
        steps = [
            [one.ident, one.revision, one.packages, one.overlay]
            for one in (question.good, *question.candidates)
        ]
        build = [str(builder.repo), builder.setup, builder.install, builder.options]
        asked = [self.case.key, self.case.fingerprint, question.metric, steps, build]
        return digest(asked)

    def placed_under(self, parent: Path) -> "BisectTask":
        """The same task in a directory of its own, always the same one for the same question."""
        out = parent / "bisect" / f"{safe_name(self.case.name)}-{self.key[:10]}"
        return replace(self, out=out, builder=replace(self.builder, log=out / "build.log"))


OnRun = Callable[[Run, Search, Candidate], None]
"""Called after every run that is new, with the search as it stands then."""


def run_bisection(
    task: BisectTask,
    on_run: OnRun,
    *,
    ends_only: bool = False,
    ends_at_s: float = math.inf,
    most_runs: float = math.inf,
) -> BisectionResult:
    """Search until it is over; what ran before, in this process or one that was killed, is not run again.

    With `ends_only` it stops as soon as the ends are known to differ, or not to; a later call goes on from there.
    `ends_at_s` is a moment of the monotonic clock after which no run begins, `most_runs` how many begin in this call.
    """
    with Journal(task.out) as journal:
        _check_same(journal, task)
        search = Search(task.question, task.limits)
        for entry in journal.of("run"):
            _take(search, entry)
        build = functools.cache(task.builder.build)
        ends_with = len(search.runs) + most_runs
        while (index := search.next()) is not None and not (ends_only and search.guess):
            if time.monotonic() >= ends_at_s or len(search.runs) >= ends_with:
                break
            run, facts = _measure(task, build, search, index)
            data = {"index": index, "value": run.value, "reason": run.reason, "took_s": round(run.took_s, 6)}
            _take(search, journal.append("run", **data, **facts))
            on_run(run, search, task.question.at(index))
        runs = list(journal.of("run"))
    copies = dict.fromkeys(entry["script"] for entry in runs if "script" in entry)
    notes = [f"{name} lies in the repository: each revision ran its own copy" for name in copies]
    disturbed = [entry["disturbed"] for entry in runs if "disturbed" in entry]
    if disturbed:
        some = f"{len(disturbed):,} of {len(runs):,} runs were disturbed, each three times"
        notes.append(f"{some} ({disturbed[0]}): this is less sure than it says")
    result = replace(search.result(), origin=task.origin, notes=(*task.notes, *notes))
    culprit, repo = result.named, task.builder.repo
    if culprit is not None and repo is not None and culprit.kind == "commit":
        result = replace(result, diff_stat=diff_stat(repo, culprit.revision))
    if task.explains and result.ending == "found" and not result.improved and time.monotonic() < ends_at_s:
        return replace(result, explained=_explain(task, result, build), reproduce=_reproduce(task, result))
    return result


def _before_culprit(result: BisectionResult) -> Candidate:
    """The last candidate before the culprit that could be measured."""
    places = [one.index for one in result.tested if one.values and one.index < (result.culprit or 0)]
    return result.at(max(places, default=GOOD))


def _explain(
    task: BisectTask, result: BisectionResult, build: Callable[[Candidate], Built]
) -> Explanation | None:
    """Where the difference is spent that the culprit made."""
    sides, trees = [], []
    for candidate in (_before_culprit(result), result.named):
        if candidate is None:
            return None
        built = build(candidate)
        trees.append(built.worktree)
        sides.append(
            TrialSetting(
                name=f"explained-{candidate.label}",
                directory=task.out,
                configs=task.configs,
                datasets=task.datasets,
                venv=built.venv,
                worktree=built.worktree,
            )
        )
    before, tree = trees
    return explain(
        task.case,
        result.metric,
        result.unit,
        (sides[0], sides[1]),
        diff=lambda files: diff(tree.path, before.revision, files) if tree and before else "",
        out=task.out / "explained",
    )


def _reproduce(task: BisectTask, result: BisectionResult) -> str:
    """The command that measures the culprit against what lies before it."""
    culprit, before, builder = result.named, _before_culprit(result), task.builder
    if culprit is None or builder.repo is None or not (culprit.revision and before.revision):
        return ""
    words = ["paceline", "check", *map(str, task.configs), "--repo", str(builder.repo)]
    words += ["--datasets", str(task.datasets)] if task.datasets else []
    words += ["--setup", shlex.join(builder.setup)] if builder.setup else []
    words += [word for spec in builder.install for word in ("--install", spec)]
    words += ["--base", before.revision, "--head", culprit.revision]
    return shlex.join([*words, "--only", task.case.name, "--metric", result.metric])


def _check_same(journal: Journal, task: BisectTask) -> None:
    """A directory holds one question; another one needs another directory."""
    begun = next(journal.of("bisection"), None)
    if begun is None:
        good, bad = task.question.good.ident, task.question.bad.ident
        metric = task.question.metric
        journal.append("bisection", key=task.key, case=task.case.key, metric=metric, good=good, bad=bad)
    elif begun.get("key") != task.key:
        raise PacelineError(
            f"{task.out} holds another bisection ({begun.get('metric')} of {begun.get('case')}, "
            f"{begun.get('good')} to {begun.get('bad')}, or an edited suite): give another --out, or --force"
        )


def _measure(
    task: BisectTask, build: Callable[[Candidate], Built], search: Search, index: int
) -> tuple[Run, dict[str, Any]]:
    """One run of a candidate, and what it says of the metric."""
    began = time.monotonic()
    candidate = task.question.at(index)
    number = sum(run.index == index for run in search.runs) + 1
    facts: dict[str, Any] = {"trial": number, "state": candidate.ident}
    try:
        built = build(candidate)
    except BuildError as error:
        reason = f"cannot be built: {str(error).splitlines()[0]}"
        return Run(index=index, value=None, reason=reason, took_s=time.monotonic() - began), facts
    name = f"{'good' if index == GOOD else f'{index:04d}'}-{candidate.label}"
    setting = TrialSetting(name=name, directory=task.out, configs=task.configs, datasets=task.datasets)
    metric = task.question.metric
    record, disturbance = run_case(task.case, setting, built, number, metric)
    if disturbance:
        facts["disturbed"] = disturbance
    value, reason = measured_value(record, metric)
    own, tree = task.case.script, built.worktree
    if (
        own
        and tree
        and tree.top
        and str(copy := tree.path / os.path.relpath(own, tree.top)) in record.command
    ):
        facts["script"] = name = os.path.relpath(own, tree.top)
        if not copy.exists():
            reason = f"it has no {name}; write {{repo_dir}} into the entry to measure it by your own copy"
    if value is not None:
        facts |= {"unit": record.metrics[metric].unit, "direction": record.metrics[metric].direction}
    return Run(index=index, value=value, reason=reason, took_s=time.monotonic() - began), facts


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


def write_result(result: BisectionResult, out: Path) -> None:
    """The three files of a result."""
    files = {
        "bisect.json": dump(bisection_data(result), pretty=True),
        "bisect.md": bisection_markdown(result).encode("utf-8", "replace"),
        "bisect.html": bisection_page(result).encode("utf-8", "replace"),
    }
    write_report(out, files)


def run_case(case: Case, setting: TrialSetting, built: Built, number: int, metric: str) -> tuple[Record, str]:
    """One trial of one case alone, in what was built for it, and what disturbed it where that tells in the metric.

    A trial that was disturbed is made again, twice at most.
    """
    alone = replace(setting, only=(case.name,), jobs=1, venv=built.venv, worktree=built.worktree)
    for name in (alone.name, f"{alone.name}-again", f"{alone.name}-once-more"):
        made = trials.run_trial(replace(alone, name=name), number)
        record = next(record for record in made if record.case.key == case.key)
        measured = record.metrics.get(metric)
        if not record.disturbance or is_steady(metric, measured.unit if measured else None):
            return record, ""
    return record, record.disturbance


def measured_value(record: Record, metric: str) -> tuple[float | None, str]:
    """What was measured, or why nothing was."""
    if record.status not in MEASURED:
        return None, f"{record.status.value.replace('_', ' ')}: {record.reason}".rstrip(": ")
    measured = record.metrics.get(metric)
    if measured is None or not is_finite(measured.value):
        known = ", ".join(sorted(name for name, one in record.metrics.items() if is_finite(one.value)))
        return None, f"it has no number {metric}, only {known}"
    return float(measured.value), ""


def results_dir_of(request: Request) -> Path:
    """Where the suite's sessions are kept on this machine, and its bisections beside them."""
    place = request.results_dir or find_results_place(load_config(request))
    return working_dir(place)


def case_of(request: Request, wanted: str) -> Case:
    """The one case of that name or key, or the only one of that entry.

    What is wrong with other cases of the suite does not matter.
    """
    try:
        cases = prepare(replace(request, only=(wanted,))).cases
    except SelectionError:
        cases = prepare(request).cases
    exact = [case for case in cases if wanted in (case.name, case.key) or one_spelling(wanted) == case.name]
    found = exact or [case for case in cases if case.entry == wanted]
    if len(found) == 1:
        return found[0]
    names = ", ".join(case.name for case in (found or cases)[:10])
    if found:
        raise PacelineError(f"{wanted!r} is {len(found)} cases: name one of {names}")
    why = next((f"; {case.blocked}" for case in cases if case.blocked), "")
    raise PacelineError(f"the suite has no case {wanted!r}: it has {names}{why}")
