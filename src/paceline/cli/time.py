"""`paceline time`: how long commands take, or Python code, without a suite and without leaving a file."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli import output
from paceline.cli.database import db_option, find_database, json_option
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.timing.commands import Manner
    from paceline.timing.results import Ratio, Result
    from paceline.timing.show import LiveView, QuietView
    from paceline.timing.statements import Processes
    from paceline.timing.targets import Target

EPILOG = """\b
Examples:
  paceline time 'sleep 0.1' 'sleep 0.2'              in turns, and which is faster by how much
  paceline time -N 'grep -c a words' --warmup 3      without a shell
  paceline time 'make -j {n}' -L n 1,2,4 --prepare 'make clean'
  paceline time 'sort words{n}' -P n 1 3 --setup 'make-words {n} > words{n}'
  paceline time ./new --reference ./old --export-json times.json
  paceline time --python 'sorted(x)' 'list(x)' --setup 'x = list(range(1000))'
  paceline time ./server-start --record start        into the history, as a case named start
"""
STYLES = ("auto", "basic", "full", "nocolor", "color", "none")
OF_COMMANDS = (
    "no_shell",
    "shell",
    "where",
    "show_output",
    "source",
    "ignore_failure",
    "min_runs",
    "max_runs",
    "order",
)
EXPORTS = ("export_json", "export_markdown", "export_csv")
OF_PYTHON = ("processes", "loops", "gc", "memory", "interpreter")

_several: dict[str, Any] = {"multiple": True, "metavar": "CMD"}
_number = click.IntRange(min=1)


@click.command(
    name="time", epilog=EPILOG, short_help="Time commands, or Python code, in turns, and say which is faster."
)
@click.argument("commands", nargs=-1, required=True, metavar="COMMAND...")
@click.option(
    "-w",
    "--warmup",
    metavar="N",
    type=click.IntRange(min=0),
    help="Runs before those that count. [default: 0]",
)
@click.option(
    "-r",
    "--runs",
    metavar="N",
    type=_number,
    help="Exactly so many runs. [default: as many as take --max-time]",
)
@click.option(
    "-m", "--min-runs", metavar="N", type=_number, default=10, help="At least so many runs. [default: 10]"
)
@click.option("-M", "--max-runs", metavar="N", type=_number, help="At most so many runs.")
@click.option(
    "--max-time",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=3.0,
    help="How long the runs of one command take together. [default: 3]",
)
@click.option(
    "-s", "--setup", **_several, help="Before the runs of a command; with --python, code that is run once."
)
@click.option("-p", "--prepare", **_several, help="Before each run. Once for all commands, or once for each.")
@click.option("-C", "--conclude", **_several, help="After each run.")
@click.option("-c", "--cleanup", **_several, help="After all runs of a command.")
@click.option(
    "-N", "no_shell", is_flag=True, help="Without a shell. Else its start is measured and taken off."
)
@click.option("-S", "--shell", metavar="SHELL", help="The shell, 'default' or 'none'. [default: sh]")
@click.option(
    "-L",
    "--parameter-list",
    "lists",
    nargs=2,
    multiple=True,
    metavar="NAME A,B,C",
    help="Put each of these values in for {NAME}. Repeatable: every combination runs.",
)
@click.option(
    "-P",
    "--parameter-scan",
    "scans",
    nargs=3,
    multiple=True,
    metavar="NAME MIN MAX",
    help="The same for a range.",
)
@click.option(
    "-D", "--parameter-step-size", "step", metavar="STEP", help="The step of --parameter-scan. [default: 1]"
)
@click.option(
    "-n", "--command-name", "names", multiple=True, metavar="NAME", help="A name for a command. Repeatable."
)
@click.option(
    "--reference", metavar="CMD", help="Compare all others with this command, not with the fastest."
)
@click.option("--reference-name", metavar="NAME", help="A name for it.")
@click.option("-i", "--ignore-failure", is_flag=True, help="Time commands that fail, too.")
@click.option("--show-output", is_flag=True, help="The same as --output inherit.")
@click.option("--output", "where", metavar="WHERE", help="null, pipe, inherit, or a file. [default: null]")
@click.option(
    "--input",
    "source",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What commands read from their standard input. [default: nothing]",
)
@click.option(
    "--order",
    type=click.Choice(["turns", "sequence"]),
    help="In turns, or one command after the other. [default: turns, but in sequence if set-ups differ]",
)
@click.option(
    "-u",
    "--time-unit",
    "unit",
    metavar="UNIT",
    type=click.Choice(["second", "millisecond", "microsecond", "nanosecond"]),
    help="second, millisecond, microsecond or nanosecond. [default: what fits]",
)
@click.option(
    "--style",
    type=click.Choice(STYLES),
    default="auto",
    help="Live and in colours (full), only one of them (nocolor, color), neither (basic), or nothing at all (none). "
    "[default: auto, by the terminal]",
)
@click.option(
    "--sort",
    type=click.Choice(["auto", "command", "mean-time"]),
    default="auto",
    help="The results as commands were given, or by their mean time. [default: as given]",
)
@click.option("--export-json", metavar="FILE", help="hyperfine's JSON; - is standard output.")
@click.option("--export-markdown", metavar="FILE", help="A table in Markdown.")
@click.option("--export-csv", metavar="FILE", help="A table in CSV.")
@json_option
@click.option("--record", metavar="NAME", help="Keep the results in the history, as a case of this name.")
@db_option
@click.option("--python", "is_python", is_flag=True, help="The commands are Python code, timed in a loop.")
@click.option(
    "--processes", metavar="N", type=_number, help="With --python: in so many processes. [default: 5]"
)
@click.option(
    "--loops", metavar="N", type=_number, help="With --python: calls a lap. [default: by the clock]"
)
@click.option("--gc", is_flag=True, help="With --python: leave the garbage collector on.")
@click.option("--memory", is_flag=True, help="With --python: also the peak of what one call allocates.")
@click.option(
    "--interpreter", metavar="PYTHON", help="With --python: another Python. [default: that of paceline]"
)
@click.pass_context
def command(context: click.Context, /, commands: tuple[str, ...], **given: Any) -> int:
    """Time commands, or with --python code, and say which is faster and how sure that is.

    Commands run in turns, so that a machine that gets slower meanwhile slows all of them down. Nothing is left behind
    unless --export-… or --record says so. The options are hyperfine's where it has them.

    Exit 1 if a command fails; Ctrl-C shows what was measured so far.
    """
    from paceline.timing.commands import CommandFailed
    from paceline.timing.results import Result

    _refuse_strangers(context, given["is_python"])
    targets = _targets(commands, given)
    results = [Result(target=target) for target in targets]
    _check_places(given)
    failure: CommandFailed | None = None
    is_interrupted = False
    in_turns = _in_turns(targets, given)
    try:
        with _view(results, given) as view:
            _measure(results, given, view, in_turns=in_turns)
    except KeyboardInterrupt:
        is_interrupted = True
    except CommandFailed as error:
        failure = error
    _report(results, given, in_turns=in_turns, is_complete=not is_interrupted and failure is None)
    if failure is not None:
        raise failure
    return 130 if is_interrupted else 0


def _refuse_strangers(context: click.Context, is_python: bool) -> None:
    """Options that mean nothing here are refused, not ignored."""
    for parameter in context.command.params:
        name = str(parameter.name)
        is_given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if is_given and name in (OF_COMMANDS if is_python else OF_PYTHON):
            which = "commands, not for --python" if is_python else "--python"
            raise click.UsageError(f"{parameter.opts[-1]} is for {which}")


def _targets(commands: Sequence[str], given: dict[str, Any]) -> "list[Target]":
    from paceline.record.redact import Redactor, secret_values
    from paceline.timing.targets import Around, listed, make_reference, make_targets, scanned

    params: dict[str, list[str]] = {}
    for name, values in given["lists"]:
        params[name] = listed(values)
    for name, low, high in given["scans"]:
        params[name] = scanned(low, high, given["step"])
    if given["step"] and not given["scans"]:
        raise click.UsageError("--parameter-step-size needs --parameter-scan")
    if len(params) < len(given["lists"]) + len(given["scans"]):
        raise click.UsageError("a parameter is given twice")
    around = Around(**{kind: given[kind] for kind in ("setup", "prepare", "conclude", "cleanup")})
    if given["reference_name"] and not given["reference"]:
        raise click.UsageError("--reference-name needs --reference")
    made = make_targets(commands, names=given["names"], params=params, around=around)
    if given["reference"]:
        made.insert(0, make_reference(given["reference"], given["reference_name"], around))
    redactor = Redactor(secret_values(os.environ))
    return [replace(target, name=redactor.text(target.name)) for target in made]


def _in_turns(targets: "Sequence[Target]", given: dict[str, Any]) -> bool:
    """Whether commands take turns: those that are set up differently may undo what another needs."""
    if given["order"] is not None:
        return bool(given["order"] == "turns")
    differ = any(len({getattr(one, kind) for one in targets}) > 1 for kind in ("setup", "cleanup"))
    if differ and not given["is_python"] and given["style"] != "none":
        click.echo(
            "one command after the other, since --setup or --cleanup differ; --order turns mixes them",
            err=True,
        )
    return given["is_python"] or not differ


def _check_places(given: dict[str, Any]) -> None:
    """Find out before anything runs that a file cannot be written."""
    for option in EXPORTS:
        place = given[option]
        if (
            place
            and place != "-"
            and (Path(place).is_dir() or not os.access(Path(place).absolute().parent, os.W_OK))
        ):
            raise PacelineError(f"--{option.replace('_', '-')} {place}: cannot be written there")


def _view(results: "Sequence[Result]", given: dict[str, Any]) -> "LiveView | QuietView":
    from paceline.timing.show import LiveView, QuietView

    style = given["style"]
    is_live = output.is_terminal() if style == "auto" else style in ("full", "nocolor")
    if not is_live or given["as_json"] or given["where"] == "inherit" or given["show_output"]:
        return QuietView()
    return LiveView(results, sys.stdout, given["unit"], colour=_wants_colour(style))


def _wants_colour(style: str) -> bool:
    return output.wants_colour() if style == "auto" else style in ("full", "color")


def _measure(
    results: "Sequence[Result]", given: dict[str, Any], view: "LiveView | QuietView", *, in_turns: bool
) -> None:
    if given["is_python"]:
        from paceline.timing.statements import time_statements

        time_statements(results, _processes(given), view)
        return
    from paceline.timing.commands import Runs, time_commands

    runs = Runs(
        warmup=given["warmup"] or 0,
        exactly=given["runs"],
        least=given["min_runs"],
        most=given["max_runs"],
        max_time_s=given["max_time"],
    )
    time_commands(results, runs, _manner(given, in_turns=in_turns), view)


def _processes(given: dict[str, Any]) -> "Processes":
    from paceline.timing.functions import Effort
    from paceline.timing.statements import Processes

    count = given["processes"] or 5
    # What is prepared for a round is there for one call.
    loops = given["loops"] or (1 if given["prepare"] or given["conclude"] else None)
    effort = Effort(
        rounds=given["runs"],
        loops=loops,
        warmup=given["warmup"],
        seconds=given["max_time"] / count,
        gc=given["gc"],
        memory=given["memory"],
    )
    return Processes(count=count, python=given["interpreter"], effort=effort)


def _manner(given: dict[str, Any], *, in_turns: bool) -> "Manner":
    from paceline.timing.commands import PLACES, Manner

    shell = "none" if given["no_shell"] and given["shell"] is None else given["shell"] or "default"
    if given["no_shell"] and shell != "none":
        raise click.UsageError("-N is without a shell: leave out --shell")
    where = given["where"] or ("inherit" if given["show_output"] else "null")
    if given["show_output"] and where != "inherit":
        raise click.UsageError("--show-output is --output inherit: choose one")
    if where == "pipe" and given["source"] is not None:
        raise click.UsageError("--input goes with any --output but pipe")
    return Manner(
        shell=None if shell == "none" else tuple(shlex.split("sh" if shell == "default" else shell)),
        output=next((place for place in PLACES if place == where), Path(where)),
        input=given["source"],
        ignores_failure=given["ignore_failure"],
        in_turns=in_turns,
    )


def _report(results: "Sequence[Result]", given: dict[str, Any], *, in_turns: bool, is_complete: bool) -> None:
    """Show the results, write the files that were asked for, and keep them in the history."""
    from paceline.timing.exports import as_csv, as_json, as_markdown, comparisons
    from paceline.timing.results import compare_all, fastest

    found = [one for one in results if one.starts]
    ratios: list[Ratio] = []
    if len(found) > 1:
        reference = results[0] if given["reference"] and results[0].starts else fastest(found)
        ratios = compare_all(found, reference, in_turns=in_turns)
    if given["sort"] == "mean-time":
        found = sorted(found, key=lambda one: one.mean_s)
    if given["as_json"]:
        output.write_json({**as_json(found), "comparisons": comparisons(ratios), "is_complete": is_complete})
    elif given["style"] != "none":
        output.write_lines(_lines(found, ratios, given, is_complete=is_complete))
    from paceline.record.codec import dump

    if given["export_json"] and found:
        _export(given["export_json"], dump(as_json(found), pretty=True).decode() + "\n")
    if given["export_markdown"] and found:
        _export(given["export_markdown"], as_markdown(found, ratios, given["unit"]))
    if given["export_csv"] and found:
        _export(given["export_csv"], as_csv(found))
    if given["record"] and found:
        from paceline.timing.keep import Keeper, records_of

        url = find_database(given["db"])
        keeper = Keeper(url, given["record"])
        keeper.add(records_of(found, given["record"]))
        if not given["as_json"] and given["style"] != "none":
            output.write_lines([f"recorded as {keeper.session.name} in {url}"])


def _lines(
    found: "Sequence[Result]", ratios: "Sequence[Ratio]", given: dict[str, Any], *, is_complete: bool
) -> Iterator[str]:
    from paceline.timing.show import BARS, block, summary

    colour = _wants_colour(given["style"])

    def styled(kind: str, text: str) -> str:
        return (
            click.style(text, bold=True)
            if colour and kind == "bold"
            else click.style(text, fg=kind)
            if colour
            else text
        )

    bars = _can_show(BARS)
    for number, result in enumerate(found, start=1):
        yield from block(number, result, given["unit"], styled, bars=bars)
        yield ""
    if found and not is_complete:
        yield styled("yellow", "stopped early: these are the runs until then")
    yield from summary(ratios, styled)


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _export(place: str, text: str) -> None:
    if place == "-":
        output.write(text)
        return
    try:
        Path(place).write_text(text, encoding="utf-8")
    except OSError as error:
        raise PacelineError(f"{place}: {error.strerror}") from error
