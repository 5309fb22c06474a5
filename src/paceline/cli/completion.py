"""`paceline completion`: the shell's side of completing our commands."""

import click
from click.shell_completion import get_completion_class

from paceline.cli.output import write

EPILOG = """\b
Examples:
  source <(paceline completion bash)         for this shell, or as a line in ~/.bashrc
  source <(paceline completion zsh)          the same for ~/.zshrc
  paceline completion fish > ~/.config/fish/completions/paceline.fish
"""


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL.

    Commands, options and files complete, and behind --only and --exclude the entries and tags of the suite.
    """
    from paceline.cli import cli

    found = get_completion_class(shell)
    assert found is not None, shell
    write(found(cli, {}, "paceline", "_PACELINE_COMPLETE").source() + "\n")
