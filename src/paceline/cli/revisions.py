"""`paceline run --revisions`: its options, and what it prints."""

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from paceline.cli import output
from paceline.cli.inputs import add_options, make_request, masked_errors
from paceline.errors import PacelineError
from paceline.numbers import count, duration

if TYPE_CHECKING:
    from paceline.experiments.backfill.backfill import BackfillResult, BackfillTask, Step
    from paceline.experiments.backfill.revisions import Wanted
    from paceline.session.request import Request

_Function = TypeVar("_Function", bound=Callable[..., Any])
_NAMES = ("revisions", "tags", "last", "every", "most")
_BUILDS = ("repo", "setup", "install", "find_links", "no_index")
_NOT_WITH = {
    "resume": "a backfill goes on by itself",
    "session_name": "each revision has a session of its own",
    "on": "trees and environments are on this machine",
}

_OPTIONS = (
    click.option(
        "--repo",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        help="With --revisions: the repository. [default: the one around the suite's first file]",
    ),
    click.option(
        "--revisions",
        metavar="A..B",
        help="Measure the suite at each commit from A to B, along the first parents, both included; or at single "
        "ones, with commas between. What is measured already is not run again.",
    ),
    click.option("--tags", metavar="GLOB", help="Measure the suite at each tag like this, such as 'v*'."),
    click.option(
        "--last",
        metavar="N",
        type=click.IntRange(min=1),
        help="Only the newest N of these; alone, of the commits of HEAD.",
    ),
    click.option(
        "--every",
        metavar="N",
        type=click.IntRange(min=1),
        help="Only each N-th of these, counted from the newest.",
    ),
    click.option(
        "--max",
        "most",
        metavar="N",
        type=click.IntRange(min=1),
        help="At most N of these, spread evenly. In any case the ends come first, then halves.",
    ),
    click.option(
        "--setup",
        metavar="CMD",
        help="Builds a revision, run once in its tree; one where it fails is passed over. No shell is involved.",
    ),
    click.option(
        "--install",
        metavar="SPEC",
        multiple=True,
        help="Measure each revision in an environment of its own with this package; '.' is its tree. Repeatable.",
    ),
    click.option(
        "--find-links",
        metavar="DIR",
        multiple=True,
        help="With --install: find packages also here. Repeatable.",
    ),
    click.option(
        "--no-index", is_flag=True, help="With --install: find packages nowhere but in --find-links."
    ),
)


def revision_options(function: _Function) -> _Function:
    """Give a command the options that name revisions and say how they are built."""
    return add_options(function, _OPTIONS)


def taken_revision_options(options: dict[str, Any]) -> dict[str, Any]:
    """What of a command's options is about revisions, taken out of them; empty if none are asked for."""
    taken = {name: options.pop(name) for name in (*_NAMES, *_BUILDS)}
    if any(taken[name] for name in ("revisions", "tags", "last")):
        return taken
    given = [name for name, value in taken.items() if value]
    if given:
        option = {"most": "max"}.get(given[0], given[0].replace("_", "-"))
        raise PacelineError(f"--{option} needs --revisions, --tags or --last: say which revisions are meant")
    return {}


def run_revisions(
    asked: Mapping[str, Any], options: Mapping[str, Any], view: Mapping[str, Any], *, as_json: bool
) -> int:
    """Measure the suite at the revisions that were asked for."""
    from paceline.experiments.backfill.backfill import Backfill
    from paceline.report.terminal import make_console
    from paceline.run.context import SilentListener

    for name, why in _NOT_WITH.items():
        if options.get(name):
            raise PacelineError(f"--{name.replace('_', '-')} cannot be used with --revisions: {why}")
    stream = sys.stderr if as_json else sys.stdout
    request = make_request({**options, "sinks": options.get("sinks") or ("none",)})
    with masked_errors(request.configs):
        task = make_task(asked, request)
        progress = Progress(quiet=view["quiet"], stream_is_stderr=as_json)
        if view["verbose"]:
            with make_console(stream, **view) as console:
                backfill = Backfill(task, console)
                result = _run(backfill, task, progress)
        else:
            backfill = Backfill(task, SilentListener())
            result = _run(backfill, task, progress)
    if as_json:
        output.write_json(result_json(result))
    return result.exit_code


def _run(backfill: Any, task: "BackfillTask", progress: "Progress") -> "BackfillResult":
    wanted = backfill.look()
    progress.begin(task, len(wanted))
    result: BackfillResult = backfill.run(wanted, progress.step)
    progress.end(result, task)
    return result


