"""What an entry's `ray:` means to `ray start`: its flags and its environment."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.model import is_number
from paceline.run.ray.home import Home
from paceline.run.ray.ports import LOOPBACK, Ports

PORT_FLAGS = {
    "gcs": "--port",
    "client": "--ray-client-server-port",
    "agent_http": "--dashboard-agent-listen-port",
    "agent_grpc": "--dashboard-agent-grpc-port",
    "runtime_env": "--runtime-env-agent-port",
    "metrics": "--metrics-export-port",
    "dashboard": "--dashboard-port",
}
# Two ports that have a fixed number unless these say otherwise.
PORT_VARIABLES = {
    "autoscaler_metrics": "AUTOSCALER_METRIC_PORT",
    "dashboard_metrics": "DASHBOARD_METRIC_PORT",
}
PURPOSES = (*PORT_FLAGS, *PORT_VARIABLES)

# They would tie the new cluster to another one.
FOREIGN = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_REDIS_ADDRESS", "RAY_GCS_SERVER_PORT", "RAY_TMPDIR")

NO_SPILLING = {
    "automatic_object_spilling_enabled": False,
    # Ray's second way out of a full store: memory-mapped files on disk. No disk is less than 0 % full, so it is shut.
    "local_fs_capacity_threshold": 0.0,
}

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def start_flags(options: Mapping[str, Any], ports: Ports, ray_dir: Path) -> list[str]:
    """The arguments of `ray start`; ValueError for an object store of impossible size."""
    spilling = (
        {"automatic_object_spilling_enabled": True} if options.get("enable_object_spilling") else NO_SPILLING
    )
    flags = {
        "--node-ip-address": LOOPBACK,
        **{flag: ports[purpose] for purpose, flag in PORT_FLAGS.items()},
        # Any free port, which the kernel finds without a race.
        "--min-worker-port": 0,
        "--max-worker-port": 0,
        "--temp-dir": ray_dir,
        "--num-cpus": options.get("num_cpus"),
        "--num-gpus": options.get("num_gpus") or 0,
        "--object-store-memory": store_bytes(options),
        "--include-dashboard": "true" if options.get("dashboard") else "false",
        "--dashboard-host": LOOPBACK,
        "--system-config": json.dumps(spilling),
        "--log-style": "record",
        "--log-color": "false",
    }
    given = [f"{flag}={value}" for flag, value in flags.items() if value is not None]
    return ["--head", "--block", "--disable-usage-stats", *given]


def store_bytes(options: Mapping[str, Any]) -> int | None:
    """Size of the object store: bytes, or a fraction of the memory up to 1; None leaves it to Ray."""
    size = options.get("object_store_memory")
    if size is None:
        size = options.get("object_store_size")
    if size is None or size == "default":
        return None
    if not is_number(size) or not size > 0:
        raise ValueError(
            f"object_store_memory is {size!r}; give bytes, a fraction of the memory, or 'default'"
        )
    return int(size * memory_bytes()) if isinstance(size, float) and size <= 1 else int(size)


def memory_bytes() -> int:
    """The machine's memory, or the container's share of it."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in _CGROUP_LIMITS:
        try:
            sizes.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(sizes)


def script_env(environ: Mapping[str, str], home: Home, ports: Ports, *, dashboard: bool) -> dict[str, str]:
    """What leads a process to this cluster, and lets it in."""
    env = {
        "RAY_ADDRESS": f"{LOOPBACK}:{ports['gcs']}",
        # Without it Ray replaces the loopback address by the machine's own and listens to the world, on Linux too.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    if dashboard:
        env["RAY_API_SERVER_ADDRESS"] = f"http://{LOOPBACK}:{ports['dashboard']}"
    if environ.get("RAY_AUTH_MODE", "token") == "token":
        env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(home.token_path)}
        if "RAY_AUTH_TOKEN" in environ:
            env["RAY_AUTH_TOKEN"] = ""  # it would go before the path; empty counts as unset
    return env


def daemon_env(
    environ: Mapping[str, str], script: Mapping[str, str], ports: Ports, *, start_timeout_s: float
) -> dict[str, str]:
    """The environment of the cluster's processes, which its workers inherit."""
    numbers = {variable: str(ports[purpose]) for purpose, variable in PORT_VARIABLES.items()}
    # Ray would give up after 30 s, which a busy machine can take; the limit is ours to keep.
    patience = {"RAY_raylet_start_wait_time_s": str(math.ceil(start_timeout_s))}
    env = {**patience, **environ, **script, **numbers}
    return {name: value for name, value in env.items() if name not in FOREIGN}
