"""`paceline evals run`, with what it shows meanwhile, and `paceline evals plan`."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from paceline.cli.inputs import DEFAULT_CONFIG, add_options, masked_errors
from paceline.cli.output import is_terminal, write, write_json, write_lines
from paceline.errors import PacelineError
from paceline.model import Case, Plan, ReadBefore, Record, Report, Status
from paceline.numbers import clock, duration
from paceline.report.format import aligned, measured, visible

if TYPE_CHECKING:
    from paceline.evals.results import ExecutionProgress
    from paceline.session.request import Request

_REFRESHES_A_SECOND = 4
_Function = TypeVar("_Function", bound=Callable[..., Any])

RUN_EPILOG = """\b
Examples:
  paceline evals run suite.yaml
  paceline evals run suite.yaml --gpu cpu --gpu cpu        two workers without a GPU
  paceline evals run suite.yaml --gpu GPU-8f3a --max-concurrent-runs 2
  paceline evals run suite.yaml --json > summary.json

\b
Ctrl-C lets the running stubs finish; a second one ends them at once. SIGTERM lets the running
samples finish. Nothing is lost either way: the next run goes on where this one ended.
"""

PLAN_EPILOG = """\b
Examples:
  paceline evals plan suite.yaml
  paceline evals plan suite.yaml --json
"""


def _inputs(function: _Function) -> _Function:
    options = (
        click.argument("configs", nargs=-1, type=click.Path(path_type=Path)),
        click.option(
            "--gpu",
            "gpu_ids",
            metavar="ID",
            multiple=True,
            help="A device: index, UUID or MIG instance of a GPU, or cpu; repeatable. [default: the suite's]",
        ),
        click.option(
            "--max-concurrent-runs",
            metavar="N",
            type=click.IntRange(min=1),
            help="Workers over all devices. [default: the suite's, else one a device]",
        ),
        click.option(
            "--base-result-dir",
            metavar="DIR",
            help="Where results lie. [default: the suite's, else benchmark_results]",
        ),
    )
    return add_options(function, options)


@click.command("run", epilog=RUN_EPILOG)
@_inputs
@click.option(
    "--on",
    metavar="ADDRESS",
    help="Run the workers on the nodes of a Ray cluster: HOST:PORT, or auto. 'local' is this machine.",
)
@click.option("--sink", "sinks", metavar="NAME", multiple=True, help="Send results to this sink too.")
@click.option("--db", metavar="URL", help="Record into this database. [default: as 'paceline run']")
@click.option("--no-history", is_flag=True, help="Do not record the execution in the history.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print what failed and a last line only.")
def run_command(*, as_json: bool, quiet: bool, no_history: bool, **options: Any) -> int:
    """Run the evals of a suite: every stub that is not done yet, each in a worker on a device.

    Exit code 0: all stubs have results; 1: some failed; 2: the suite is wrong; 130: interrupted.
    """
    from paceline.evals.stored import read_summary, toy_note
    from paceline.session.session import run

    request = _request(history=not no_history, **options)
    with (
        masked_errors(request.configs),
        redirect_stdout(sys.stderr if as_json else sys.stdout),
        open_view(quiet=quiet, as_json=as_json) as view,
    ):
        shown = replace(request, evals=replace(request.evals, on_progress=view.progress))
        report = run(_evals_only(shown), view)
    summary = read_summary(report.plan.directory)
    if as_json:
        write_json(summary)
        return report.exit_code
    names = ("completed", "skipped", "failed", "cancelled")
    counts = ", ".join(f"{summary[name]} {name}" for name in names if summary[name])
    text = f"{summary['total']} stubs: {counts} in {duration(summary['execution_time'])}"
    note = toy_note(summary["results"])
    write((f"note: {note}\n" if note else "") + f"{text}; {report.plan.directory}\n")
    return report.exit_code


@click.command("plan", epilog=PLAN_EPILOG)
@_inputs
@click.option("--json", "as_json", is_flag=True, help="Print the stubs as JSON.")
def plan_command(*, as_json: bool, **options: Any) -> int:
    """Show the stubs of a suite, where their results lie, and which of them are done; nothing is started.

    Where an earlier result of the same name does not count, it says what has changed since.
    """
    from paceline.evals.stored import state_of, why_again
    from paceline.session.request import load_config, prepare, suite_executors

    request = _request(**options)
    with masked_errors(request.configs):
        request = _evals_only(request)
        loaded = load_config(request)
        prepare(request, loaded)  # raises what is wrong with the suite
        stubs = [stub for executor in suite_executors(request, loaded) for stub in executor.stubs]
    states = [state_of(stub) for stub in stubs]
    why = ["" if state == "done" else why_again(stub) for stub, state in zip(stubs, states, strict=True)]
    if as_json:
        rows = [
            {"name": stub.name, "state": state, "key": stub.key, "directory": stub.result_dir}
            | ({"again": reason} if reason else {})
            for stub, state, reason in zip(stubs, states, why, strict=True)
        ]
        write_json(rows)
        return 0
    lines = [
        (state, visible(stub.name), visible(f"again: {reason}" if reason else ""))
        for stub, state, reason in zip(stubs, states, why, strict=True)
    ]
    write_lines(aligned(lines))
    write(f"{len(stubs)} stubs, {states.count('done')} done\n")
    return 0


def _request(
    *,
    configs: tuple[Path, ...],
    sinks: tuple[str, ...] = (),
    db: str | None = None,
    history: bool = True,
    **evals: Any,
) -> "Request":
    from paceline.session.request import EvalsOptions, Request

    if not configs and not Path(DEFAULT_CONFIG).is_file():
        raise PacelineError(
            f"no {DEFAULT_CONFIG} here: name the suite, as in 'paceline evals run suite.yaml'"
        )
    options = EvalsOptions(**evals)
    configs = configs or (Path(DEFAULT_CONFIG),)
    return Request(configs=configs, sinks=sinks, db=db, history=history, evals=options)


def _evals_only(request: "Request") -> "Request":
    """The same request for a session of evals only, which lies beside their results."""
    from paceline.evals.execution import new_name
    from paceline.session.request import load_config

    loaded = load_config(request)
    section = loaded.config.evals
    if section is None and not loaded.problems:
        raise PacelineError(
            f"{loaded.files[-1]} has no evals section: see docs/evals.md for one to start from"
        )
    root = Path(request.evals.base_result_dir or (section.base_result_dir if section else ".")).absolute()
    options = replace(request.evals, alone=True)
    return replace(request, results_dir=root, session_name=new_name(root), evals=options)


class View:
    """Listens to a session and prints a line for each stub that ended; if quiet, only for those that failed."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def print(self, line: str) -> None:
        write(f"{line}\n")
        sys.stdout.flush()

    def progress(self, progress: "ExecutionProgress") -> None:
        """The lines of ended stubs show it."""

    def session_started(self, plan: Plan, kept: int, read_before: ReadBefore | None = None) -> None:
        """The stubs' lines show it."""

    def case_started(
        self, case: Case, command: Sequence[str], entry_dir: Path, tail: Callable[[int], list[str]]
    ) -> None:
        """The devices show what runs."""

    def run_started(self, case: Case, label: str) -> None:
        """A stub runs once."""

    def case_finished(self, record: Record, entry_dir: Path) -> None:
        if not (self._quiet and record.status.ok):
            self.print(record_line(record))

    def note(self, text: str) -> None:
        self.print(f"note: {visible(text)}")

    def mention(self, text: str) -> None:
        self.note(text)

    def session_finished(self, report: Report, session_dir: Path | str) -> None:
        for finding in report.findings:
            if finding.fails:
                self.note(finding.message)


