"""What of this machine a container needs to run a suite: directories with their paths there, and names of variables.

Two readings of the same files say it: one with the environment here, one with that of the container. A directory is
mounted where the second one looks for it, so `~`, `${HOME}` and `container_path` need no rules of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline import plugins
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
    wanted = {*_variables_of(here), *here.loaded.config.secrets}
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
