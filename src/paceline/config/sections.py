"""Parts of a suite besides its entries: the machines that they run on, and the nights."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import to_jsonable_python

from paceline.config.values import (
    Bytes,
    Count,
    Duration,
    GraceSeconds,
    Labels,
    Name,
    Number,
    PositiveCount,
    Seconds,
    TextOrList,
)


class Section(BaseModel):
    """A part of the configuration whose keys are all known."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


def shared(default: Any, description: str) -> Any:
    """A field whose default is used as it is; pydantic would copy it for every entry, and nothing changes it."""
    extra = {"default": to_jsonable_python(default)}
    return Field(default_factory=lambda: default, description=description, json_schema_extra=extra)


class OpenSection(BaseModel):
    """A part of the configuration that hands further keys on."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, defer_build=True)

    @property
    def options(self) -> dict[str, Any]:
        """The further keys."""
        return dict(self.model_extra or {})


class RayOptions(Section):
    """A private Ray cluster for an entry. `{}` is a cluster of defaults."""

    num_cpus: Count | None = Field(
        default=None, description="CPUs of the cluster; all of the machine by default."
    )
    num_gpus: Count | None = Field(default=None, description="GPUs of the cluster; none by default.")
    enable_object_spilling: bool | None = Field(
        default=None, description="Whether objects may be spilled to disk; not by default."
    )
    object_store_memory: Bytes | None = Field(
        default=None, description="Size of the object store, in bytes or as `4GiB`."
    )
    address: str | None = Field(
        default=None, description="Use the running cluster at this address; start none."
    )
    dashboard: bool | None = Field(
        default=None,
        description="Whether to start Ray's dashboard and its API (on loopback); by default where Ray can.",
    )
    start_timeout_s: Seconds = Field(
        default=120.0, description="How long the cluster may take to come up; not part of the entry's time."
    )


class NoRay(RayOptions):
    """What `ray: false` of an entry stands for: no cluster, also if there is one at the top level."""


EntryRay = Annotated[RayOptions, BeforeValidator(lambda value: NoRay() if value is False else value)]


class ResourcesOptions(Section):
    """What an entry takes while it runs, for `--jobs`."""

    cpus: Number = Field(default=1, ge=0, description="CPU cores; may be a fraction.")
    gpus: Count = Field(default=0, description="GPUs.")
    memory: Bytes = Field(default=0, description="Memory, in bytes or as `4GiB`.")
    exclusive: bool = Field(
        default=False, description="Never run beside another entry; on a pool, never on the same node."
    )
    labels: Labels = Field(
        default={}, description="Labels that the node of a pool must have; one machine has none to choose by."
    )


class PoolOptions(Section):
    """A pool of machines on which the entries run instead of on this one. `pool: ray` is one with all defaults."""

    type: Literal["ray"] = Field(default="ray", description="The kind of pool: a running Ray cluster.")
    address: Name = Field(
        default="auto",
        description="The cluster: `host:port`, `ray://host:port`, or `auto` for the one that `RAY_ADDRESS` names or "
        "that runs on this machine; `--on` wins.",
    )
    ship: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether scripts and working directories are copied to the nodes: `auto` to those that do not "
        "share this machine's file system.",
    )
    ship_limit: Bytes = Field(
        default=200 * 1024**2, description="The most that is copied of one directory, in bytes or as `1GiB`."
    )
    files: list[Name] = Field(
        default=[], description="Further directories that entries read, to be copied likewise."
    )
    exclude: list[Name] = Field(
        default=[], description="Names or globs, such as `*.bin`, of what is not to be copied."
    )
    node_retries: Count = Field(
        default=3, description="How often an entry is begun again elsewhere after it was lost with its node."
    )
    wait_for_node_s: GraceSeconds = Field(
        default=60.0, description="How long an entry that fits no node waits for one to join."
    )


Pool = Annotated[
    PoolOptions, BeforeValidator(lambda value: {"type": value} if isinstance(value, str) else value)
]


class LimitsOptions(Section):
    """What the processes of an entry may not exceed together; they are ended when they do."""

    processes: PositiveCount = Field(default=4096, description="Number of processes.")
    memory: Bytes | None = Field(
        default=None, description="Memory, in bytes or as `4GiB`; no limit by default."
    )


class Nightly(Section):
    """What `paceline nightly` does besides running the suite: what it measures, and how it follows up what got worse.

    Paths are relative to the file.
    """

    repo: Name | None = Field(
        default=None,
        description="The repository that is measured: `{repo_dir}`, `PACELINE_REPO` and the working directory of every "
        "entry. The one around the file by default.",
    )
    ref: Name | None = Field(
        default=None,
        description="Measure this branch, tag or commit in a working tree of its own, instead of the repository's "
        "files as they are.",
    )
    fetch: bool = Field(default=False, description="Whether to `git fetch` in the repository first.")
    setup: TextOrList | None = Field(
        default=None, description="Builds a revision, run once in its tree. No shell is involved."
    )
    install: list[Name] = Field(
        default=[],
        description="Packages of an environment of its own that depend on the revision, such as `.`, its tree.",
    )
    packages: list[Name] = Field(
        default=[],
        description="Run in an environment with these packages, each as new as it may be tonight; this Python by "
        "default.",
    )
    find_links: list[Name] = Field(
        default=[], description="Directories or pages in which packages are looked for too."
    )
    no_index: bool = Field(default=False, description="Look for packages nowhere else.")
    metrics: list[Name] = Field(
        default=[],
        description="Names or globs of the metrics that the night reports and follows up; all that have a direction "
        "by default. 'paceline regressions' lists the others too.",
    )
    confirm: bool = Field(default=True, description="Whether what looks worse is run again.")
    confirm_runs: PositiveCount = Field(
        default=15, description="The most runs of each side before a difference counts as not to be seen."
    )
    bisect: bool = Field(default=True, description="Whether the cause of what is confirmed is searched.")
    budget: Duration = Field(
        default=7200.0, description="Time for all runs after the session: seconds, or `90s`, `30m`, `2h`."
    )
    max_runs: PositiveCount = Field(
        default=40, description="The most runs that are made for one finding, on all nights together."
    )
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = Field(
        default=0.95, description="How sure to be of a culprit."
    )
    suspects: PositiveCount = Field(
        default=5, description="How many suspicions are followed up in one night; the strongest are."
    )
