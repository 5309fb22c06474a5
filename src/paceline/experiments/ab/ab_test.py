"""A/B tests: the same suite in two or more settings, interleaved until the difference is known or the budget spent.

From an A/B file to its result: what the command line does, for everybody who wants it from Python.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from paceline.errors import PacelineError, SessionError
from paceline.experiments.ab.arms import Arm, make_arms
from paceline.experiments.ab.experiment import (
    BEGIN,
    END,
    Experiment,
    Schedule,
    fingerprints,
    make_schedule,
    plan_arms,
)
from paceline.experiments.ab.folders import is_folder, read_folder
from paceline.experiments.ab.report import ABResult, markdown, page, result_json
from paceline.experiments.ab.spec import ABSpec, read_spec
from paceline.experiments.builds.cache import default_cache_dir
from paceline.experiments.journal import FILE, Journal, write_report
from paceline.experiments.trials import TRIALS
from paceline.history.urls import RESULTS
from paceline.model import Plan
from paceline.plan import find_results_dir, plan_errors
from paceline.record.codec import dump
from paceline.record.files import read_lines
from paceline.record.layout import safe_name
from paceline.record.redact import Redactor, credentials_in
from paceline.session.history import choose_database
from paceline.session.request import Request, load_config

KIND = "ab"

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
    vary_hash_seed: bool | None = None
    allow_missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An A/B test that could begin."""

    spec: ABSpec
    arms: tuple[Arm, ...]
    plans: dict[str, Plan]
    schedule: Schedule
    notes: tuple[str, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()

    @property
    def secret_values(self) -> tuple[str, ...]:
        return tuple(value for plan in self.plans.values() for value in plan.secret_values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A result, where its files are, and what masks secrets in whatever else is said of it."""

    result: ABResult
    directory: Path
    redactor: Redactor


def find_spec(request: ABRequest) -> ABSpec:
    """What the file says, or a directory of files."""
    if is_folder(request.path):
        return read_folder(request.path, files=request.cache_dir / "arms")
    return read_spec(request.path, os.environ)


def prepare_ab(request: ABRequest, say: Say = lambda line: None, *, build: bool = True) -> Prepared:
    """Read the file, make the arms ready and plan a run of each; without `build`, no environment is made."""
    spec = find_spec(request)
    given = {name: getattr(request, name) for name in ("max_runs", "max_time_s", "seed", "vary_hash_seed")}
    spec = replace(spec, **{name: value for name, value in given.items() if value is not None})
    schedule = make_schedule(spec)
    if request.results_dir is not None:
        results_dir = request.results_dir.absolute()
    else:
        results_dir = find_results_dir(load_config(Request(configs=spec.configs, skipped=spec.skipped)))
    arms, notes = make_arms(spec, directory=results_dir, cache_dir=request.cache_dir, say=say, build=build)
    arms, plans, absent = plan_arms(arms)
    errors = [error for plan in plans.values() for error in plan_errors(plan)]
    if errors:
        raise PacelineError("\n".join(dict.fromkeys(errors)))
    notes = (*spec.notes, *notes, *(f"arm {arm} does not have {case}: left out" for arm, case in absent))
    return Prepared(spec=spec, arms=arms, plans=plans, schedule=schedule, notes=notes, absent=absent)


def run_ab(request: ABRequest, say: Say = lambda line: None) -> Outcome:
    """Run an A/B test, or go on with the one that was cut short."""
    database = choose_database(request.db, None, RESULTS, enabled=request.db is not None)
    if request.resume and request.out is not None:
        _check_resumable(request.out)
    prepared = prepare_ab(request, say)
    directory = _find_directory(request, prepared, say)
    arms = tuple(replace(arm, setting=replace(arm.setting, directory=directory)) for arm in prepared.arms)
    redactor = Redactor((*prepared.secret_values, *credentials_in(database or "")))
    with Journal(directory) as journal:
        experiment = Experiment(
            prepared.spec,
            arms,
            prepared.plans,
            journal,
            say=say,
            notes=prepared.notes,
            absent=prepared.absent,
            allow_missing=request.allow_missing,
        )
        result = experiment.run(lambda so_far: _write_results(so_far, directory, redactor))
        _write_results(result, directory, redactor)
    if database is not None:
        say(f"{add_to_history(directory, arms, database)} records are new in the history")
    return Outcome(result=result, directory=directory, redactor=redactor)


def _find_directory(request: ABRequest, prepared: Prepared, say: Say) -> Path:
    """The directory that was asked for, else that of the newest test that is the same and not over, else a new one."""
    if request.out is not None:
        return request.out.absolute()
    path = find_directory(prepared, f"ab-{safe_name(prepared.spec.name)}-", say)
    if request.resume:
        _check_resumable(path)
    return path


def find_directory(prepared: Prepared, prefix: str, say: Say) -> Path:
    """The directory of the newest test that is the same and not over, else a new one."""
    results_dir = prepared.arms[0].setting.directory
    marks = fingerprints(prepared.spec, prepared.arms, prepared.plans)
    for path in sorted(results_dir.glob(f"{prefix}*"), reverse=True):
        entries = list(read_lines(path / FILE))
        begun = any(entry.get("kind") == BEGIN and entry.get("fingerprint") in marks for entry in entries)
        if begun and not any(entry.get("kind") == END for entry in entries):
            say(f"goes on with {path}")
            return path
    fresh = f"{prefix}{datetime.now(UTC):%Y%m%d-%H%M%S}"
    number = 1
    while (path := results_dir / (fresh if number == 1 else f"{fresh}-{number}")).exists():
        number += 1
    return path


def _check_resumable(directory: Path) -> None:
    """Refuse to go on with what was never begun."""
    if not (directory / FILE).is_file():
        raise SessionError(f"no A/B test to go on with at {directory}: begin one without --resume")


def _write_results(result: ABResult, directory: Path, redactor: Redactor) -> None:
    """Write `ab.json`, `ab.md` and `ab.html`, without secrets."""
    files = {
        "ab.json": dump(result_json(result), pretty=True, redactor=redactor) + b"\n",
        "ab.md": redactor.text(markdown(result)).encode(),
        "ab.html": redactor.text(page(result)).encode(),
    }
    write_report(directory, files)


def add_to_history(directory: Path, arms: Sequence[Arm], url: str) -> int:
    """Record each trial under the test's name and the arm's variant; how many records were new."""
    from paceline.history import open_store
    from paceline.history.session_files import find_sessions, read_session

    installed = {arm.name: arm.installed for arm in arms}
    added = 0
    with open_store(url) as store:
        for path in find_sessions(directory / TRIALS):
            session, environment, found, others = read_session(path)
            records = list(found)
            variant = records[0].case.variant if records else None
            packages = installed.get(variant or "", ())
            # The runner's packages are not those that the arm ran with.
            described = {**environment, **({"packages": list(packages)} if packages else {})}
            meta = {**session.meta, "experiment": directory.name, "arm": variant}
            session = replace(session, kind=KIND, name=f"{directory.name}/{session.name}", meta=meta)
            added += store.add(session, described, records, others).records
    return added