def make_task(asked: Mapping[str, Any], request: "Request") -> "BackfillTask":
    """The options as a task."""
    from paceline.experiments.backfill.backfill import BackfillTask
    from paceline.experiments.backfill.revisions import choose
    from paceline.experiments.builds.build import Builder
    from paceline.experiments.builds.cache import default_cache_dir
    from paceline.experiments.builds.environments import installer_options
    from paceline.findings.commits import open_repository
    from paceline.plan import find_results_place
    from paceline.record.layout import suite_name
    from paceline.session.history import choose_database
    from paceline.session.request import load_config

    repo = open_repository((asked["repo"] or request.configs[0].parent).absolute()).root
    loaded = load_config(request)
    place = request.results_dir or find_results_place(loaded)
    if isinstance(place, str):
        raise PacelineError(
            f"--revisions keeps its sessions in a directory, not in {place}: give --results-dir DIR"
        )
    history = loaded.config.history
    cache_dir = default_cache_dir()
    return BackfillTask(
        request=request,
        builder=Builder(
            cache_dir=cache_dir,
            log=place.absolute() / "build.log",
            repo=repo,
            setup=parse_setup(asked["setup"]),
            install=asked["install"],
            options=installer_options(asked["find_links"], no_index=asked["no_index"], base=Path.cwd()),
        ),
        repo=repo,
        revisions=choose(repo, _wanted(asked)),
        results_dir=place.absolute(),
        name=suite_name(request.configs[0]),
        database=choose_database(
            request.db,
            history.url if history else None,
            place,
            enabled=request.history and (history is None or history.enabled),
        ),
    )


def _wanted(asked: Mapping[str, Any]) -> "Wanted":
    from paceline.experiments.backfill.revisions import Wanted

    return Wanted(
        revisions=asked["revisions"] or "",
        tags=asked["tags"] or "",
        last=asked["last"],
        every=asked["every"] or 1,
        most=asked["most"],
    )


def parse_setup(text: str | None) -> tuple[str, ...]:
    """The words of a command that builds something."""
    try:
        return tuple(shlex.split(text)) if text else ()
    except ValueError as error:
        raise PacelineError(f"--setup {text!r} cannot be read: {error}") from error


class Progress:
    """Prints a line for each revision."""

    def __init__(self, *, quiet: bool, stream_is_stderr: bool) -> None:
        self._quiet = quiet
        self._to_stderr = stream_is_stderr
        self._total = 0

    def begin(self, task: "BackfillTask", wanted: int) -> None:
        asked = len(task.revisions)
        self._total = wanted
        already = f"; {asked - wanted:,} measured already" if asked > wanted else ""
        self._say(f"{count(asked, 'revision')} of {task.repo}{already}; {wanted:,} to measure")

    def step(self, place: int, step: "Step") -> None:
        """Before a revision is built and when it is over."""
        from paceline.report.format import visible

        if not step.session and not step.reason:
            return
        failed = [f"{name} {step.statuses[name].replace('_', ' ')}" for name in step.failed]
        passed = len(step.statuses) - len(failed)
        outcome = step.reason or ", ".join(filter(None, (f"{passed} passed" if passed else "", *failed)))
        took = f"build {duration(step.build_s)}, run {duration(step.run_s)}"
        left = f"about {duration(step.left_s)} left" if step.left else ""
        words = (f"[{place}/{self._total}] {step.revision[:12]}", outcome, took, left, step.title[:50])
        self._say(visible("  ".join(filter(None, words))))

    def end(self, result: "BackfillResult", task: "BackfillTask") -> None:
        for note in result.notes:
            self._say(f"note: {note}")
        built = [step for step in result.steps if not step.reason]
        words = [f"{count(len(built), 'revision')} measured"]
        if len(built) < len(result.steps):
            words.append(f"{len(result.steps) - len(built)} passed over, which could not be built")
        if result.changes:
            words.append(f"{count(result.changes, 'change')} found: 'paceline regressions' lists them")
        if result.interrupted:
            words.append("interrupted: the same command goes on")
        self._say("; ".join(words), always=True)
        if len(built) < len(result.steps):
            self._say(f"what builds printed is in {task.builder.log}")

    def _say(self, line: str, *, always: bool = False) -> None:
        if self._quiet and not always:
            return
        if self._to_stderr:
            click.echo(line, err=True)
        else:
            output.write_lines([line])
            sys.stdout.flush()


def result_json(result: "BackfillResult") -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "schema": 1,
        "asked": result.asked,
        "already": result.already,
        "revisions": [
            {
                "revision": step.revision,
                "title": step.title,
                "session": step.session or None,
                "cases": {name: str(status) for name, status in step.statuses.items()},
                "reason": step.reason or None,
                "build_s": round(step.build_s, 3),
                "run_s": round(step.run_s, 3),
            }
            for step in result.steps
        ],
        "changes": result.changes,
        "interrupted": result.interrupted,
        "notes": list(result.notes),
    }
