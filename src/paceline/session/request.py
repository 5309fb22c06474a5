"""What a user asks of a session, and the plan that this comes to."""

import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.config.load import Loaded, load
from paceline.errors import ConfigError, SelectionError, SessionError
from paceline.model import Plan, Report, Setting
from paceline.plan import make_plan
from paceline.record import below
from paceline.record.layout import check_session_name, safe_name
from paceline.record.remote.address import Location, parse_location, split, working_dir
from paceline.record.remote.session import session_names
from paceline.run.conditions import wanted_of_machine

if TYPE_CHECKING:
    from paceline.evals.executor import ProgressCallback
    from paceline.evals.suite import SuiteExecutor

USUAL_CONFIG = "paceline.yaml"
_OTHER_CHARACTERS = re.compile(r"[^\w.+=@-]+")
_LONGEST_SUITE = 60
TIME = "{time}"
"""Stands in a session's name for the time when it begins."""

FollowUp = Callable[[Report, str | None, Callable[[str], None]], Report]
"""Given the report of a session that is recorded, the database and who to tell: the report as it is to be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalsOptions:
    """What a user asks of a suite's evals, which wins over the suite; `alone` if the entries are not to run."""

    gpu_ids: tuple[str, ...] = ()
    max_concurrent_runs: int | None = None
    base_result_dir: str | None = None
    on: str | None = None
    alone: bool = False
    on_progress: "ProgressCallback | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a user asks of `paceline run` and `paceline plan`."""

    configs: tuple[Path, ...]
    datasets: Path | None = None
    sinks: tuple[str, ...] = ()
    results_dir: Location | None = None
    session_name: str | None = None
    matrix: bool = False
    """Whether a file was named by `--matrix`, as older command lines do, whose sessions are called `nightly-run`."""
    resume: str | None = None
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    shard: tuple[int, int] | None = None
    jobs: int | None = None
    on: str | None = None
    rerun_failed: bool = False
    db: str | None = None
    history: bool = True
    setting: Setting | None = None
    setups: bool = True
    skipped: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    follow_up: FollowUp | None = None
    evals: EvalsOptions = EvalsOptions()
    delay_s: float = 0.0
    """How long each run waits before it begins: that a gate sees it is tried this way."""

    @property
    def resumes(self) -> bool:
        return self.resume is not None or self.rerun_failed

    @property
    def selection(self) -> dict[str, list[str] | str]:
        """What was asked for of a suite's cases, as the session keeps it; empty if that is all of them."""
        shard = "/".join(map(str, self.shard or ()))
        asked: dict[str, list[str] | str] = {
            "only": list(self.only),
            "exclude": list(self.exclude),
            "shard": shard,
        }
        return {name: value for name, value in asked.items() if value}


def load_config(request: Request) -> Loaded:
    """The merged configuration; what is wrong in it is raised by the plan, together with what is wrong there."""
    environ = {**os.environ, **request.setting.env} if request.setting else None
    loaded = load(
        request.configs,
        datasets=request.datasets,
        sinks=request.sinks,
        environ=environ,
        lenient=True,
        skipped=request.skipped,
    )
    nothing: Mapping[str, list[object]] = {"entries": [], "data_setups": []}
    return replace(loaded, config=loaded.config.model_copy(update=nothing)) if request.evals.alone else loaded


def suite_executors(request: Request, loaded: Loaded) -> "list[SuiteExecutor]":
    """Executors that bring cases of their own: the evals of a suite.

    An experiment changes what entries do, which evals know nothing of, so it runs without them.
    """
    section = loaded.config.evals
    if section is None or loaded.problems:
        return []
    if request.setting is not None:
        if not loaded.config.entries:
            raise SelectionError("the suite has evals and no entries: an experiment runs entries only")
        return []
    from paceline.evals.suite import SuiteExecutor  # costs a moment that other suites need not spend

    options = request.evals
    return [
        SuiteExecutor(
            section,
            gpu_ids=options.gpu_ids,
            max_concurrent_runs=options.max_concurrent_runs,
            base_result_dir=options.base_result_dir,
            on=options.on or request.on,
            on_progress=options.on_progress,
            beside=loaded.files[-1].parent if loaded.files else None,
        )
    ]


