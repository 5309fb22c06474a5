"""The options that say what a suite is made of; `run` and `plan` take the same ones."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from paceline.cli.completing import complete_sink
from paceline.errors import PacelineError
from paceline.record.remote.address import place_of

if TYPE_CHECKING:
    from paceline.session.request import Request

DEFAULT_CONFIG = "paceline.yaml"

_CONFIG_OPTIONS = frozenset({"--config", "--matrix"})
_FILES = 4  # of the options below, those that name files
_Function = TypeVar("_Function", bound=Callable[..., Any])


class ResultsDir(click.Path):
    """A directory, or the URL of an object store, which must not be taken apart like a path."""

    name = "results directory"

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        place = place_of(str(value))
        return place if isinstance(place, str) else super().convert(place, param, ctx)


class SuiteCommand(click.Command):
    """A command whose configuration files keep their order, positional or behind `--config` and `--matrix`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with_value = self._options_with_value()
        if ctx.resilient_parsing and args and args[-1] in with_value:
            args = args[:-1]  # a shell completes the value of this one
        return super().parse_args(ctx, _configs_first(args, with_value))

    def _options_with_value(self) -> frozenset[str]:
        options = (param for param in self.params if isinstance(param, click.Option) and not param.is_flag)
        return frozenset(name for option in options for name in option.opts)


def _configs_first(args: Sequence[str], with_value: frozenset[str]) -> list[str]:
    """All configuration files as positional arguments in the order given, then the options.

    `--resume` may stand alone; a value after it is a session unless it is another option or a file.
    """
    configs: list[str] = []
    options: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            configs += rest
            break
        if name in _CONFIG_OPTIONS and (equals or rest):
            configs.append(value if equals else rest.pop(0))
        elif word == "--resume":
            options.append(f"--resume={rest.pop(0) if rest and _names_a_session(rest[0]) else ''}")
        elif word in with_value and rest:
            options += [word, rest.pop(0)]
        else:
            (options if word.startswith("-") else configs).append(word)
    return [_not_an_option(path) for path in configs] + options


def _names_a_session(word: str) -> bool:
    return not word.startswith("-") and not Path(word).is_file()


def _not_an_option(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path


def _parse_shard(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    index, _, count = value.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise click.BadParameter(f"{value!r} is not i/n with 1 ≤ i ≤ n, such as 2/4")
    return int(index), int(count)


def complete_selection(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Entry names and tags of the suite's files, for a shell that completes `--only` and `--exclude`."""
    from paceline.cli.suite_names import names_in  # reads YAML, which a command line without <Tab> need not

    paths = ctx.params.get("configs") or (Path(DEFAULT_CONFIG),)
    return [CompletionItem(name) for name in names_in(paths) if name.startswith(incomplete)]


_INPUTS: tuple[Callable[[Any], Any], ...] = (
    click.argument("configs", nargs=-1, metavar="[CONFIG]...", type=click.Path(path_type=Path)),
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(),
        expose_value=False,
        help="A configuration file; the same as naming it alone. Several merge in the order given.",
    ),
    click.option(
        "--matrix",
        metavar="FILE",
        type=click.Path(),
        expose_value=False,
        help="The same as --config, for older command lines.",
    ),
    click.option(
        "--datasets",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="A JSON file with the paths of data sets: {name: {format: path}}.",
    ),
    click.option(
        "--sink",
        "sinks",
        metavar="NAME",
        multiple=True,
        shell_complete=complete_sink,
        help="Send results to this sink, and only to those named so; 'none' for no sink. Repeatable.",
    ),
    click.option(
        "--results-dir",
        metavar="DIR",
        type=ResultsDir(),
        help="Where sessions are kept, instead of the configuration's results_dir; a directory, or a URL such as "
        "s3://bucket/results.",
    ),
    click.option(
        "--session-name", metavar="NAME", help="The session's directory. [default: nightly-run-<UTC time>]"
    ),
    click.option(
        "--only",
        metavar="EXPR",
        multiple=True,
        shell_complete=complete_selection,
        help="Only cases of this name, glob or tag:NAME, and what they need. Repeatable: any of them.",
    ),
    click.option(
        "--exclude",
        metavar="EXPR",
        multiple=True,
        shell_complete=complete_selection,
        help="Leave out cases of this name, glob or tag:NAME. Repeatable.",
    ),
    click.option(
        "--shard",
        metavar="i/n",
        callback=_parse_shard,
        help="Only the i-th of n parts of the cases, to share a suite among machines.",
    ),
)


def config_inputs(function: _Function) -> _Function:
    """Give a command the options that name a suite's files, and no more."""
    for decorate in reversed(_INPUTS[:_FILES]):
        function = decorate(function)
    return function


def suite_inputs(function: _Function) -> _Function:
    """Give a command the options that make up a request."""
    for decorate in reversed(_INPUTS):
        function = decorate(function)
    return function


def make_request(options: Mapping[str, Any]) -> "Request":
    """The request that a command's options make; without a file it is about `paceline.yaml` here."""
    configs = options["configs"] or default_configs()
    from paceline.cli.logging_once import log_once
    from paceline.session.request import Request  # reads YAML, which `--help` does not need

    log_once()
    return Request(**{**options, "configs": configs})


def default_configs() -> tuple[Path, ...]:
    path = Path(DEFAULT_CONFIG)
    if not path.is_file():
        raise PacelineError(
            f"no configuration given and no {DEFAULT_CONFIG} here: name a file, as in "
            "'paceline run suite.yaml', or start one with 'paceline init'"
        )
    return (path,)
