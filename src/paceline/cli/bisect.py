"""`paceline bisect`: which commit, or which version of a package, made a number worse."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli import output
from paceline.cli.completion import complete_finding, complete_metric, complete_selection
from paceline.cli.inputs import SuiteCommand, config_inputs, masked_errors

if TYPE_CHECKING:
    from paceline.experiments.bisect.bisection import BisectTask

EPILOG = """\b
Examples:
  paceline bisect --good v1.4 --bad main --case sort --metric work_s
  paceline bisect --repo ../library --good 3f2a91c --bad HEAD --case sort --setup 'make build'
  paceline bisect --repo ../library --good v2 --bad main --case sort --install .
  paceline bisect --package dask --good 2026.1 --bad 2026.8 --case join --install distributed
  paceline bisect --regression 7c1e --budget 2h
  paceline bisect … --json > bisect.json

\b
Both ends are measured in turns first; if they do not differ, it says so and ends. Then the commit
is measured that is expected to tell most, until one of them is the culprit with the confidence
asked for. Killed, the same command goes on: no run is lost or repeated. Exit code 0: the culprit
was found; 1: it was not; 2: the command line or the suite is wrong; 130: interrupted.
"""


@click.command(
    "bisect", cls=SuiteCommand, epilog=EPILOG, short_help="Find the commit that made a number worse."
)
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
    "--max-runs",
    metavar="N",
    type=click.IntRange(min=4),
    default=150,
    show_default=True,
    help="Give up after this many runs.",
)
@click.option("--budget", metavar="TIME", help="Give up after this time: 90s, 30m, 2h. [default: none]")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where runs and report are kept. [default: RESULTS_DIR/bisect/CASE-<hash of the question>]",
)
@click.option("--fresh", is_flag=True, help="Forget what ran before for the same question.")
@click.option(
    "--db",
    metavar="URL",
    help="The history that --regression is looked up in. "
    "[default: PACELINE_DB, else history.url of the configuration, else benchmark.db]",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print bisect.json; everything else goes to standard error."
)
def command(*, as_json: bool, **options: Any) -> int:
    """Find the commit that made a metric of a case worse, or better.

    The suite is that of the user's tree; it runs with each revision's own tree as {repo_dir}, as PACELINE_REPO and
    as its working directory.
    """
    from paceline.cli.bisect_task import make_task

    with masked_errors(options["configs"]):
        task = make_task(options)
        return _bisect(task, as_json=as_json)


def _bisect(task: "BisectTask", *, as_json: bool) -> int:
    from paceline.cli.bisect_progress import Progress
    from paceline.experiments.bisect.bisection import run_bisection, write_result

    stream = sys.stderr if as_json else sys.stdout
    progress = Progress(stream)
    progress.begin(task)
    result = run_bisection(task, progress.ran)
    write_result(result, task.out)
    progress.end(result, task.out)
    if as_json:
        from paceline.experiments.bisect.result import bisection_data
        from paceline.record.codec import dump

        output.write_bytes(dump(bisection_data(result), pretty=True) + b"\n")
    return result.exit_code
