"""`paceline completion`: the shell's side of completing our commands.

click has such scripts too; theirs take a name apart at colons (bash) and commas (fish), and our cases and tags have
both: `tag:fast`, `sort[executor=local,size=10]`.
"""

import os
import re

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

VARIABLE = "_PACELINE_COMPLETE"

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

_OPTION = re.compile(r"^--[\w-]+=")
_SPECIAL = re.compile(r"([\s\\\"'`$&|;<>()\[\]{}*?!#~])")


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
    from paceline.cli import cli

    register()
    found = get_completion_class(shell)
    assert found is not None, shell
    write(found(cli, {}, "paceline", VARIABLE).source() + "\n")
