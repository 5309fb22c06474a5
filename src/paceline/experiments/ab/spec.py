"""An A/B file: what it may hold, and what is to be compared, checked, with every path absolute."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from paceline.config.nodes import Node, at, items_of, mapping_of, parse_file, plain, problem_at
from paceline.config.schema import Config
from paceline.config.sections import Section
from paceline.config.templates import substitute_tree
from paceline.config.validate import UNKNOWN_KEY, Locator
from paceline.config.values import (
    Count,
    Duration,
    Environment,
    Name,
    PositiveCount,
    Scalar,
    TextOrList,
    Tolerance,
)
from paceline.errors import ConfigError, Problem, did_you_mean
from paceline.model import Direction, is_number

DEFAULT_RUNS = 100
DEFAULT_MARGIN = 0.03
NULL_ARM = "null"


def _list_of(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _texts(value: Any) -> Any:
    """Variables are texts, though YAML reads numbers and booleans."""
    if not isinstance(value, dict):
        return value
    return {
        name: str(item).lower() if isinstance(item, bool) else str(item) if is_number(item) else item
        for name, item in value.items()
    }


def _version(value: Any) -> Any:
    return str(value) if is_number(value) else value


def _metrics(value: Any) -> Any:
    """Names, or names with a direction: a list, or a mapping `{name: lower}`."""
    if isinstance(value, dict):
        return [{"name": name, "direction": direction} for name, direction in value.items()]
    return [{"name": item} if isinstance(item, str) else item for item in _list_of(value) or ()]


Names = Annotated[list[Name], BeforeValidator(_list_of)]


class JudgedMetric(Section):
    """A metric to be judged."""

    name: Name = Field(description="Its name.")
    direction: Direction | None = Field(
        default=None, description="What is better, if the name does not tell."
    )


class GitRef(Section):
    """A revision of a repository."""

    repo: Name = Field(default=".", description="A directory, relative to the A/B file, or a URL.")
    ref: Name = Field(description="A commit, tag or branch.")


class ArmOptions(Section):
    """One setting that the suite runs in. An arm without any key is the suite as it is."""

    packages: Names | None = Field(
        default=None,
        description="What pip would be given; the arm gets an environment of its own with them. Paths are relative to "
        "the A/B file, `{repo_dir}` is the working tree of `git`.",
    )
    python: Annotated[str | None, BeforeValidator(_version)] = Field(
        default=None, description="The Python of that environment, a version or a path; ours by default."
    )
    git: GitRef | None = Field(
        default=None, description="A revision, as `{repo_dir}`, `PACELINE_REPO` and working directory."
    )
    env: Annotated[Environment, BeforeValidator(_texts)] = Field(
        default={}, description="Environment variables."
    )
    args: dict[str, TextOrList] = Field(
        default={},
        description="Arguments by entry: after the entry's own if they begin with a flag, else instead of them.",
    )
    params: dict[str, Scalar] = Field(
        default={}, description="Parameters, instead of those of the entries' matrix."
    )
    config: Names = Field(default=[], description="Further configuration files, merged over the suite.")
    dask: dict[str, Any] = Field(default={}, description="Dask's configuration.")
    ray: dict[str, Any] | None = Field(default=None, description="Options of the entries' Ray clusters.")


class Budget(Section):
    """When to stop though something is undecided. A run is one arm's turn at the suite."""

    runs: PositiveCount | None = Field(
        default=None, description=f"Runs of all arms together; {DEFAULT_RUNS} if no time is given either."
    )
    time: Duration | None = Field(default=None, description="Seconds, or a text such as `30m`.")


class ABFile(Section):
    """A whole A/B file, besides the keys of a suite of its own."""

    config: Names = Field(default=[], description="The suite, relative to this file.")
    only: Names = Field(default=[], description="The cases to run, as for `--only`.")
    exclude: Names = Field(default=[], description="The cases to leave out, as for `--exclude`.")
    metrics: Annotated[list[JudgedMetric], BeforeValidator(_metrics)] = Field(
        default=[],
        description="The metrics to judge; by default the time, the memory, and all that scripts emit and that have a "
        "direction.",
    )
    arms: dict[str, ArmOptions] = Field(description="The arms by name; the first is the baseline.")
    null_arm: bool = Field(
        default=True, description="Whether the baseline runs a second time as an arm (A/A)."
    )
    budget: Budget = Field(default=Budget(), description="When to stop at the latest.")
    seed: Count | None = Field(default=None, description="Decides the order of the runs; drawn by default.")
    margin: Tolerance = Field(
        default=DEFAULT_MARGIN, description="A difference smaller than this is none: `same`."
    )
    warmup: Count = Field(default=1, description="Runs of each arm before those that count.")
    vary_hash_seed: bool = Field(
        default=True,
        description="Whether each block has a `PYTHONHASHSEED` of its own, the same for all arms; else it is as it is.",
    )


AB_KEYS = frozenset(ABFile.model_fields)
_MODELS: Mapping[str, type[BaseModel]] = {"arms": ArmOptions, "budget": Budget, "metrics": JudgedMetric}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """One arm as it was asked for; `conda` is a file that describes its environment."""

    name: str
    options: ArmOptions
    conda: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ABSpec:
    """What is to be compared, and when to stop. `base` is the directory that relative paths are meant from.

    With `own_metrics`, what is measured of whole processes is not judged unless it is asked for.
    """

    name: str
    base: Path
    configs: tuple[Path, ...]
    arms: tuple[ArmSpec, ...]
    skipped: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    metrics: Mapping[str, Direction | None] = field(default_factory=dict)
    own_metrics: bool = False
    null_arm: bool = True
    max_runs: int | None = DEFAULT_RUNS
    max_time_s: float | None = None
    seed: int | None = None
    margin: float = DEFAULT_MARGIN
    warmup: int = 1
    vary_hash_seed: bool = True
    notes: tuple[str, ...] = ()

    @property
    def arm_names(self) -> tuple[str, ...]:
        """All arms, that for A/A last."""
        return (*(arm.name for arm in self.arms), *((NULL_ARM,) if self.null_arm else ()))


