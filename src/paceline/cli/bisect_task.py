"""The options of `paceline bisect` as a task: which states lie between good and bad, and where they are measured."""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.cli.inputs import make_request
from paceline.config.values import parse_duration_s
from paceline.errors import PacelineError
from paceline.experiments.bisecting import BisectTask, case_of, place_for
from paceline.experiments.cache import default_cache_dir
from paceline.experiments.lines import Line, commit_line, version_line
from paceline.experiments.searching import Limits
from paceline.experiments.versions import available_versions
from paceline.experiments.workshop import Workshop

DEFAULT_METRIC = "exec_time_s"


def make_task(options: Mapping[str, Any]) -> BisectTask:
    """The task; an error says which option is missing or wrong."""
    request = make_request({"configs": options["configs"], "datasets": options["datasets"]})
    configs = request.configs
    case = case_of(request, _needed(options, "case"))
    repo = None if options["package"] else _repo(options["repo"], configs)
    good, states = _line(options, repo)
    log_dir = options["out"] or place_for(request)
    task = BisectTask(
        configs=configs,
        datasets=request.datasets,
        case=case,
        metric=options["metric"] or DEFAULT_METRIC,
        direction=options["direction"],
        improved=options["improvement"],
        good=good,
        states=states,
        workshop=Workshop(
            cache_dir=default_cache_dir(),
            log=log_dir / "build.log",
            repo=repo,
            setup=_setup(options["setup"]),
            install=options["install"],
            options=installer_options(options["find_links"], no_index=options["no_index"]),
        ),
        limits=_limits(options),
        out=log_dir,
        origin=options.get("origin", {}),
    )
    return _settled(task, options)


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


def _repo(given: Path | None, configs: tuple[Path, ...]) -> Path:
    inside = (given or configs[0].parent).absolute()
    found = next((one for one in (inside, *inside.parents) if os.access(one / ".git", os.F_OK)), None)
    if found is None:
        raise PacelineError(f"{inside} is in no git repository: name one by --repo, or a --package to search")
    return found


def _line(options: Mapping[str, Any], repo: Path | None) -> Line:
    good, bad = _needed(options, "good"), _needed(options, "bad")
    if repo is not None:
        return commit_line(repo, good, bad)
    package = str(options["package"])
    if options["versions"]:
        versions = tuple(version.strip() for version in options["versions"].split(",") if version.strip())
    else:
        finders = installer_options(options["find_links"], no_index=options["no_index"])
        versions = available_versions(package, finders)
    return version_line(package, versions, good, bad)


def installer_options(find_links: tuple[str, ...], *, no_index: bool) -> tuple[str, ...]:
    """What pip and uv are told of where packages are."""
    places = (str(Path(place).absolute()) if Path(place).is_dir() else place for place in find_links)
    links = tuple(word for place in places for word in ("--find-links", place))
    return (*links, "--no-index") if no_index else links


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
