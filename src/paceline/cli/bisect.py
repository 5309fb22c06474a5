"""`paceline bisect`: which commit, or which version of a package, made a number worse."""

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from paceline.cli import Respelled, output
from paceline.cli.completion import complete_finding, complete_metric, complete_selection
from paceline.cli.inputs import (
    SuiteCommand,
    config_inputs,
    history_option,
    make_request,
    masked_errors,
    parse_time,
)
from paceline.errors import PacelineError
from paceline.numbers import chance, count
from paceline.report.format import spelled_for, visible
from paceline.report.table import Screen, screen_of, wrapped

if TYPE_CHECKING:
    from paceline.experiments.bisect.bisection import BisectTask
    from paceline.experiments.bisect.report import BisectionResult
    from paceline.experiments.bisect.search import Limits, Run, Search
    from paceline.experiments.bisect.steps import Steps
    from paceline.experiments.builds.build import Candidate
    from paceline.session.request import Request

DEFAULT_METRIC = "exec_time_s"
_LONGEST_TITLE = 50

EPILOG = """\b
Examples:
  paceline bisect --good v1.4 --bad main --case sort --metric work_s
  paceline bisect --repo ../lib --good v1 --bad HEAD --case sort --setup make
  paceline bisect --repo ../lib --good v2 --bad main --case sort --install .
  paceline bisect --package dask --good 2026.1 --bad 2026.8 --case join
  paceline bisect --regression 7c1e --time 2h
  paceline bisect … --json > bisect.json

\b
Both ends are measured in turns first; if they do not differ, it says so and ends. Then the commit
is measured that is expected to tell most, until one of them is the culprit with the confidence
asked for. Killed, the same command goes on: no run is lost or repeated. Exit code 0: the culprit
was found; 1: it was not; 2: the command line or the suite is wrong; 130: interrupted.
"""


@click.command("bisect", cls=SuiteCommand, epilog=EPILOG)
@config_inputs
@click.option(
    "--repo",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The repository whose commits are searched. [default: the one around the suite's first file]",
)
@click.option("--good", metavar="REF", help="A commit, tag or branch, or a version, where it was still good.")
@click.option("--bad", metavar="REF", help="A later one where it is bad.")
@click.option("--case", metavar="NAME", shell_complete=complete_selection, help="The case to run.")
@click.option(
    "--metric",
    metavar="NAME",
    shell_complete=complete_metric,
    help="The metric to look at. [default: exec_time_s]",
)
@click.option(
    "--regression",
    metavar="ID",
    shell_complete=complete_finding,
    help="Take case, metric, good and bad from a regression that 'paceline regressions' lists.",
)
@click.option("--package", metavar="NAME", help="Search the versions of this package instead of commits.")
@click.option(
    "--versions", metavar="A,B,C", help="The versions in order, instead of those that the index has."
)
@click.option(
    "--find-links",
    metavar="DIR",
    multiple=True,
    help="Find packages also in this directory or page. Repeatable.",
)
@click.option("--no-index", is_flag=True, help="Find packages nowhere but in --find-links.")
@click.option(
    "--setup",
    metavar="CMD",
    help="Builds a revision, run once in its tree; one where it fails is passed over. No shell is involved.",
)
@click.option(
    "--install",
    metavar="SPEC",
    multiple=True,
    help="Run in an environment of its own with this package; '.' is the revision's tree. Repeatable.",
)
@click.option(
    "--direction",
    type=click.Choice(["lower", "higher"]),
    help="Which way the metric is better. [default: what its name tells]",
)
@click.option("--improvement", is_flag=True, help="Look for what made it better.")
@click.option(
    "--confidence",
    metavar="P",
    type=click.FloatRange(0.5, 0.9999),
    default=0.95,
    show_default=True,
    help="How sure to be.",
)
@click.option(
    "--runs",
    "max_runs",
    cls=Respelled,
    formerly=["--max-runs"],
    metavar="N",
    type=click.IntRange(min=4),
    default=150,
    show_default=True,
    help="Give up after this many runs.",
)
@click.option(
    "--time",
    "max_time_s",
    cls=Respelled,
    formerly=["--budget"],
    metavar="TIME",
    callback=parse_time,
    help="Give up after this time: 90s, 30m, 2h. [default: none]",
)
@click.option(
    "--results-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where --out is made. [default: results_dir of the suite]",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where runs and report are kept. [default: RESULTS_DIR/bisect/CASE-<hash of the question>]",
)
@click.option(
    "--explain/--no-explain",
    "explains",
    default=True,
    show_default=True,
    help="Run the culprit and what lies before it once more under a profiler.",
)
@click.option(
    "--force",
    cls=Respelled,
    formerly=["--fresh"],
    is_flag=True,
    help="Begin anew, and forget what ran before for the same question.",
)
@history_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print bisect.json; everything else goes to standard error."
)
def command(*, as_json: bool, **options: Any) -> int:
    """Find the commit that made a metric of a case worse, or better.

    The suite is that of the user's tree; it runs with each revision's own tree as {repo_dir}, as PACELINE_REPO and
    as its working directory.
    """
    from paceline.experiments.bisect.bisection import run_bisection, write_result
    from paceline.experiments.bisect.report import bisection_data

    with masked_errors(options["configs"]):
        task = _make_task(options)
        progress = Progress(sys.stderr if as_json else sys.stdout)
        progress.begin(task)
        result = run_bisection(task, progress.ran)
        write_result(result, task.out)
        progress.end(result, task.out)
        if options["regression"]:
            _keep_outcome(options, result, task.out)
        if as_json:
            output.write_json(bisection_data(result))
    return result.exit_code


