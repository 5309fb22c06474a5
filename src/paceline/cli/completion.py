"""Completion in a shell: the names that it is offered, and `paceline completion` with the shell's side of it.

click has such scripts too; theirs take a name apart at colons (bash) and commas (fish), and our cases and tags have
both: `tag:fast`, `sort[executor=local,size=10]`. What takes long or fails offers nothing: a <Tab> must not wait, and
has nowhere to complain.
"""

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from paceline.cli.output import write
from paceline.errors import PacelineError
from paceline.record.remote.address import parse_location, working_dir

MOST = 500
PATIENCE_S = 0.2

EPILOG = """\b
Examples:
  source <(paceline completion bash)         for this shell, or as a line in ~/.bashrc
  source <(paceline completion zsh)          the same for ~/.zshrc, after compinit
  paceline completion fish > ~/.config/fish/completions/paceline.fish
"""

_BASH = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_WORDS="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_FISH = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp | string collect) \\
        COMP_CWORD=(commandline -t | string collect) %(prog_name)s)
    for completion in $response
        set -l told (string split --max 1 "," -- $completion)
        switch $told[1]
            case dir
                __fish_complete_directories $told[2]
            case file
                __fish_complete_path $told[2]
            case plain
                echo $told[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""

# `case` is a word of SQL, hence the quotes.
_CASES = "SELECT DISTINCT key FROM \"case\" WHERE kind <> 'data_setup' ORDER BY key"
_METRICS = 'SELECT DISTINCT series.name FROM series JOIN "case" ON "case".id = case_id WHERE {} ORDER BY 1'
_FINDINGS = "SELECT ident, verdict || ' ' || metric || ' of ' || case_key FROM finding ORDER BY at_time DESC"

_OPTION = re.compile(r"^--[\w-]+=")
_SPECIAL = re.compile(r"([\s\\\"'`$&|;<>()\[\]{}*?!#~])")


def complete_selection(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Entry names and tags of the suite's files."""
    from paceline.cli.inputs import DEFAULT_CONFIG, names_in

    return _offer(incomplete, names_in(ctx.params.get("configs") or (Path(DEFAULT_CONFIG),)))


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Sessions of the results directory, the newest first; something with a slash is a path."""
    if "/" in incomplete or incomplete.startswith("."):
        return [CompletionItem(incomplete, type="dir")]
    from paceline.cli.stored import find_results_place
    from paceline.record.directory import sessions

    try:
        place = find_results_place(ctx.params.get("results_dir"))
        paths = sessions(place) if isinstance(place, Path) else ()
    except (PacelineError, OSError):
        return []
    return _offer(incomplete, [path.name for path in paths])


def complete_session_case(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The cases of the session that was named."""
    from paceline.cli.stored import find_session, read_session

    try:
        place = find_session(ctx.params.get("session"), ctx.params.get("results_dir"))
    except PacelineError:
        return []
    cases = read_session(place).cases if isinstance(place, Path) else ()
    return _offer(incomplete, [case.name for case in cases])


def complete_case(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The cases of the history."""
    return _offer(incomplete, [key for (key,) in _ask(ctx, _CASES)])


def complete_metric(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The metrics of the case that was named, else all that the history has."""
    given = ctx.params.get("case") or ctx.params.get("cases")
    cases = [given] if isinstance(given, str) else list(given or ())
    wanted = " OR ".join(["key GLOB ?"] * len(cases)) or "1"
    rows = _ask(ctx, _METRICS.format(wanted), cases) or _ask(ctx, _METRICS.format("1"))
    return _offer(incomplete, [name for (name,) in rows])


def complete_finding(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The findings of the history with what they say."""
    rows = _ask(ctx, _FINDINGS)
    return [CompletionItem(ident, help=text) for ident, text in rows if ident.startswith(incomplete)]


def complete_sink(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The sinks that are installed, and none of them."""
    from paceline import plugins

    return _offer(incomplete, [*plugins.names("sinks"), "none"])


def _offer(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:MOST]


def _ask(ctx: click.Context, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Rows of the history, if it is a file; a server is not asked. Opening a store would take too long."""
    import sqlite3  # which no other use of a command line needs to load

    from paceline.cli.inputs import DEFAULT_CONFIG, history_in
    from paceline.history.urls import RESULTS, find_url, parse_target, readable_address

    try:
        # As the command would find it, as far as that is possible without reading the whole configuration.
        url, results = history_in([Path(DEFAULT_CONFIG)])
        place = working_dir(parse_location(results)) if results else RESULTS
        path = parse_target(find_url(ctx.params.get("db"), url, results=place)).path
        if path is None or not path.is_file():
            return []
        address = readable_address(path)
        with closing(sqlite3.connect(address, uri=True, timeout=PATIENCE_S)) as connection:
            return connection.execute(f"{sql} LIMIT {MOST}", parameters).fetchall()
    except (PacelineError, OSError, sqlite3.Error):
        return []


class OurBash(BashComplete):
    """Takes the line itself, since bash cuts words at colons and equal signs, and gives back what follows the cut."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        if not words or line[-1:].isspace():
            words.append("")
        # Of --option=value bash completes the value alone.
        self._typed = _OPTION.sub("", words[-1])
        self._is_quoted = _ends_quoted(line)
        return words[1:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        if item.type != "plain":
            return f"{item.type},"
        breaks = [sign for sign in ":=" if sign in os.environ.get("COMP_BREAKS", "")]
        cut = 0 if self._is_quoted else max((self._typed.rfind(sign) + 1 for sign in breaks), default=0)
        rest = item.value[cut:] if item.value.startswith(self._typed[:cut]) else item.value
        return "plain," + (rest if self._is_quoted else _SPECIAL.sub(r"\\\1", rest))


def _ends_quoted(line: str) -> bool:
    """Whether the word that is typed has begun with a quote that is still open."""
    bare = re.sub(r"\\.", "", line)
    return bare.count("'") % 2 == 1 or bare.count('"') % 2 == 1


class WholeWord(ShellComplete):
    """Gives back `--option=value` as one word, which zsh and fish replace as a whole."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        option = _OPTION.match(incomplete)
        self._option = option[0] if option else ""
        return args, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        if item.type == "plain" and not item.value.startswith("--"):
            item = CompletionItem(f"{self._option}{item.value}", help=item.help)
        return super().format_completion(item)


class OurZsh(WholeWord, ZshComplete):
    """With click's script."""


class OurFish(WholeWord, FishComplete):
    """Keeps commas in names."""

    source_template = _FISH


def register() -> None:
    """Let click use our scripts, and answer them."""
    add_completion_class(OurBash)
    add_completion_class(OurZsh)
    add_completion_class(OurFish)


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that lets a shell complete what you type; see the examples for where to put it.

    Commands, options and files complete, and the names of entries, tags, sessions, cases, metrics, sinks and findings.
    """
    from paceline.cli import COMPLETE_VARIABLE, cli

    register()
    completer = get_completion_class(shell)
    assert completer is not None, shell
    write(completer(cli, {}, "paceline", COMPLETE_VARIABLE).source() + "\n")
