"""An A/B file → what is to be compared, checked, with every path absolute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from paceline.config.nodes import Mark, Node, items_of, mapping_of, parse_file, plain
from paceline.config.schema import Config
from paceline.config.templates import substitute_tree
from paceline.config.validate import UNKNOWN_KEY, Locator
from paceline.errors import ConfigError, Problem, did_you_mean
from paceline.experiments.ab.schema import (
    AB_KEYS,
    DEFAULT_MARGIN,
    DEFAULT_RUNS,
    ABFile,
    ArmOptions,
    Budget,
    GitRef,
    JudgedMetric,
)
from paceline.model import Direction

NULL_ARM = "null"
_MODELS: Mapping[str, type[BaseModel]] = {"arms": ArmOptions, "budget": Budget, "metrics": JudgedMetric}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """One arm as it was asked for; `conda` is a file that describes its environment."""

    name: str
    options: ArmOptions
    conda: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ABSpec:
    """What is to be compared, and when to stop. `base` is the directory that relative paths are meant from."""

    name: str
    base: Path
    configs: tuple[Path, ...]
    arms: tuple[ArmSpec, ...]
    skipped: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    metrics: Mapping[str, Direction | None] = field(default_factory=dict)
    null_arm: bool = True
    max_runs: int | None = DEFAULT_RUNS
    max_time_s: float | None = None
    seed: int | None = None
    margin: float = DEFAULT_MARGIN
    warmup: int = 1
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
        raise ConfigError([Problem(file=str(path), line=tree.mark.line, path="", message=what)])
    own = tree._replace(value={key: node for key, node in tree.value.items() if key in AB_KEYS})
    own, problems = _named_arms(own)
    substituted = substitute_tree(own, environ)
    locator = Locator(substituted.node, {})
    problems += [locator.problem(place, message) for place, message in substituted.malformed]
    problems += [locator.problem(unset.path, f"{unset}; set it") for unset in substituted.unset]
    problems += [_unknown(key, node.mark) for key, node in tree.value.items() if not _is_known(key, node)]
    file = None
    try:
        file = ABFile.model_validate(plain(substituted.node))
    except ValidationError as error:
        problems += [_explain(one, locator) for one in error.errors(include_url=False)]
    if file is not None:
        problems += _check(file, tree, path)
    if problems or file is None:
        raise ConfigError(sorted(problems, key=lambda problem: problem.line))
    return _spec(file, tree, path)


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
            problems.append(_problem(item.mark, f"arms[{i}]", "expected a mapping with a 'name'"))
        elif str(name.value) in arms:
            problems.append(_problem(item.mark, f"arms[{i}]", f"a second arm {str(name.value)!r}; rename it"))
        else:
            arms[str(name.value)] = item._replace(value=keys)
    return tree._replace(value={**mapping_of(tree), "arms": given._replace(value=arms)}), problems


def _is_known(key: str, node: Node) -> bool:
    return key in AB_KEYS or key in Config.model_fields or node.anchored or key.startswith("x-")


def _unknown(key: str, mark: Mark) -> Problem:
    return _problem(mark, "", f"unknown key {key!r}{_hint(key, [*AB_KEYS, *Config.model_fields])}")


def _hint(key: str, known: Sequence[str]) -> str:
    hint = did_you_mean(key, known)
    return f"; {hint}" if hint else ""


def _explain(error: Any, locator: Locator) -> Problem:
    loc = tuple(error["loc"])
    if error["type"] == "missing" and loc == ("arms",):
        what = "the key 'arms' is missing: give the settings to compare, the baseline first"
        return locator.problem((), what)
    if error["type"] != UNKNOWN_KEY:
        return locator.explain(error)
    model = GitRef if "git" in loc else _MODELS.get(str(loc[0]), ABFile)
    found = locator.problem(loc, f"unknown key {loc[-1]!r}{_hint(str(loc[-1]), list(model.model_fields))}")
    return Problem(file=found.file, line=found.line, path=locator.path_text(loc[:-1]), message=found.message)


def _check(file: ABFile, tree: Node, path: Path) -> list[Problem]:
    """What no single key tells."""
    keys = mapping_of(tree)
    top = Mark(str(path), 1)
    problems = []
    if bool(file.config) == ("entries" in keys):
        both = "give 'config' or a suite of its own ('entries'), " + (
            "not both" if file.config else "one of them"
        )
        problems.append(_problem(keys["config"].mark if file.config else top, "", both))
    arms = keys.get("arms")
    mark = arms.mark if arms else top
    if len(file.arms) + file.null_arm < 2:
        problems.append(
            _problem(mark, "arms", "nothing to compare with: give a second arm, or 'null_arm: true'")
        )
    for name, options in file.arms.items():
        if not name.strip() or not name.isprintable() or name == NULL_ARM:
            problems.append(_problem(mark, "arms", f"{name!r} is no name for an arm; choose another"))
        if options.python and options.packages is None:
            what = "'python' needs 'packages', which may be empty: []"
            problems.append(_problem(mark, f"arms.{name}", what))
    for text in (*file.config, *(text for arm in file.arms.values() for text in arm.config)):
        if not (path.parent / Path(text).expanduser()).exists():
            problems.append(
                _problem(keys.get("config", arms or tree).mark, "config", f"{text}: no such file")
            )
    return problems


def _problem(mark: Mark, path: str, message: str) -> Problem:
    return Problem(file=mark.file, line=mark.line, path=path, message=message)


def _spec(file: ABFile, tree: Node, path: Path) -> ABSpec:
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
    )
