"""`paceline mounts`: what of this machine a container must see to run a suite."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from paceline import plugins
from paceline.cli.inputs import masked_errors
from paceline.cli.output import write, write_bytes, write_encoded
from paceline.config.load import Loaded, load
from paceline.config.nodes import parse_file
from paceline.config.paths import normalise
from paceline.config.sinks import variables_of_sinks
from paceline.errors import ConfigError, PacelineError, Problem
from paceline.plan.directories import NAMES, Directories, find_directories, find_results
from paceline.plan.expansion import Expansion, Notes
from paceline.record.repository import find_top

IMAGE_USER = 10001
IMAGE_ENVIRON = {"HOME": "/home/paceline", "container": "oci"}
"""What docker/Dockerfile sets and a suite may see; `container` has us know that we are in one."""

# A path of the host means something else there, or nothing.
_NOT_FORWARDED = frozenset({*IMAGE_ENVIRON, "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR"})
# Read by these sinks' libraries, without being named in a suite.
_READ_BY_SINKS = {
    "mlflow": ("TRACKING_URI", "TRACKING_USERNAME", "TRACKING_PASSWORD", "TRACKING_TOKEN"),
    "wandb": ("API_KEY", "BASE_URL", "ENTITY", "PROJECT", "MODE"),
}
_READ_BY_STORES = (
    *(f"AWS_{name}" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")),
    *(f"AWS_{name}" for name in ("REGION", "DEFAULT_REGION", "ENDPOINT_URL")),
)
# Hidden by a mount, these leave no image: the directories, and for the second all that is in them.
_OF_IMAGE = ("/bin", "/etc", "/lib", "/lib64", "/opt/paceline", "/run", "/sbin", "/usr")
_OF_KERNEL = ("/dev", "/proc", "/sys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A directory of this machine and its path in the container; `is_made`: a run makes it where it is missing."""

    source: str
    target: str
    why: str
    is_writable: bool = False
    is_made: bool = False

    def shows(self, path: str) -> bool:
        """Whether the container sees through this mount what is at a path here, under the same path."""
        return self.source == self.target and _is_below(path, self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """All that a container needs; `left_out` says which paths it will not see, and why."""

    mounts: tuple[Mount, ...]
    variables: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    workdir: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A suite as it is read on one side: on this machine, or in the container."""

    loaded: Loaded
    expansion: Expansion
    directories: Directories

    def with_path(self, name: str, *, inside: bool) -> tuple[str, Notes]:
        notes = Notes()
        return normalise(self.expansion.path(name, inside=inside, notes=notes)), notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The files of a suite, and what the command line says about them."""

    configs: tuple[Path, ...]
    datasets: Path | None = None
    sinks: tuple[str, ...] = ()
    results_dir: Path | str | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        return self.configs if self.datasets is None else (*self.configs, self.datasets)


def read_sides(suite: Suite, environ: Mapping[str, str]) -> tuple[Side, Side, tuple[str, ...]]:
    """The suite here and in the container, and the variables that are handed from here to there."""
    here = _read(suite, environ)
    config = here.loaded.config
    # A pattern is matched in the container, against what is there.
    wanted = {
        *_variables_of(here),
        *config.secrets,
        *(name for name in config.capture_env if "*" not in name),
    }
    for file in suite.files:
        for document in parse_file(file):
            wanted |= {
                *variables_of_sinks(document)
            }  # `${VAR}` and `webhook_env: VAR` mean the same everywhere
    variables = tuple(sorted(name for name in wanted - _NOT_FORWARDED if name in environ))
    try:
        there = _read(suite, {**{name: environ[name] for name in variables}, **IMAGE_ENVIRON})
    except ConfigError as error:
        raise PacelineError(f"in the container, whose environment is another: {error}") from error
    return here, there, variables


def find_mounts(suite: Suite, here: Side, there: Side, workdir: str) -> tuple[list[Mount], list[str]]:
    """Every directory that the suite names or lies in, and what is left out."""
    mounts, left_out = _mounts_of_paths(here, there)
    for key in ("results_dir", "artifacts_dir"):  # where a run writes
        source, target = getattr(here.directories, key), str(getattr(there.directories, key))
        is_remote = key == "results_dir" and bool(here.directories.results_url)
        # What a path of the suite holds in the container is mounted already, wherever it is here.
        is_mounted = any(mount.is_writable and _is_below(target, mount.target) for mount in mounts)
        if source is not None and not is_remote and not is_mounted:
            mounts.append(Mount(source=str(source), target=target, why=key, is_writable=True, is_made=True))
    for file in suite.files:
        # The working tree around it, to read: scripts lie beside it, or somewhere below the top.
        path = normalise(str(file))
        if not any(mount.shows(path) for mount in mounts):
            top = str(find_top(Path(path).parent) or Path(path).parent)
            mounts.append(Mount(source=top, target=top, why="the suite"))
    if not any(mount.shows(workdir) for mount in mounts):
        mounts.append(Mount(source=workdir, target=workdir, why="the working directory"))
    return mounts, left_out


def settle(mounts: Sequence[Mount]) -> tuple[Mount, ...]:
    """One mount a target, parents before what lies in them; PacelineError for what cannot be mounted."""
    settled: dict[str, Mount] = {}
    for mount in mounts:
        _refuse_hiding(mount)
        known = settled.get(mount.target, mount)
        if known.source != mount.source:
            raise PacelineError(
                f"{known.source} ({known.why}) and {mount.source} ({mount.why}) would both be {mount.target} in the "
                "container; give one of them another container_path"
            )
        settled[mount.target] = replace(
            known,
            is_writable=known.is_writable or mount.is_writable,
            is_made=known.is_made or mount.is_made,
        )
    return tuple(settled[target] for target in sorted(settled))


def _read(suite: Suite, environ: Mapping[str, str]) -> Side:
    loaded = load(suite.configs, datasets=suite.datasets, sinks=suite.sinks, environ=environ)
    expansion = Expansion(loaded, environ, NAMES)
    problems: list[Problem] = []
    results = find_results(expansion, suite.results_dir, problems)
    directories = find_directories(expansion, "", results, problems)
    if problems:
        raise ConfigError(problems)
    return Side(loaded=loaded, expansion=expansion, directories=directories)


def _mounts_of_paths(here: Side, there: Side) -> tuple[list[Mount], list[str]]:
    mounts: list[Mount] = []
    left_out: list[str] = []
    problems: list[Problem] = []
    for index, item in enumerate(here.loaded.config.paths):
        source, notes = here.with_path(item.name, inside=False)
        target, seen = there.with_path(item.name, inside=True)
        problems += [*notes.problems, *seen.problems]
        is_made = item.name in ("results_path", "artifacts_path")
        if unset := [*notes.unset, *seen.unset]:
            left_out.append(f"{item.name}: {unset[0]}")
        elif is_made or Path(source).exists():
            why = f"paths: {item.name}"
            mounts.append(Mount(source=source, target=target, why=why, is_writable=True, is_made=is_made))
        else:
            location = ("paths", index, "host_path")
            problems.append(here.loaded.problem(location, f"{source} is not there: make it, or correct it"))
    if problems:
        raise ConfigError(problems)
    return mounts, left_out


def _variables_of(side: Side) -> Iterator[str]:
    """What sinks and object stores read by themselves."""
    for sink in side.loaded.config.sinks:
        yield from (f"{sink.type.upper()}_{name}" for name in _READ_BY_SINKS.get(sink.type, ()))
        if plugins.is_own("sinks", sink.type):
            fields = plugins.find("sinks", sink.type).Options.model_fields.items()
            defaults = (one.default for name, one in fields if name.endswith("_env"))
            yield from (default for default in defaults if isinstance(default, str))
    if side.directories.results_url:
        yield from _READ_BY_STORES


def _refuse_hiding(mount: Mount) -> None:
    target = mount.target
    hidden = [one for one in (*_OF_IMAGE, *_OF_KERNEL) if _is_below(one, target)]
    if IMAGE_ENVIRON["HOME"].startswith(f"{target.rstrip('/')}/"):
        hidden.append(IMAGE_ENVIRON["HOME"])
    hidden += [one for one in _OF_KERNEL if _is_below(target, one)]
    if hidden:
        raise PacelineError(
            f"{mount.source} ({mount.why}) cannot be mounted at {target}: it would hide {hidden[0]} of the image; "
            "work in a directory below, or give the path a container_path"
        )


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


EPILOG = """\b
Examples:
  paceline mounts nightly.yaml                     what a container needs, for people
  paceline mounts --json nightly.yaml local.yaml --results-dir out
  paceline mounts --null nightly.yaml | xargs -0 printf '%s\\n'

\b
ARGUMENTS are those of 'paceline run' (or of --for); the files, --results-dir and --db among them
decide. Directories of 'paths' lie in the container at their container_path, all others where they
are here. tools/run.sh hands what --null prints to Docker or Podman. Only names of variables are
printed, never their values.
"""


@click.command("mounts", epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for a script.")
@click.option(
    "--null", "as_words", is_flag=True, help="Print words for 'docker run', each ended by a null byte."
)
@click.option("--make-dirs", is_flag=True, help="Make the directories that the run would make.")
@click.option(
    "--read-only",
    metavar="NAME",
    multiple=True,
    help="Mount this item of the suite's 'paths' to be read only. Repeatable.",
)
@click.option(
    "--for",
    "command_name",
    type=click.Choice(["run", "plan", "nightly"]),
    default="run",
    show_default=True,
    help="Whose arguments follow.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    *,
    as_json: bool,
    as_words: bool,
    make_dirs: bool,
    read_only: tuple[str, ...],
    command_name: str,
    arguments: tuple[str, ...],
) -> None:
    """Show the directories and variables that a container needs to run a suite."""
    options = _options_of(command_name, arguments)
    with masked_errors(options["configs"]):
        needs = _find_needs(options, read_only)
    if make_dirs:
        _make(Path(mount.source) for mount in needs.mounts if mount.is_made)
    if as_words:
        write_bytes(b"".join(os.fsencode(word) + b"\0" for word in engine_words(needs)))
    elif as_json:
        from paceline.record.codec import dump

        write_encoded(dump(_as_data(needs)) + b"\n")
    else:
        write("".join(f"{line}\n" for line in _lines(needs)))


def _make(directories: Iterable[Path]) -> None:
    """Root runs nothing as root: what it makes belongs to the image's user, who has to write there."""
    from paceline.cli.mounts import IMAGE_USER

    for directory in directories:
        if not directory.exists():
            directory.mkdir(parents=True, exist_ok=True)
            if os.geteuid() == 0:
                os.chown(directory, IMAGE_USER, IMAGE_USER)


def _options_of(name: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    """What the command itself would make of its arguments."""
    from importlib import import_module

    from paceline.cli.inputs import default_configs

    target: click.Command = import_module(f"paceline.cli.{name}").command
    options = target.make_context(f"paceline {name}", list(arguments)).params
    return {**options, "configs": options["configs"] or default_configs()}


def _find_needs(options: dict[str, Any], read_only: tuple[str, ...]) -> "Needs":
    from dataclasses import replace

    from paceline.cli.mounts import Needs, Suite, find_mounts, read_sides, settle

    keys = ("configs", "datasets", "sinks", "results_dir")
    suite = Suite(**{key: options[key] for key in keys})
    here, there, variables = read_sides(suite, os.environ)
    mounts, left_out = find_mounts(suite, here, there, str(Path.cwd()))
    settings: dict[str, str] = {}
    if not options.get("no_history"):
        mounts += _database_mounts(options.get("db"), here, there, settings)
        variables = (*variables, *(["PACELINE_DB"] if "PACELINE_DB" in os.environ else []))
    known = [item.name for item in here.loaded.config.paths]
    for name in read_only:
        if name not in known:
            there_is = ", ".join(known) or "none"
            raise click.BadParameter(
                f"{name!r} is not an item of 'paths'; it has {there_is}", param_hint="--read-only"
            )
    fixed = {f"paths: {name}" for name in read_only}
    mounts = [replace(one, is_writable=one.is_writable and one.why not in fixed) for one in mounts]
    return Needs(
        mounts=settle(mounts),
        variables=tuple(dict.fromkeys(variables)),
        settings=settings,
        workdir=str(Path.cwd()),
        left_out=tuple(left_out),
    )


def _database_mounts(
    db: str | None, here: "Side", there: "Side", settings: dict[str, str]
) -> Iterator["Mount"]:
    """The directory of a history in a file; where none is named, it is kept with the results, which stay."""
    from paceline.cli.mounts import Mount
    from paceline.history.urls import DEFAULT, HERE, VARIABLE, find_url, parse_target

    sides = [(side.loaded.config.history, side.directories.results_dir) for side in (here, there)]
    urls = [find_url(db, history.url if history else None, results=place) for history, place in sides]
    usual = [str(place / DEFAULT) for _, place in sides]
    if urls[0] in (HERE, usual[0]) and not here.directories.results_url:
        settings[VARIABLE] = usual[1]
        return
    source, target = (parse_target(url).path for url in urls)
    if source is not None and target is not None:
        why = "the history"
        yield Mount(
            source=str(source.parent), target=str(target.parent), why=why, is_writable=True, is_made=True
        )


def engine_words(needs: "Needs") -> Iterator[str]:
    """The arguments that Docker and Podman share; the values of variables stay in the environment."""
    for mount in needs.mounts:
        fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
        yield from ("--mount", _csv([*fields, *([] if mount.is_writable else ["readonly"])]))
    for name in needs.variables:
        yield from ("--env", name)
    for name, value in needs.settings.items():
        yield from ("--env", f"{name}={value}")
    yield from ("--workdir", needs.workdir)


def _csv(fields: list[str]) -> str:
    """One record, quoted where a path has a comma, a quote or a line's end: engines read `--mount` so."""
    quoted = (
        f'"{field.replace(chr(34), chr(34) * 2)}"' if set(field) & set(',"\r\n') else field
        for field in fields
    )
    return ",".join(quoted)


def _as_data(needs: "Needs") -> dict[str, Any]:
    return {
        "mounts": [
            {"source": one.source, "target": one.target, "writable": one.is_writable, "why": one.why}
            for one in needs.mounts
        ],
        "variables": list(needs.variables),
        "settings": dict(needs.settings),
        "workdir": needs.workdir,
        "left_out": list(needs.left_out),
    }


def _lines(needs: "Needs") -> Iterator[str]:
    from paceline.report.format import visible

    for mount in needs.mounts:
        there = "" if mount.source == mount.target else f" as {visible(mount.target)}"
        mode = "read-write" if mount.is_writable else "read-only"
        yield f"{mode:<10}  {visible(mount.source)}{there}  ({visible(mount.why)})"
    for name in needs.variables:
        yield f"variable    {visible(name)}"
    for name, value in needs.settings.items():
        yield f"set         {name}={visible(value)}"
    yield from (f"left out    {visible(line)}" for line in needs.left_out)
