"""How `ray start` is called for a cluster of our own: ports that no other cluster gets, its flags, its environment."""

import errno
import json
import math
import random
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from paceline.model import is_number
from paceline.record.capacity import limited_cpus, usable_memory_bytes
from paceline.run.local import tree
from paceline.run.ray.home import Home

LOOPBACK = "127.0.0.1"
LOWEST_PORT = 20000  # above the ports that services are known by
HIGHEST_PORT = 65535
SMALLEST_CHOICE = 1000
# From which Ray takes one for each who comes by `ray://`, without asking us.
RAY_CLIENT_PORTS = range(23000, 24000)
LISTENING = "0A"

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

ROW_LIMITS, MOST_ROWS = ("RAY_MAX_LIMIT_FROM_API_SERVER", "RAY_MAX_LIMIT_FROM_DATA_SOURCE"), "40000"
"""How many rows Ray's state API gives out at once: Xenna asks for so many, and Ray's own limit is a fourth of it."""

# They would tie the new cluster to another one.
FOREIGN = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_REDIS_ADDRESS", "RAY_GCS_SERVER_PORT", "RAY_TMPDIR")

NO_SPILLING = {
    "automatic_object_spilling_enabled": False,
    # Ray's second way out of a full store: memory-mapped files on disk. No disk is less than 0 % full, so it is shut.
    "local_fs_capacity_threshold": 0.0,
}


class Ports:
    """Port numbers by purpose; no other cluster of ours gets them until they are released."""

    def __init__(self, numbers: Mapping[str, int], locks: Sequence[socket.socket] = ()) -> None:
        self._numbers = dict(numbers)
        self._locks = list(locks)

    def __getitem__(self, purpose: str) -> int:
        return self._numbers[purpose]

    def taken(self) -> list[int]:
        """Those that somebody listens on."""
        return sorted(number for number in self._numbers.values() if _is_taken(number))

    def held_by_others(self, pids: Iterable[int]) -> list[int]:
        """Those that a process other than these listens on; none where the system does not tell."""
        listeners: dict[int, str] = {}
        for name in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in tree.read_proc(name).decode().splitlines()[1:]:
                _, local, _, state, *_rest = fields = line.split()
                number = int(local.rpartition(":")[2], 16)
                if state == LISTENING and number in self._numbers.values():
                    listeners[number] = f"socket:[{fields[9]}]"
        ours: set[str] = set()
        for pid in pids if listeners else ():
            with suppress(OSError):  # it has just ended
                for link in list(Path(f"/proc/{pid}/fd").iterdir()):
                    with suppress(OSError):  # closed since
                        ours.add(link.readlink().name)
        return sorted(number for number, name in listeners.items() if name not in ours)

    def release(self) -> None:
        for lock in self._locks:
            lock.close()
        self._locks.clear()


def reserve(purposes: Sequence[str]) -> Ports:
    """A free port for each purpose; OSError when there are not as many."""
    locks: dict[int, socket.socket] = {}
    candidates = _candidates()
    while len(locks) < len(purposes) and (number := next(candidates, None)):
        if lock := _lock(number):
            locks[number] = lock
    ports = Ports(dict(zip(purposes, locks, strict=False)), list(locks.values()))
    if len(locks) < len(purposes):
        ports.release()
        raise OSError(errno.EADDRINUSE, f"fewer than {len(purposes)} free ports on {LOOPBACK}")
    return ports


def _candidates() -> Iterator[int]:
    """In random order, and not of the ranges from which the kernel and Ray take their own."""
    numbers = [n for n in range(LOWEST_PORT, _first_ephemeral()) if n not in RAY_CLIENT_PORTS]
    random.shuffle(numbers)
    return iter(numbers)


def _first_ephemeral() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return HIGHEST_PORT
    return first if first >= LOWEST_PORT + SMALLEST_CHOICE else HIGHEST_PORT


def _lock(number: int) -> socket.socket | None:
    """A name that one process at a time can hold, gone with it however it ends; None when the port is not to be had.

    A socket in Linux's abstract namespace: it spans users and containers exactly as far as ports do, and needs no
    file. Elsewhere clusters rely on the check of the port itself, and on trying again.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with suppress(OSError):  # another holds it
        if sys.platform == "linux":
            lock.bind(f"\0paceline-port-{number}")
        if not _is_taken(number):
            return lock
    lock.close()
    return None


def _is_taken(number: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of a server that is gone linger for a minute and do no harm; only a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, number))
        except OSError:
            return True
    return False


def start_flags(options: Mapping[str, Any], ports: Ports, ray_dir: Path) -> list[str]:
    """The arguments of `ray start` for an entry's `ray:`; ValueError for an object store of impossible size."""
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
        "--num-cpus": options.get("num_cpus", limited_cpus()),
        "--num-gpus": options.get("num_gpus") or 0,
        "--object-store-memory": store_bytes(options),
        # Left to Ray where nothing is said: it starts one if its packages are there. Its API is what Xenna asks.
        "--include-dashboard": None
        if options.get("dashboard") is None
        else str(options["dashboard"]).lower(),
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
    return int(size * usable_memory_bytes()) if isinstance(size, float) and size <= 1 else int(size)


def script_env(environ: Mapping[str, str], home: Home, ports: Ports, *, dashboard: bool) -> dict[str, str]:
    """What leads a process to this cluster, and lets it in."""
    limits = {name: environ.get(name, MOST_ROWS) for name in ROW_LIMITS}
    env = {"RAY_ADDRESS": f"{LOOPBACK}:{ports['gcs']}", **limits, **home.env(environ)}
    if dashboard:
        env["RAY_API_SERVER_ADDRESS"] = f"http://{LOOPBACK}:{ports['dashboard']}"
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
