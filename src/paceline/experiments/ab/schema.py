"""What an A/B file may hold."""

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from paceline.config.sections import Section
from paceline.config.values import (
    Count,
    Environment,
    Name,
    PositiveCount,
    Scalar,
    TextOrList,
    Tolerance,
    wrong,
)
from paceline.model import Direction, is_number

DEFAULT_RUNS = 100
DEFAULT_MARGIN = 0.03

_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)\s*h)?\s*(?:(\d+(?:\.\d+)?)\s*m(?:in)?)?\s*(?:(\d+(?:\.\d+)?)\s*s)?"
)


def parse_duration_s(value: Any) -> float:
    """Seconds, or a text such as `90s`, `30m`, `1h 30m`."""
    if is_number(value) and 0 < value < math.inf:
        return float(value)
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or not any(found.groups()):
        raise wrong("a time such as 90, '90s', '30m' or '1h 30m'", value)
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


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
Duration = Annotated[float, BeforeValidator(parse_duration_s)]


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


AB_KEYS = frozenset(ABFile.model_fields)
