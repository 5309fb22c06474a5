"""`paceline check`: does this change make anything slower?"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli import output
from paceline.cli.completion import complete_metric, complete_selection
from paceline.cli.database import share_of
from paceline.cli.inputs import SuiteCommand, config_inputs, make_request, masked_errors, parse_time
from paceline.cli.revisions import parse_setup

if TYPE_CHECKING:
    from paceline.experiments.check.check import CheckTask

EPILOG = """\b
Examples:
  paceline check                             what is not merged yet, and not committed, against the default branch
  paceline check --base origin/main --fail-above 5% --time 10m
  paceline check suite.yaml --only 'tag:fast' --metric work_s
  paceline check --base v2.0 --head v2.1 --install .
  paceline check --markdown check.md --json > check.json

\b
Base and head run in turns on this machine until every metric is decided, or the time is up. Exit
code 1 only for a loss that is beyond --fail-above and beyond noise, or a case that fails at the
head alone; 2 if nothing was compared; else 0. In GitHub Actions it also writes the job's summary,
annotations and, with GITHUB_TOKEN, a comment; in GitLab CI, with GITLAB_TOKEN, a note.
"""


@click.command("check", cls=SuiteCommand, epilog=EPILOG)
@config_inputs
@click.option(
    "--base",
    metavar="REF",
    help="What the head is held against, from where the two parted. [default: what CI says, else the default branch]",
)
@click.option("--head", metavar="REF", help="What is checked. [default: HEAD with what is not committed yet]")
@click.option(
    "--fail-above",
    metavar="SHARE",
    callback=share_of,
    default="5%",
    show_default=True,
    help="A loss smaller than this does not fail.",
)
@click.option(
    "--time",
    "max_time_s",
    metavar="TIME",
    callback=parse_time,
    default="10m",
    show_default=True,
    help="Stop after this time of runs: 90s, 30m, 2h.",
)
@click.option(
    "--runs",
    "max_runs",
    metavar="N",
    type=click.IntRange(min=2),
    default=200,
    show_default=True,
    help="Stop after so many runs of both sides together.",
)
@click.option(
    "--only",
    metavar="EXPR",
    multiple=True,
    shell_complete=complete_selection,
    help="Only cases of this name, glob or tag:NAME. Repeatable.",
)
@click.option(
    "--exclude",
    metavar="EXPR",
    multiple=True,
    shell_complete=complete_selection,
    help="Leave out cases of this name, glob or tag:NAME. Repeatable.",
)
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_metric,
    help="Judge only this metric. Repeatable. [default: all that have a direction]",
)
@click.option(
    "--repo",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The repository. [default: the one around the suite's first file]",
)
@click.option("--setup", metavar="CMD", help="Builds a side, run once in its tree. No shell is involved.")
@click.option(
    "--install",
    metavar="SPEC",
    multiple=True,
    help="Run each side in an environment of its own with this package; '.' is its tree. Repeatable.",
)
@click.option("--find-links", metavar="DIR", multiple=True, help="With --install: find packages also here.")
@click.option("--no-index", is_flag=True, help="With --install: find packages nowhere but in --find-links.")
@click.option(
    "--vary-hash-seed/--no-vary-hash-seed",
    default=True,
    show_default=True,
    help="Give each block of runs a PYTHONHASHSEED of its own, the same for both sides.",
)
@click.option(
    "--explain/--no-explain",
    "explains",
    default=True,
    show_default=True,
    help="Run what got worse once more under a profiler, on both sides.",
)
@click.option(
    "--results-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the check's directory is made. [default: results_dir of the suite]",
)
@click.option("--db", metavar="URL", help="Also record all runs in this history.")
@click.option(
    "--markdown",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the result there, too.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON; progress goes to standard error."
)
@click.option("--quiet", "-q", is_flag=True, help="Print the result only.")
def command(*, markdown: Path | None, as_json: bool, quiet: bool, **options: Any) -> int:
    """Measure a change against what it is to be merged into, and fail if something got slower.

    Without a CONFIG, paceline.yaml in the current directory is the suite. It is the same for both sides; a benchmark
    that lies in the repository runs in each side's own copy.
    """
    from paceline.experiments.check.check import prepare_check, run_check
    from paceline.experiments.check.publish import publish
    from paceline.experiments.check.report import check_json, terminal_lines
    from paceline.experiments.check.report import markdown as in_markdown
    from paceline.experiments.journal import write_report
    from paceline.record.codec import dump

    def say(line: str) -> None:
        if quiet:
            return
        if as_json:
            click.echo(line, err=True)
        else:
            output.write_lines([line])
            sys.stdout.flush()

    with masked_errors(options["configs"]):
        ready = prepare_check(_make_task(options), say)
        result = run_check(ready, say)
    mask = ready.redactor
    data = dump(check_json(result), pretty=True, redactor=mask) + b"\n"
    text = mask.text(in_markdown(result))
    write_report(result.directory, {"check.json": data, "check.md": text.encode()})
    if markdown is not None:
        write_report(markdown.absolute().parent, {markdown.name: text.encode()})
    if as_json:
        output.write_encoded(data)
    else:
        output.write_lines(mask.text(line) for line in terminal_lines(result))
    for line in publish(result, mask):
        click.echo(line, err=as_json)
    return result.exit_code


def _make_task(options: Mapping[str, Any]) -> "CheckTask":
    from paceline.experiments.builds.build import Builder
    from paceline.experiments.builds.cache import default_cache_dir
    from paceline.experiments.builds.environments import installer_options
    from paceline.experiments.check.check import CheckTask
    from paceline.findings.commits import open_repository
    from paceline.plan import find_results_dir
    from paceline.session.history import choose_database
    from paceline.session.request import load_config

    request = make_request({name: options[name] for name in ("configs", "datasets", "only", "exclude")})
    given = options["results_dir"]
    results_dir = given.absolute() if given else find_results_dir(load_config(request))
    repo = open_repository((options["repo"] or request.configs[0].parent).absolute()).root
    same = ("fail_above", "metrics", "max_runs", "max_time_s", "vary_hash_seed", "explains")
    return CheckTask(
        request=request,
        repo=repo,
        builder=Builder(
            cache_dir=default_cache_dir(),
            log=results_dir / "build.log",
            repo=repo,
            setup=parse_setup(options["setup"]),
            install=options["install"],
            options=installer_options(options["find_links"], no_index=options["no_index"], base=Path.cwd()),
        ),
        results_dir=results_dir,
        base=options["base"] or "",
        head=options["head"] or "",
        database=choose_database(options["db"], None, results_dir, enabled=options["db"] is not None),
        words=tuple(_words(options)),
        **{name: options[name] for name in same},
    )


def _words(options: Mapping[str, Any]) -> list[str]:
    """What of the command line says where things are and how they are built, to run it again."""
    words = [str(path) for path in options["configs"]]
    words += ["--datasets", str(options["datasets"])] if options["datasets"] else []
    words += ["--repo", str(options["repo"])] if options["repo"] else []
    words += ["--setup", options["setup"]] if options["setup"] else []
    for name in ("install", "find_links"):
        words += [word for one in options[name] for word in (f"--{name.replace('_', '-')}", one)]
    return [*words, *(["--no-index"] if options["no_index"] else [])]