def prepare(
    request: Request, loaded: Loaded | None = None, others: "Sequence[SuiteExecutor] | None" = None
) -> Plan:
    """What would run, with no side effect; `others` are the suite's own executors, if they are made already."""
    loaded = loaded or load_config(request)
    wanted_of_machine()  # a word that it does not know is said before anything runs
    others = suite_executors(request, loaded) if others is None else others
    parent, name = _named_session(request, loaded)
    plan = make_plan(
        loaded,
        session=name or partial(_session_name, request, loaded),
        results_dir=parent or request.results_dir,
        only=request.only,
        exclude=request.exclude,
        shard=request.shard,
        environ={**os.environ, **request.setting.env} if request.setting else None,
        setting=request.setting,
        stubs=[case for executor in others for case in executor.cases],
    )
    # Trials of an experiment are many: their logs stay with them, and what was set up for the first serves all.
    is_trial = request.setting is not None and request.setting.variant is not None
    plan = replace(plan, artifacts_dir=None) if is_trial else plan
    if request.delay_s:
        waits = ("sh", "-c", 'sleep "$0"; exec "$@"', f"{request.delay_s:.6f}")
        plan = replace(plan, cases=tuple(replace(case, argv=(*waits, *case.argv)) for case in plan.cases))
    if request.setting and (words := request.setting.wrapped):
        cases = tuple(replace(case, argv=(*words.get(case.name, ()), *case.argv)) for case in plan.cases)
        plan = replace(plan, cases=cases)
    return _as_begun(plan if request.setups else replace(plan, setups=()))


def _as_begun(plan: Plan) -> Plan:
    """The plan of a session that is there already: what an older version began goes on under the names it has there.

    It spelled the parameters of a case in the order of the matrix.
    """
    names = {case.name: case.declared_name for case in plan.cases if case.declared_name != case.name}
    names = {new: old for new, old in names.items() if below.is_dir(plan.directory, safe_name(old))}
    if not names:
        return plan
    moved = {
        f"{plan.directory}/{safe_name(new)}": f"{plan.directory}/{safe_name(old)}"
        for new, old in names.items()
    }

    def at(text: str) -> str:
        for new, old in moved.items():
            text = text.replace(new, old)
        return text

    return replace(
        plan,
        cases=tuple(
            replace(
                case,
                name=names.get(case.name, case.name),
                needs=tuple(names.get(name, name) for name in case.needs),
                argv=tuple(map(at, case.argv)),
                env={name: at(value) for name, value in case.env.items()},
                cwd=case.cwd and at(case.cwd),
            )
            for case in plan.cases
        ),
    )


def _named_session(request: Request, loaded: Loaded) -> tuple[Location | None, str]:
    """The session that a user names, and where it lies if that is said, too: `--resume` takes a path or an address."""
    name = request.resume or fixed_name(request, loaded)
    if not request.resumes or (os.sep not in name and name not in (os.curdir, os.pardir)):
        return None, name
    location = parse_location(name)
    if isinstance(location, str):
        return split(location)
    path = Path(os.path.abspath(location))  # noqa: PTH100 - `..` is to be taken out, links are not
    return path.parent, path.name


def fixed_name(request: Request, loaded: Loaded) -> str:
    """The name that the session is given; empty if the time is in it, or if the newest one is resumed."""
    name = _given_name(request, loaded)
    is_whole = TIME not in name or (request.resumes and name == request.session_name)
    return name if is_whole else ""


def _given_name(request: Request, loaded: Loaded) -> str:
    """By the command line, or else by the configuration, which a suite is run with many times."""
    configured = loaded.config.session_name
    if request.session_name or configured is None:
        return request.session_name or ""
    try:
        check_session_name(configured.replace(TIME, "0"))
    except SessionError as error:
        raise ConfigError([*loaded.problems, loaded.problem(("session_name",), str(error))]) from None
    return configured if TIME in configured else f"{configured}-{TIME}"


def suite_name(configs: Sequence[Path]) -> str:
    """What a suite is called: as its first file, or if that has the usual name, as the directory around it."""
    first = Path(os.path.abspath(configs[0]))  # noqa: PTH100 - a link's own name is what a user sees
    name = first.parent.name if first.name == USUAL_CONFIG else first.stem
    return _OTHER_CHARACTERS.sub("-", name).strip("-.")[:_LONGEST_SUITE] or "suite"


def _session_name(request: Request, loaded: Loaded, results: Location) -> str:
    """The newest session to resume; else a name with the time, numbered when two begin in the same second."""
    if request.resumes:
        names = session_names(results)
        if not names:
            raise SessionError(f"no session to resume in {results}: start one without --resume")
        return names[0]
    results_dir = working_dir(results)
    suite = "nightly-run" if request.matrix else suite_name(request.configs)
    given = _given_name(request, loaded) or f"{suite}-{TIME}"
    name = given.replace(TIME, f"{datetime.now(UTC):%Y%m%d-%H%M%S}")
    candidates = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    try:
        return next(candidate for candidate in candidates if not (results_dir / candidate).exists())
    except OSError as error:  # Such as a name that is too long.
        raise SessionError(f"results_dir cannot be used: {error.strerror}") from error
