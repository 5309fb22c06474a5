"""Where cases run and what they may take there."""

from typing import Literal

from pydantic import Field

from paceline.config.sections import Section
from paceline.config.values import Bytes, Count, GraceSeconds, Labels, Name, Number, PositiveCount, Seconds


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
    dashboard: bool = Field(default=False, description="Whether to start Ray's dashboard (on loopback).")
    start_timeout_s: Seconds = Field(
        default=120.0, description="How long the cluster may take to come up; not part of the entry's time."
    )


class NoRay(RayOptions):
    """What `ray: false` of an entry stands for: no cluster, also if there is one at the top level."""


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


class LimitsOptions(Section):
    """What the processes of an entry may not exceed together; they are ended when they do."""

    processes: PositiveCount = Field(default=4096, description="Number of processes.")
    memory: Bytes | None = Field(
        default=None, description="Memory, in bytes or as `4GiB`; no limit by default."
    )
