"""The options of `paceline bisect` as a task: which states lie between good and bad, and where they are measured."""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.cli.inputs import make_request
from paceline.config.values import parse_duration_s
from paceline.errors import PacelineError
from paceline.experiments.bisect.bisection import BisectTask, case_of, place_for
from paceline.experiments.bisect.brackets import Surroundings, find_bracket
from paceline.experiments.bisect.lines import Line, commit_line, version_line
from paceline.experiments.bisect.searching import Limits
from paceline.experiments.builds.cache import default_cache_dir
from paceline.experiments.builds.versions import available_versions, installer_options
from paceline.experiments.builds.workshop import Workshop
from paceline.findings.commits import find_repository
from paceline.history import find_url, open_store
from paceline.session.request import Request, load_config

DEFAULT_METRIC = "exec_time_s"


def make_task(options: Mapping[str, Any]) -> BisectTask:
    """The task; an error says which option is missing or wrong."""
    request = make_request({"configs": options["configs"], "datasets": options["datasets"]})
    asked = _from_regression(options, request) if options["regression"] else _from_options(options, request)
    place = options["out"] or place_for(request)
    task = BisectTask(
        configs=request.configs,
        datasets=request.datasets,
        case=case_of(request, asked.case),
        metric=asked.metric,
        direction=options["direction"],
        improved=options["improvement"] or asked.improved,
        good=asked.line[0],
        states=asked.line[1],
        workshop=Workshop(
            cache_dir=default_cache_dir(),
            log=place / "build.log",
            repo=asked.repo,
            setup=_setup(options["setup"]),
            install=options["install"],
            options=_installer(options),
        ),
        limits=_limits(options),
        out=place,
        origin=asked.origin,
        notes=asked.notes,
    )
    return _settled(task, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is searched, and along which way."""

    case: str
    metric: str
    line: Line
    repo: Path | None
    improved: bool = False
    notes: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)


def _from_options(options: Mapping[str, Any], request: Request) -> _Asked:
    repo = None if options["package"] else _repo(options["repo"], request.configs)
    return _Asked(
        case=_needed(options, "case"),
        metric=options["metric"] or DEFAULT_METRIC,
        line=_line(options, repo),
        repo=repo,
    )


def _from_regression(options: Mapping[str, Any], request: Request) -> _Asked:
    """Case, metric and both ends from a change that the history knows; given options win."""
    history = load_config(request).config.history
    with open_store(find_url(options["db"], history.url if history else None), create=False) as store:
        finding = store.finding(options["regression"])
        good, bad = finding.last_good, finding.first_bad
        environments = store.environment(good.environment), store.environment(bad.environment)
    repo = _repo(options["repo"], request.configs, needed=False)
    around = Surroundings(
        good=replace(good, revision=options["good"] or good.revision),
        bad=replace(bad, revision=options["bad"] or bad.revision),
        before=environments[0],
        after=environments[1],
        repo=repo,
        own=bool(options["install"]),
        options=_installer(options),
    )
    bracket = find_bracket(around)
    if bracket.line is None:
        told = "".join(f"; {note}" for note in bracket.notes)
        raise PacelineError(
            f"nothing that could be tried again changed between {good.session} and {bad.session}{told}"
        )
    return _Asked(
        case=options["case"] or finding.series.case,
        metric=options["metric"] or finding.series.metric,
        line=bracket.line,
        repo=repo,
        improved=finding.verdict == "better",
        notes=bracket.notes,
        origin={"regression": finding.id},
    )


def _settled(task: BisectTask, options: Mapping[str, Any]) -> BisectTask:
    """The task in its own directory, which is empty if nothing of before is wanted."""
    if options["out"] is None:
        task = task.placed_under(task.out)
    if options["fresh"]:
        _forget(task.out)
    return task


def _forget(out: Path) -> None:
    """Remove the runs of a bisection, and nothing that is not one."""
    if out.exists() and not (out / "journal.jsonl").is_file() and any(out.iterdir()):
        raise PacelineError(f"{out} holds no bisection: --fresh removes nothing else, give another --out")
    shutil.rmtree(out, ignore_errors=True)


def _needed(options: Mapping[str, Any], name: str) -> str:
    if not options[name]:
        raise PacelineError(f"bisect needs --{name}, or a --regression that tells it")
    return str(options[name])


def _repo(given: Path | None, configs: tuple[Path, ...], *, needed: bool = True) -> Path | None:
    inside = (given or configs[0].parent).absolute()
    found = find_repository(inside)
    if found is None and (needed or given):
        raise PacelineError(f"{inside} is in no git repository: name one by --repo, or a --package to search")
    return found.root if found else None


def _line(options: Mapping[str, Any], repo: Path | None) -> Line:
    good, bad = _needed(options, "good"), _needed(options, "bad")
    if repo is not None:
        return commit_line(repo, good, bad)
    package = str(options["package"])
    if options["versions"]:
        versions = tuple(version.strip() for version in options["versions"].split(",") if version.strip())
    else:
        versions = available_versions(package, _installer(options))
    return version_line(package, versions, good, bad)


def _installer(options: Mapping[str, Any]) -> tuple[str, ...]:
    return installer_options(options["find_links"], no_index=options["no_index"], base=Path.cwd())


def _setup(text: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text)) if text else ()
    except ValueError as error:
        raise PacelineError(f"--setup {text!r} cannot be read: {error}") from error


def _limits(options: Mapping[str, Any]) -> Limits:
    budget = options["budget"]
    try:
        budget_s = parse_duration_s(budget) if budget else float("inf")
    except ValueError as error:
        raise PacelineError(f"--budget {error}") from error
    return Limits(confidence=options["confidence"], max_runs=options["max_runs"], budget_s=budget_s)
