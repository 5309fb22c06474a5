"""Writes docs/cli.md from the commands themselves: `python -m tools.reference.cli docs/cli.md`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from paceline.cli import COMMANDS, HELP_OPTIONS, Context, cli

_WIDTH = 100

_INTRODUCTION = """\
# Command line

<!-- Made by `make reference` from the commands; edit their help texts instead. -->

Exit codes are the same for every command:

| code | meaning |
|---|---|
| 0 | all is well |
| 1 | something failed or got worse |
| 2 | the command line or the configuration is wrong; each mistake is a line on standard error |
| 130 | interrupted |

On a terminal `run` draws a live view; elsewhere it prints a plain log. `NO_COLOR=1` turns colours off, and
`FORCE_COLOR=1` turns them on in a log that is no terminal. `python -m paceline` is the same as `paceline`.
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    root = _context(cli, "paceline", None)
    yield _section("paceline", root)
    for name in COMMANDS:
        found = cli.get_command(root, name)
        assert found is not None, name
        context = _context(found, name, root)
        yield _section(f"paceline {name}", context)
        if isinstance(found, click.Group):
            yield from _inner_sections(found, context)


def _inner_sections(group: click.Group, parent: click.Context) -> Iterator[str]:
    for name in group.list_commands(parent):
        found = group.get_command(parent, name)
        assert found is not None, name
        yield _section(f"{parent.command_path} {name}", _context(found, name, parent))


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    return Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        help_option_names=HELP_OPTIONS,
    )


def _section(title: str, context: click.Context) -> str:
    return f"## {title}\n\n```text\n{context.command.get_help(context).rstrip()}\n```\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