def _make_task(options: Mapping[str, Any]) -> "BisectTask":
    """The options as a task; an error says which of them is missing or wrong."""
    from paceline.experiments.bisect.bisection import BisectTask, case_of, results_dir_of
    from paceline.experiments.bisect.report import Question
    from paceline.experiments.builds.build import Builder
    from paceline.experiments.builds.cache import default_cache_dir

    request = _request(options)
    asked = _from_regression(options, request) if options["regression"] else _from_options(options, request)
    out = options["out"] or results_dir_of(request)
    case = case_of(request, asked.case)
    task = BisectTask(
        configs=request.configs,
        datasets=request.datasets,
        case=case,
        question=Question(
            case=case.name,
            metric=asked.metric,
            direction=options["direction"],
            improved=options["improvement"] or asked.improved,
            good=asked.steps[0],
            candidates=asked.steps[1],
        ),
        builder=Builder(
            cache_dir=default_cache_dir(),
            log=out / "build.log",
            repo=asked.repo,
            setup=_setup(options["setup"]),
            install=options["install"],
            options=_installer(options),
        ),
        limits=_limits(options),
        out=out,
        origin=asked.origin,
        notes=asked.notes,
        explains=options["explains"],
    )
    if options["out"] is None:
        task = task.placed_under(out)
    if options["force"]:
        _forget(task.out)
    return task


