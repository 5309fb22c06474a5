"""A group of commands of which only the one that is used is imported, so that help and version cost nothing."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class Source(NamedTuple):
    """Where a command is: a module of this package, a name in it, and its line of help."""

    module: str
    attribute: str
    line: str


class LazyGroup(click.Group):
    """Knows its commands by name and line of help."""

    def __init__(self, *args: Any, sources: Mapping[str, Source], **options: Any) -> None:
        super().__init__(*args, **options)
        self._sources = sources

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._sources)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._sources:
            return None
        source = self._sources[cmd_name]
        found = getattr(import_module(f"paceline.cli.{source.module}"), source.attribute)
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if (
            args
            and args[0] not in self._sources
            and not args[0].startswith("-")
            and not ctx.resilient_parsing
        ):
            from paceline.errors import did_you_mean

            hint = did_you_mean(args[0], self._sources, f"there is: {', '.join(self._sources)}")
            ctx.fail(f"No such command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, source.line) for name, source in self._sources.items()])


def apart(commands: Mapping[str, tuple[str, str]]) -> dict[str, Source]:
    """Commands that share modules: `log` of `history.log` is its `log_command`."""
    return {name: Source(module, f"{name}_command", line) for name, (module, line) in commands.items()}
