"""`paceline ab`: the same suite in two or more settings, and what the difference between them is."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli import output
from paceline.cli.inputs import masked_errors, parse_time
from paceline.errors import PacelineError
from paceline.report.table import screen_of

if TYPE_CHECKING:
    from paceline.experiments.ab.ab_test import ABRequest, Prepared

EPILOG = """\b
Examples:
  paceline ab versions.yaml                  compare the arms of a file
  paceline ab versions.yaml --dry-run        what would run, and in which order
  paceline ab versions.yaml --runs 60 --time 30m
  paceline ab versions.yaml --json > ab.json
  paceline ab AB_environments                a folder of AB_*.conda.yaml files

\b
A file that compares two releases of a package:
  config: suite.yaml
  arms:
    old: {packages: [duckdb==1.1.3]}
    new: {packages: [duckdb==1.2.2]}
  budget: {runs: 60, time: 30m}

\b
The first arm is the baseline; it also runs as an arm of its own (A/A), which must not differ.
The result is in ab.json, ab.md and ab.html of the test's directory. After Ctrl-C, or when the
machine went down, the same command goes on where it ended.
"""


@click.command("ab", epilog=EPILOG)
@click.argument("path", metavar="AB.yaml", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The test's directory; one that was cut short there goes on. [default: RESULTS_DIR/ab-NAME-<UTC time>]",
)
@click.option("--resume", is_flag=True, help="Only go on with a test that was cut short; begin none.")
@click.option(
    "--dry-run", is_flag=True, help="Show the arms, the commands and the order; run and build nothing."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON; progress goes to standard error."
)
@click.option(
    "--results-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the test's directory is made. [default: results_dir of the suite]",
)
@click.option("--runs", "max_runs", metavar="N", type=click.IntRange(min=1), help="Stop after so many runs.")
@click.option(
    "--time", "max_time_s", metavar="TIME", callback=parse_time, help="Stop after this time: 90s, 30m, 2h."
)
@click.option("--seed", metavar="N", type=click.IntRange(min=0), help="Decides the order of the runs.")
@click.option(
    "--vary-hash-seed/--no-vary-hash-seed",
    default=None,
    help="Give each block a PYTHONHASHSEED of its own, the same for all arms. [default: as the file says, else yes]",
)
@click.option("--db", metavar="URL", help="Also record all runs in this history.")
@click.option("--allow-missing", is_flag=True, help="Cases that not all arms have do not fail.")
@click.option("--quiet", "-q", is_flag=True, help="Print the result only.")
def command(*, dry_run: bool, as_json: bool, quiet: bool, **options: Any) -> int:
    """Run a suite in two or more settings (arms), in randomised blocks, until every metric is decided.

    An arm is a set of packages, a git revision, environment variables, arguments, parameters or configuration
    files. Exit code 0: nothing got worse; 1: something did, a case fails that passes in the first arm, or is missing
    in an arm; 2: nothing was compared, or a mistake in the file; 130: interrupted.
    """
    from paceline.experiments.ab.ab_test import ABRequest, run_ab
    from paceline.experiments.ab.report import result_json, terminal_lines
    from paceline.record.codec import dump

    def say(line: str) -> None:
        if quiet:
            return
        if as_json:
            click.echo(line, err=True)
        else:
            output.write(f"{line}\n")
            sys.stdout.flush()

    output.log_once()
    request = ABRequest(**options)
    with _masked_errors(request):
        if dry_run:
            return _print_plan(request, as_json=as_json)
        done = run_ab(request, say)
    if as_json:
        output.write_encoded(dump(result_json(done.result), redactor=done.redactor) + b"\n")
        if done.result.why_nothing and done.result.exit_code == 2:
            click.echo(done.redactor.text(done.result.why_nothing), err=True)
    else:
        screen = screen_of(sys.stdout)
        lines = [*terminal_lines(done.result, screen), f"Results in {done.directory / 'ab.html'}"]
        output.page_lines(map(done.redactor.text, lines))
    return done.result.exit_code


@contextmanager
def _masked_errors(request: "ABRequest") -> Iterator[None]:
    """As for a suite, whose files the A/B file names."""
    from paceline.experiments.ab.ab_test import find_spec

    try:
        yield
    except PacelineError:
        configs: tuple[Path, ...] = (request.path,)
        with suppress(PacelineError):
            configs = find_spec(request).configs
        with masked_errors(configs, is_suite=False):
            raise


def _print_plan(request: "ABRequest", *, as_json: bool) -> int:
    from paceline.experiments.ab.ab_test import prepare_ab
    from paceline.plan import plan_json
    from paceline.record.codec import dump
    from paceline.record.masking import mask_plan
    from paceline.record.redact import Redactor

    prepared = prepare_ab(request, build=False)
    mask = Redactor(prepared.secret_values)
    if as_json:
        plans = {name: plan_json(mask_plan(plan, mask)) for name, plan in prepared.plans.items()}
        data = {"arms": plans, "max_blocks": prepared.schedule.max_blocks, "warmup": prepared.schedule.warmup}
        output.write_encoded(dump(data) + b"\n")
    else:
        output.write(mask.text("\n".join(_plan_lines(prepared))) + "\n")
    return 0


def _plan_lines(prepared: "Prepared") -> Iterator[str]:
    import shlex

    from paceline.experiments.ab.blocks import order_of
    from paceline.experiments.ab.report import ArmInfo, describe
    from paceline.report.format import visible

    for arm in prepared.arms:
        role = " (baseline)" if arm is prepared.arms[0] else ""
        facts = describe(ArmInfo(name=arm.name, null=arm.null, facts=arm.facts))
        yield visible(f"arm {arm.name}{role}: {facts}")
        for case in prepared.plans[arm.name].cases:
            command = shlex.join(case.at(word, Path("RUN_DIR")) for word in case.argv)
            yield visible(f"  {case.name}: {command}")
    schedule = prepared.schedule
    names = [arm.name for arm in prepared.arms]
    seed = prepared.spec.seed
    if seed is not None:
        for block in range(min(3, schedule.max_blocks)):
            yield visible(f"block {block + 1}: {', '.join(order_of(block + schedule.warmup, names, seed))}")
    looks = ", ".join(map(str, schedule.looks))
    yield f"at most {schedule.max_blocks} blocks after {schedule.warmup} to warm up; looks after {looks}"
    yield from (f"note: {visible(note)}" for note in prepared.notes)
