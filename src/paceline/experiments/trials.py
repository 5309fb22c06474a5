"""A suite's selected cases run once in a setting, as a session of their own under the experiment's directory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.errors import ConfigError, PacelineError, Problem
from paceline.experiments.builds.build import Worktree
from paceline.experiments.builds.environments import Venv
from paceline.model import Case, Plan, Record, Scalar, Setting, Status
from paceline.record.directory import SessionDir
from paceline.record.layout import DATA_SETUP, is_session, safe_name
from paceline.run.context import SilentListener
from paceline.session.request import Request, prepare
from paceline.session.session import run

TRIALS = "trials"


class Interrupted(PacelineError):
    """The user ended the experiment; what is done is kept."""

    exit_code = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSetting:
    """Everything around a suite that decides what a trial measures; `name` is the arm's or the revision's.

    `directory` is the experiment's. `details` are kept in every record, with the name and the trial's number.
    `inherited` and `wrapped` are as in a `Setting`.
    """

    name: str
    directory: Path
    configs: tuple[Path, ...]
    skipped: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    datasets: Path | None = None
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    jobs: int | None = None
    venv: Venv | None = None
    worktree: Worktree | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    params: Mapping[str, Scalar] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    inherited: Mapping[str, str] = field(default_factory=dict)
    wrapped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def run_trial(setting: TrialSetting, number: int) -> tuple[Record, ...]:
    """The records of one trial, from 1 on; a trial that is complete on disk is read, one that was cut short goes on.

    All experiments run their cases by this function, looked up when it is called, so that another can take its place.
    Data set-ups run with the first trial of a setting only, unless a case uses what they left in its own session.
    """
    plan = plan_trial(setting, number)
    if _is_complete(plan):
        return tuple(SessionDir.open(plan.directory).records(plan.cases))
    request = _request(setting, number)
    if is_session(plan.directory):
        request = replace(request, resume=plan.session)
    setups = number == 1 or any(uses_setups(case, plan) for case in plan.cases)
    report = run(replace(request, setups=setups), SilentListener())
    if report.interrupted:
        raise Interrupted("interrupted: the same command goes on where this one ended")
    if report.unfinished:
        raise PacelineError(report.unfinished)
    return tuple(record for record in report.records if record.case.kind == "entry")


def plan_trial(setting: TrialSetting, number: int) -> Plan:
    """What a trial would do; a ConfigError names all that is wrong."""
    plan = prepare(_request(setting, number))
    unused = [name for name in setting.params if not any(name in case.params for case in plan.cases)]
    if unused or not plan.cases:
        what = f"no selected entry has a parameter {unused[0]!r}" if unused else "no case is selected"
        raise ConfigError([Problem(file="", line=0, path=setting.name, message=what)])
    return plan


def _is_complete(plan: Plan) -> bool:
    """Whether each case of the trial has a record that need not be made again."""
    if not is_session(plan.directory):
        return False
    directory = SessionDir.open(plan.directory)
    return all(
        (record := directory.read_record(case)) is not None
        and case.is_same_work(record.case)
        and (record.status.finished or record.status is Status.SKIPPED)
        for case in plan.cases
    )


def _request(setting: TrialSetting, number: int) -> Request:
    venv, tree = setting.venv, setting.worktree
    base = setting_in(venv, tree)
    given = replace(
        base,
        variant=setting.name,
        env={**setting.env, **base.env},
        args=setting.args,
        params=setting.params,
        inherited=setting.inherited,
        wrapped=setting.wrapped,
        details={
            **setting.details,
            "setting": setting.name,
            "trial": number,
            **({"revision": tree.revision} if tree else {}),
            **({"venv": venv.key} if venv else {}),
        },
    )
    return Request(
        configs=setting.configs,
        skipped=setting.skipped,
        datasets=setting.datasets,
        sinks=("none",),
        results_dir=setting.directory / TRIALS,
        session_name=f"{safe_name(setting.name)}-{number:04d}",
        only=setting.only,
        exclude=setting.exclude,
        jobs=setting.jobs,
        on="local",
        history=False,
        setting=given,
    )


def setting_in(venv: Venv | None, tree: Worktree | None) -> Setting:
    """Runs that use an environment and a working tree."""
    return Setting(
        python=str(venv.python) if venv else None,
        path=(str(venv.bin),) if venv else (),
        env={"VIRTUAL_ENV": str(venv.bin.parent)} if venv else {},
        repo_dir=str(tree.path) if tree else None,
        repo_top=str(tree.top) if tree and tree.top else None,
    )


def uses_setups(case: Case, plan: Plan) -> bool:
    """Whether one of a case's texts names the directory in which its own session keeps what set-ups leave."""
    place = f"{plan.directory}/{DATA_SETUP}/"
    return any(place in text for text in (*case.argv, *case.env.values(), case.cwd or ""))