def read_spec(path: Path, environ: Mapping[str, str]) -> ABSpec:
    """The A/B test that a file describes; a ConfigError names all that is wrong in it."""
    documents = parse_file(path)
    tree = documents[0]
    if len(documents) > 1 or not isinstance(tree.value, dict):
        what = "expected one mapping of keys; an A/B file has no second document"
        raise ConfigError([problem_at(tree.mark, "", what)])
    own = tree._replace(value={key: node for key, node in tree.value.items() if key in AB_KEYS})
    own, problems = _named_arms(own)
    substituted = substitute_tree(own, environ)
    locator = Locator(substituted.node, {})
    problems += [locator.problem(place, message) for place, message in substituted.malformed]
    problems += [locator.problem(unset.path, f"{unset}; set it") for unset in substituted.unset]
    known = (*AB_KEYS, *Config.model_fields)
    problems += [
        problem_at(node.mark, "", _unknown_key(key, known))
        for key, node in tree.value.items()
        if key not in known and not node.anchored and not key.startswith("x-")
    ]
    file = None
    try:
        file = ABFile.model_validate(plain(substituted.node))
    except ValidationError as error:
        problems += [_explain(one, locator) for one in error.errors(include_url=False)]
    if file is not None:
        problems += _check(file, tree, path)
    if problems or file is None:
        raise ConfigError(sorted(problems, key=lambda problem: problem.line))
    return _spec(file, path)


def _named_arms(tree: Node) -> tuple[Node, list[Problem]]:
    """`arms` as a mapping, also if they are a list whose items have a `name`."""
    given = mapping_of(tree).get("arms")
    if given is None or not isinstance(given.value, list):
        return tree, []
    arms: dict[str, Node] = {}
    problems = []
    for i, item in enumerate(items_of(given)):
        keys = dict(mapping_of(item))
        name = keys.pop("name", None)
        if name is None or not isinstance(name.value, str | int | float):
            problems.append(problem_at(item.mark, f"arms[{i}]", "expected a mapping with a 'name'"))
        elif str(name.value) in arms:
            problems.append(
                problem_at(item.mark, f"arms[{i}]", f"a second arm {str(name.value)!r}; rename it")
            )
        else:
            arms[str(name.value)] = item._replace(value=keys)
    return tree._replace(value={**mapping_of(tree), "arms": given._replace(value=arms)}), problems


def _unknown_key(key: str, known: Iterable[str]) -> str:
    hint = did_you_mean(key, known)
    return f"unknown key {key!r}" + (f"; {hint}" if hint else "")


def _explain(error: Any, locator: Locator) -> Problem:
    loc = tuple(error["loc"])
    if error["type"] == "missing" and loc == ("arms",):
        return locator.problem(
            (), "the key 'arms' is missing: give the settings to compare, the baseline first"
        )
    if error["type"] != UNKNOWN_KEY:
        return locator.explain(error)
    model = GitRef if "git" in loc else _MODELS.get(str(loc[0]), ABFile)
    mark = at(locator.tree, loc).mark
    return problem_at(mark, locator.path_text(loc[:-1]), _unknown_key(str(loc[-1]), model.model_fields))


def _check(file: ABFile, tree: Node, path: Path) -> list[Problem]:
    """What is wrong between keys."""
    keys = mapping_of(tree)
    arms, config = keys.get("arms", tree).mark, keys.get("config", tree).mark
    problems = []
    if bool(file.config) == ("entries" in keys):
        which = "not both" if file.config else "one of them"
        problems.append(problem_at(config, "", f"give 'config' or a suite of its own ('entries'), {which}"))
    if len(file.arms) + file.null_arm < 2:
        what = "nothing to compare with: give a second arm, or 'null_arm: true'"
        problems.append(problem_at(arms, "arms", what))
    for name, options in file.arms.items():
        if not name.strip() or not name.isprintable() or name == NULL_ARM:
            problems.append(problem_at(arms, "arms", f"{name!r} is no name for an arm; choose another"))
        if options.python and options.packages is None:
            what = "'python' needs 'packages', which may be empty: []"
            problems.append(problem_at(arms, f"arms.{name}", what))
    for text in (*file.config, *(text for arm in file.arms.values() for text in arm.config)):
        if not (path.parent / Path(text).expanduser()).exists():
            problems.append(
                problem_at(config if "config" in keys else arms, "config", f"{text}: no such file")
            )
    return problems


def _spec(file: ABFile, path: Path) -> ABSpec:
    base = path.absolute().parent
    budget = file.budget
    return ABSpec(
        name=path.stem,
        base=base,
        configs=tuple(base / Path(text).expanduser() for text in file.config) or (path,),
        skipped={} if file.config else {path: AB_KEYS},
        arms=tuple(ArmSpec(name=name, options=options) for name, options in file.arms.items()),
        only=tuple(file.only),
        exclude=tuple(file.exclude),
        metrics={metric.name: metric.direction for metric in file.metrics},
        null_arm=file.null_arm,
        max_runs=budget.runs or (None if budget.time else DEFAULT_RUNS),
        max_time_s=budget.time,
        seed=file.seed,
        margin=file.margin,
        warmup=file.warmup,
        vary_hash_seed=file.vary_hash_seed,
    )
