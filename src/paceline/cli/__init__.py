"""The command line: a module for each command, imported when it is used, so that help and version cost nothing."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any

import click

from paceline import __version__
from paceline.cli import output
from paceline.errors import ConfigError, PacelineError, did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

INTERRUPTED = 130
COMPLETE_VARIABLE = "_PACELINE_COMPLETE"  # set by the shell's side of completion
HELP_OPTIONS = ["-h", "--help"]
WIDEST_HELP = 100
_BESIDE = re.compile(r"^  (\S.*?) {2,}(?=\S)|^ {8,}(?=\S)")
CONFIG_OPTIONS = frozenset({"--config", "--matrix"})

# Name → one line of help. The module of the same name holds `command`; listing them imports none.
COMMANDS = {
    "init": "Write a small, commented suite to start from.",
    "plan": "Show what would run, and all that is wrong with it.",
    "run": "Run a suite: every case gets its record, the session its report.",
    "time": "Time commands, or Python code, in turns, and say which is faster.",
    "list": "List the sessions of a results directory.",
    "show": "Show the report of a session, or one of its cases.",
    "send": "Deliver what sessions have left waiting for their sinks.",
    "history": "Look at the results of all sessions, and keep their database.",
    "regressions": "Show what changed, when, how surely, and what may be the cause.",
    "releases": "Show what changed since each release, and which commits own it.",
    "verdict": "Say what a change is: acknowledged, expected, fixed or false.",
    "compare": "Compare sessions, revisions, branches, environments or files.",
    "check": "Say whether a change makes anything slower than its base.",
    "ab": "Run a suite in several settings, in turns, and compare them.",
    "bisect": "Find the commit, or the package version, that made it worse.",
    "nightly": "Run a suite, confirm what got worse, name the commit that did it.",
    "dashboard": "Write the history as a site of charts, or show it live.",
    "evals": "Evaluate models under several attentions, on a pool of GPUs.",
    "mounts": "Show what a container needs to run a suite.",
    "schema": "Print the JSON Schema of configuration, plan, record or report.",
    "doctor": "Say what is missing, and how far numbers can be trusted here.",
    "completion": "Print the script that completes commands in a shell.",
}

# In the order of a user's day; what is in none of them is listed last, under "More".
GROUPS = {
    "Measure": ("init", "plan", "run", "time", "nightly", "evals", "curate"),
    "Look": ("show", "list", "compare", "releases", "dashboard"),
    "Find out": ("regressions", "verdict", "check", "ab", "bisect", "doctor"),
    "Keep": ("history", "send"),
    "Extend": ("mounts", "schema", "completion"),
}

EPILOG = """\b
Examples:
  paceline init                      write paceline.yaml and a script beside it
  paceline plan                      what would run, and every mistake at once
  paceline run                       run ./paceline.yaml
  paceline run nightly.yaml --only 'tag:fast' --jobs 2
  paceline show                      the newest session's report
  paceline regressions               what changed since, and what may be the cause
  paceline doctor                    is this machine fit to measure on, and what is missing
"""


class Formatter(click.HelpFormatter):
    """Help that fits a narrow terminal: prose is wrapped, and what an example does goes below it."""

    def write_text(self, text: str) -> None:
        width = max(self.width - self.current_indent, 20)
        super().write_text("\n\n".join(self._fitted(part, width) for part in text.split("\n\n")))

    def _fitted(self, paragraph: str, width: int) -> str:
        mark, *lines = paragraph.splitlines() or [""]
        if mark != "\b":
            return paragraph
        if not any(line.startswith(" ") for line in lines):
            return " ".join(lines)
        if all(len(line) <= width for line in lines):
            return paragraph
        return "\n".join([mark, *(_BESIDE.sub(_set_below, line) for line in lines)])


def _set_below(found: re.Match[str]) -> str:
    return f"  {found[1]}\n      " if found[1] else "      "


class Context(click.Context):
    """What a command runs in."""

    formatter_class = Formatter


class Respelled(click.Option):
    """An option that was spelled otherwise before: the former spellings still work, and help does not list them."""

    def __init__(self, *args: Any, formerly: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.formerly = tuple(formerly)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        listed = self.opts
        self.opts = [*listed, *self.formerly]
        super().add_to_parser(parser, ctx)
        self.opts = listed


class LazyGroup(click.Group):
    """Lists each command's name with where it is (`module.attribute` in this package) and its line of help."""

    context_class = Context

    def __init__(
        self,
        *args: Any,
        listing: Mapping[str, tuple[str, str]],
        groups: Mapping[str, Sequence[str]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._listing = listing
        self._groups = groups or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """A command line that begins with an option and names a configuration, as an image is given it, is a run."""
        is_run = bool(args) and args[0].startswith("-") and "run" in self._listing
        if is_run and any(word.partition("=")[0] in CONFIG_OPTIONS for word in args):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._listing]  # here `list` is the module of that command, once it is imported

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._listing:
            return None
        module, _, attribute = self._listing[cmd_name][0].rpartition(".")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), attribute)
        for one in (command, *getattr(command, "commands", {}).values()):
            one.context_class = Context
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._listing and not name.startswith("-") and not ctx.resilient_parsing:
            hint = did_you_mean(name, self._listing, f"there is: {', '.join(self._listing)}")
            ctx.fail(f"No such command {name!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rest = [name for name in self._listing if not any(name in names for names in self._groups.values())]
        for title, names in (*self._groups.items(), ("More" if self._groups else "Commands", rest)):
            known = [(name, self._listing[name][1]) for name in names if name in self._listing]
            if known:
                with formatter.section(title):
                    formatter.write_dl(known)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        names = [name for name in self._listing if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=self._listing[name][1]) for name in names]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=LazyGroup,
    listing={name: (f"{name}.command", line) for name, line in COMMANDS.items()},
    groups=GROUPS,
    epilog=EPILOG,
    context_settings={"help_option_names": HELP_OPTIONS, "max_content_width": WIDEST_HELP},
)
@click.version_option(__version__, message="paceline %(version)s")
def cli() -> None:
    """Run benchmark suites, keep every result, and see what failed and why.

    Exit codes: 0 all is well, 1 something failed or got worse, 2 usage or configuration, 130 interrupted.
    """


def main() -> None:
    """The `paceline` program."""
    output.open_streams()
    code = _invoke()
    sys.exit(code if output.flush() else code or 1)


def _invoke() -> int:
    if COMPLETE_VARIABLE in os.environ:
        from paceline.cli.completion import register

        register()
    try:
        result = cli.main(prog_name="paceline", standalone_mode=False)
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        shown = StringIO()  # quotes what was typed, which may hold a secret like the text of any other error
        error.show(shown)
        click.echo(output.masked(shown.getvalue()), err=True, nl=False)
        return error.exit_code
    except PacelineError as error:
        # Configuration errors begin with file:line, where editors and CI look for it.
        text = output.error_text(error)
        click.echo(text if isinstance(error, ConfigError) else f"paceline: {text}", err=True)
        return error.exit_code
    except OSError as error:
        below = sys.modules.get("paceline.record.below")
        if below and isinstance(error, below.Refused):
            text = output.error_text(PacelineError(f"{error.filename}: {error.strerror}"))
            click.echo(f"paceline: {text}", err=True)
            return PacelineError.exit_code
        if output.flush():
            raise
        return 1  # click's own help or version could not be printed, which was said just now
    return result if isinstance(result, int) else 0
