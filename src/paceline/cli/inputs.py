"""A suite on the command line: the options that name its files, what stands in them, and errors that quote them."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from paceline.cli import CONFIG_OPTIONS
from paceline.cli.completion import complete_selection, complete_sink
from paceline.cli.output import log_once
from paceline.errors import ConfigError, PacelineError
from paceline.record.remote.address import parse_location

if TYPE_CHECKING:
    from paceline.session.request import Request

DEFAULT_CONFIG = "paceline.yaml"
ASV_CONFIGS = ("asv.conf.json", "asv.conf.jsonc")

_IN_OUR_WORDS = {
    "--entries": "--only, with names, globs or tags",
    "--entries-exact": "--only NAME, once for each",
    "--list": "the command `paceline plan`",
    "--reason": "`run_reason:` in a configuration",
    "--strict-config-check": "nothing: every configuration is checked",
    "--viewer-url": "`viewer_url:` in a configuration",
    "--viewer-url-template": "`viewer_url_template:` in a configuration",
}
"""What options of NeMo Curator's runner are called here."""
_MATRIX = f"{__name__}.matrix"
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
        location = parse_location(str(value))
        return location if isinstance(location, str) else super().convert(location, param, ctx)


class SuiteCommand(click.Command):
    """A command whose configuration files keep their order, positional or behind `--config` and `--matrix`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = (param for param in self.params if isinstance(param, click.Option) and not param.is_flag)
        with_value = frozenset(name for one in options for name in (*one.opts, *getattr(one, "formerly", ())))
        if ctx.resilient_parsing and args and args[-1] in with_value:
            args = args[:-1]  # a shell completes the value of this one
        named = [word.partition("=")[0] for word in args[: args.index("--") if "--" in args else None]]
        ctx.meta[_MATRIX] = "--matrix" in named
        try:
            return super().parse_args(ctx, _configs_first(args, with_value))
        except click.NoSuchOption as error:
            ours = _IN_OUR_WORDS.get(error.option_name)
            if ours is None:
                raise
            raise click.UsageError(f"No such option: {error.option_name}; use {ours}.", ctx) from None


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
        if name in CONFIG_OPTIONS and (equals or rest):
            configs.append(value if equals else rest.pop(0))
        elif word == "--resume":
            options.append(f"--resume={rest.pop(0) if rest and _names_a_session(rest[0]) else ''}")
        elif word in with_value and rest:
            options += [word, rest.pop(0)]
        else:
            (options if word.startswith("-") else configs).append(word)
    return [f"./{path}" if path.startswith("-") else path for path in configs] + options


def _names_a_session(word: str) -> bool:
    return not word.startswith("-") and not Path(word).is_file()


def _parse_shard(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    index, _, count = value.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise click.BadParameter(f"{value!r} is not i/n with 1 ≤ i ≤ n, such as 2/4")
    return int(index), int(count)


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
        "--session-name",
        metavar="NAME",
        help="The session's directory; {time} in it is the UTC time. [default: SUITE-{time}]",
    ),
    click.option(
        "--only",
        "-k",
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


jobs_option = click.option(
    "--jobs",
    "-j",
    metavar="N",
    type=click.IntRange(min=1),
    help="Run this many cases side by side, as far as their resources allow. "
    "[default: 1; on a pool as many as it has room for]",
)
history_option = click.option(
    "--db",
    metavar="URL",
    help="The history: a file, or postgresql://… "
    "[default: PACELINE_DB, else history.url of the configuration, else benchmark.db beside the results]",
)


def parse_time(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """What an option like --time says, in seconds."""
    if value is None:
        return None
    from paceline.config.values import parse_duration_s

    try:
        return parse_duration_s(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def add_options(function: _Function, options: Sequence[Callable[[Any], Any]]) -> _Function:
    """Give a command these options, in their order."""
    for decorate in reversed(options):
        function = decorate(function)
    return function


def config_inputs(function: _Function) -> _Function:
    """Give a command the options that name a suite's files, and no more."""
    return add_options(function, _INPUTS[:_FILES])


def suite_inputs(function: _Function) -> _Function:
    """Give a command the options that make up a request."""
    return add_options(function, _INPUTS)


def make_request(options: Mapping[str, Any]) -> "Request":
    """The request that a command's options make; without a file it is about the suite that lies here."""
    configs = options["configs"] or default_configs()
    from paceline.session.request import Request  # reads YAML, which `--help` does not need

    log_once()
    ctx = click.get_current_context(silent=True)
    matrix = bool(ctx and ctx.meta.get(_MATRIX))
    return Request(**{**options, "configs": configs, "matrix": matrix})


def default_configs() -> tuple[Path, ...]:
    """The suite that lies here: ours, else that of asv."""
    for name in (DEFAULT_CONFIG, *ASV_CONFIGS):
        if (path := Path(name)).is_file():
            return (path,)
    raise PacelineError(
        f"no configuration given and no {DEFAULT_CONFIG} here: name a file, as in "
        "'paceline run suite.yaml', or start one with 'paceline init'"
    )


def names_in(paths: Sequence[Path]) -> list[str]:
    """What a shell may offer behind `--only`: entries, then `tag:NAME`s."""
    entries = [
        entry
        for document in _documents(paths)
        for entry in _list(document.get("entries"))
        if isinstance(entry, dict)
    ]
    names = [str(entry["name"]) for entry in entries if "name" in entry]
    tags = [f"tag:{tag}" for entry in entries for tag in _list(entry.get("tags"))]
    return list(dict.fromkeys([*names, *sorted(tags)]))


def history_in(paths: Sequence[Path]) -> tuple[str | None, str | None]:
    """The database and the results directory that the files name, unless they are only known in a session."""
    url = results = None
    for document in _documents(paths):
        history = document.get("history")
        url = (history.get("url") if isinstance(history, dict) else None) or url
        results = document.get("results_dir") or results
    url, results = (one if isinstance(one, str) and "{" not in one else None for one in (url, results))
    return url, results


def _documents(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """What stands in a suite's files, though the suite may have mistakes; a file that cannot be read has nothing."""
    from paceline.config.nodes import parse_file, plain  # reads YAML, which `--help` does not need

    for path in paths:
        if not path.is_file():
            continue  # a pipe would be waited for, and gives what is in it once only
        try:
            documents = [plain(node) for node in parse_file(path)]
        except ConfigError:
            continue
        yield from (document for document in documents if isinstance(document, dict))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@contextmanager
def masked_errors(configs: Sequence[Path], *, is_suite: bool = True) -> Iterator[None]:
    """Give errors the names of the variables that these files mark as secret, so that they are printed without them.

    What is wrong with a file for another command is that it is one.
    """
    try:
        yield
    except PacelineError as error:
        for path in configs if is_suite else ():
            if any("arms" in document for document in _documents([path])):
                text = (
                    f"{path} is an A/B file: 'paceline ab {path}' runs it. Give the suite that it names here"
                )
                raise PacelineError(text) from error
        for document in _documents(configs):
            marked, taken_out = _list(document.get("secrets")), _list(document.get("not_secrets"))
            error.secret_names += (*map(str, marked), *(f"!{name}" for name in taken_out))
        raise