def _request(options: Mapping[str, Any]) -> "Request":
    return make_request({name: options[name] for name in ("configs", "datasets", "results_dir")})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is searched, and the steps between good and bad."""

    case: str
    metric: str
    steps: "Steps"
    repo: Path | None
    improved: bool = False
    notes: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)


def _from_options(options: Mapping[str, Any], request: "Request") -> _Asked:
    from paceline.experiments.bisect.steps import commit_steps, version_steps
    from paceline.experiments.builds.environments import available_versions

    package = options["package"]
    repo = None if package else _repo(options["repo"], request.configs)
    for name in ("case", "good", "bad"):
        if not options[name]:
            raise PacelineError(f"bisect needs --{name}, or a --regression that tells it")
    if repo is not None:
        steps = commit_steps(repo, options["good"], options["bad"])
    else:
        given = (version.strip() for version in (options["versions"] or "").split(","))
        versions = tuple(filter(None, given)) or available_versions(package, _installer(options))
        steps = version_steps(package, versions, options["good"], options["bad"])
    return _Asked(case=options["case"], metric=options["metric"] or DEFAULT_METRIC, steps=steps, repo=repo)


def _from_regression(options: Mapping[str, Any], request: "Request") -> _Asked:
    """Case, metric and both ends from a change that the history has; given options win."""
    from paceline.experiments.bisect.steps import find_bracket
    from paceline.history import open_store

    with open_store(_history_url(options, request), create=False) as store:
        finding = store.finding(options["regression"])
        good, bad = finding.last_good, finding.first_bad
        environments = store.environment(good.environment), store.environment(bad.environment)
    repo = _repo(options["repo"], request.configs, needed=False)
    bracket = find_bracket(
        replace(good, revision=options["good"] or good.revision),
        replace(bad, revision=options["bad"] or bad.revision),
        environments,
        repo=repo,
        own=bool(options["install"]),
        options=_installer(options),
    )
    if bracket.steps is None:
        notes = "".join(f"; {note}" for note in bracket.notes)
        raise PacelineError(
            f"nothing that could be tried again changed between {good.session} and {bad.session}{notes}"
        )
    return _Asked(
        case=options["case"] or finding.series.case,
        metric=options["metric"] or finding.series.metric,
        steps=bracket.steps,
        repo=repo,
        improved=finding.verdict == "better",
        notes=bracket.notes,
        origin={"regression": finding.id},
    )


def _history_url(options: Mapping[str, Any], request: "Request") -> str:
    from paceline.history import find_url
    from paceline.plan import find_results_place
    from paceline.record.remote.address import working_dir
    from paceline.session.request import load_config

    loaded = load_config(request)
    history = loaded.config.history
    results = request.results_dir or find_results_place(loaded)
    return find_url(options["db"], history.url if history else None, results=working_dir(results))


def _keep_outcome(options: Mapping[str, Any], result: "BisectionResult", out: Path) -> None:
    """Let the history know what came of a regression; of other ends than its own nothing can be refuted."""
    from paceline.experiments.bisect.report import bisection_data, outcome_of
    from paceline.history import open_store

    stage, culprit = outcome_of(bisection_data(result), out)
    is_another = bool(options["case"] or options["metric"])
    if stage == "not_reproduced" and (options["good"] or options["bad"]):
        is_another = True
    if stage is None or is_another:
        return
    try:
        with open_store(_history_url(options, _request(options)), create=False) as store:
            store.settle(store.finding(result.origin["regression"]), stage, culprit)
    except PacelineError as error:
        click.echo(f"note: the history does not know of it: {error}", err=True)


def _repo(given: Path | None, configs: tuple[Path, ...], *, needed: bool = True) -> Path | None:
    from paceline.findings.commits import find_repository

    inside = (given or configs[0].parent).absolute()
    repository = find_repository(inside)
    if repository is None and (needed or given):
        raise PacelineError(f"{inside} is in no git repository: name one by --repo, or a --package to search")
    return repository.root if repository else None


def _installer(options: Mapping[str, Any]) -> tuple[str, ...]:
    from paceline.experiments.builds.environments import installer_options

    return installer_options(options["find_links"], no_index=options["no_index"], base=Path.cwd())


def _setup(text: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text)) if text else ()
    except ValueError as error:
        raise PacelineError(f"--setup {text!r} cannot be read: {error}") from error


def _limits(options: Mapping[str, Any]) -> "Limits":
    from paceline.experiments.bisect.search import Limits

    budget_s = float("inf") if options["max_time_s"] is None else options["max_time_s"]
    return Limits(confidence=options["confidence"], max_runs=options["max_runs"], budget_s=budget_s)


def _forget(out: Path) -> None:
    """Remove the runs of a bisection, and nothing that is not one."""
    if out.exists() and not (out / "journal.jsonl").is_file() and any(out.iterdir()):
        raise PacelineError(f"{out} holds no bisection: --force removes nothing else, give another --out")
    shutil.rmtree(out, ignore_errors=True)


class Progress:
    """Prints a line for each run to a stream, whose reader may go away without ending the search."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self._is_first = True

    def begin(self, task: "BisectTask") -> None:
        question = task.question
        self._say(
            f"Searching {count(len(question.candidates), 'candidate')} from {question.good.label} to "
            f"{question.bad.label} for what changed {question.metric} of {question.case}"
        )
        self._say(f"Runs are kept in {task.out}")

    def ran(self, run: "Run", search: "Search", candidate: "Candidate") -> None:
        """One run: what it gave, and who is suspected now."""
        before = len(search.runs) - 1
        if self._is_first and before:
            self._say(f"Going on after {count(before, 'run')} of before")
        self._is_first = False
        end = "good end" if run.index < 0 else "bad end" if run.index == search.last else ""
        gave = search.question.shown(run.value) if run.value is not None else run.reason
        guess = search.guess
        likely = (
            f"likely {search.question.at(guess[0]).label} {chance(guess[1])}" if guess is not None else ""
        )
        name = visible(candidate.title)[:_LONGEST_TITLE]
        words = (f"[{len(search.runs)}] {candidate.label}", visible(gave), likely, end or name)
        self._say("  ".join(word for word in words if word))

    def end(self, result: "BisectionResult", out: Path) -> None:
        from paceline.experiments.bisect.report import bisection_lines

        screen = screen_of(self._stream) if self._stream else Screen()
        for line in ("", *bisection_lines(result, screen), ""):
            for part in wrapped(line, screen):
                self._say(part)
        self._say(f"Report in {out / 'bisect.html'} (also bisect.md and bisect.json)")

    def _say(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            click.echo(spelled_for(getattr(self._stream, "encoding", None), text), file=self._stream)
        except OSError:
            self._stream = None