class LiveView(View):
    """The same lines, and below them the devices with what they do."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(quiet=quiet)
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._drawn_at = 0.0

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    def progress(self, progress: "ExecutionProgress") -> None:
        from rich.text import Text

        now = time.monotonic()
        if now - self._drawn_at >= 1 / _REFRESHES_A_SECOND:
            self._drawn_at = now
            self._live.update(Text("\n".join(progress_lines(progress)), no_wrap=True), refresh=True)


@contextmanager
def open_view(*, quiet: bool, as_json: bool) -> Iterator[View]:
    """The view that fits standard output; plain lines where it is not a terminal."""
    if as_json or not is_terminal():
        yield View(quiet=quiet or as_json)
        return
    with LiveView(quiet=quiet) as view:
        yield view


def record_line(record: Record) -> str:
    """How a stub ended, in a line."""
    names = [
        name for name in record.metrics if name not in ("exec_time_s", "generate_s", "peak_memory_bytes")
    ]
    numbers = "  ".join(measured(name, record.metrics[name]) for name in names[:3])
    word = "passed" if record.status is Status.PASSED else record.status.value
    tail = numbers if record.status.ok else visible(record.reason)
    return f"{word:<11} {visible(record.case.name)}  {duration(record.exec_time_s)}  {tail}".rstrip()


def progress_lines(progress: "ExecutionProgress") -> list[str]:
    """How far the execution is, and what each device does."""
    left = "" if progress.eta_s is None else f", about {clock(progress.eta_s)} left"
    failed = f", {progress.failed_stubs} failed" if progress.failed_stubs else ""
    head = (
        f"{progress.ended_stubs} of {progress.total_stubs} stubs{failed}, {clock(progress.elapsed_s)}{left}"
    )
    devices = [
        f"  {device}: {visible(text)}"
        for device, text in sorted(progress.current_executions.items(), key=str)
    ]
    return [head, *devices]
