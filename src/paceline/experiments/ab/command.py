"""From an A/B file to its result: what the command line does, for whoever wants it from Python."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.errors import PacelineError
from paceline.experiments.ab.arms import Arm, make_arms
from paceline.experiments.ab.experiment import Experiment, Schedule, fingerprint, make_schedule, plan_arms
from paceline.experiments.ab.folders import is_folder, read_folder
from paceline.experiments.ab.places import check_resumable, find_directory, write_results
from paceline.experiments.ab.remember import remember
from paceline.experiments.ab.result import ABResult
from paceline.experiments.ab.spec import ABSpec, read_spec
from paceline.experiments.builds.cache import default_cache_dir
from paceline.experiments.journal import Journal
from paceline.history.urls import passwords_in
from paceline.model import Plan
from paceline.plan import find_results_dir, plan_errors
from paceline.record.redact import Redactor
from paceline.session.history import choose_database
from paceline.session.request import Request, load_config

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ABRequest:
    """What a user asks of `paceline ab`; options that are given win over the file's keys."""

    path: Path
    out: Path | None = None
    resume: bool = False
    results_dir: Path | None = None
    db: str | None = None
    cache_dir: Path = field(default_factory=default_cache_dir)
    max_runs: int | None = None
    max_time_s: float | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An A/B test that could begin."""

    spec: ABSpec
    arms: tuple[Arm, ...]
    plans: dict[str, Plan]
    schedule: Schedule
    notes: tuple[str, ...] = ()

    @property
    def secret_values(self) -> tuple[str, ...]:
        return tuple(value for plan in self.plans.values() for value in plan.secret_values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A result, where its files are, and what masks secrets in whatever else is told of it."""

    result: ABResult
    directory: Path
    redactor: Redactor


def prepare_ab(request: ABRequest, say: Say = lambda line: None, *, build: bool = True) -> Prepared:
    """Read the file, make the arms ready and plan a run of each; without `build`, no environment is made."""
    spec = _with_options(_read(request), request)
    schedule = make_schedule(spec)
    results_dir = _results_dir(request, spec)
    arms, notes = make_arms(spec, directory=results_dir, cache_dir=request.cache_dir, say=say, build=build)
    plans = plan_arms(arms)
    errors = [error for plan in plans.values() for error in plan_errors(plan)]
    if errors:
        raise PacelineError("\n".join(dict.fromkeys(errors)))
    return Prepared(spec=spec, arms=arms, plans=plans, schedule=schedule, notes=(*spec.notes, *notes))


def run_ab(request: ABRequest, say: Say = lambda line: None) -> Outcome:
    """Run an A/B test, or go on with the one that was cut short."""
    database = choose_database(request.db, None, enabled=request.db is not None)
    if request.resume and request.out is not None:
        check_resumable(request.out)
    prepared = prepare_ab(request, say)
    mark = fingerprint(prepared.spec, prepared.arms, prepared.plans)
    directory = _directory(request, prepared, mark, say)
    arms = tuple(replace(arm, setting=replace(arm.setting, directory=directory)) for arm in prepared.arms)
    redactor = Redactor((*prepared.secret_values, *passwords_in(database)))
    with Journal(directory) as journal:
        experiment = Experiment(prepared.spec, arms, prepared.plans, journal, say=say, notes=prepared.notes)
        result = experiment.run(lambda so_far: write_results(so_far, directory, redactor))
        write_results(result, directory, redactor)
    if database is not None:
        say(f"{remember(directory, arms, database)} records are new in the history")
    return Outcome(result=result, directory=directory, redactor=redactor)


def _read(request: ABRequest) -> ABSpec:
    if is_folder(request.path):
        return read_folder(request.path, files=request.cache_dir / "arms")
    return read_spec(request.path, os.environ)


def _with_options(spec: ABSpec, request: ABRequest) -> ABSpec:
    if request.max_runs is not None:
        spec = replace(spec, max_runs=request.max_runs)
    if request.max_time_s is not None:
        spec = replace(spec, max_time_s=request.max_time_s)
    return spec if request.seed is None else replace(spec, seed=request.seed)


def _results_dir(request: ABRequest, spec: ABSpec) -> Path:
    if request.results_dir is not None:
        return request.results_dir.absolute()
    return find_results_dir(load_config(Request(configs=spec.configs, skipped=spec.skipped)))


def _directory(request: ABRequest, prepared: Prepared, mark: str, say: Say) -> Path:
    if request.out is not None:
        return request.out.absolute()
    results_dir = prepared.arms[0].setting.directory
    directory, goes_on = find_directory(results_dir, prepared.spec.name, mark)
    if goes_on:
        say(f"goes on with {directory}")
    elif request.resume:
        check_resumable(directory)
    return directory
