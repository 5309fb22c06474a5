"""What an entry's own Ray cluster costs beside the barest one, as a ratio measured in one run.

    python benchmarks/ray_isolation.py              five rounds, a few minutes
    python benchmarks/ray_isolation.py --rounds 2   for a first look

Bare: `ray start --head`, a driver that connects, SIGKILL to the group. Ours: the same driver inside `RayCluster`, which
adds a private directory and token, ports of its own, a watching process, the proof that nothing is left, and the logs.
The two take turns, and swap places every round, so that a change of load meets both; the first round does not count.
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from figures import Row, finish, make_parser
from measuring import environment, in_turn

from paceline.run.local import tree
from paceline.run.ray.cluster import RayCluster
from paceline.run.ray.ports import LOOPBACK, PORT_FLAGS, PURPOSES, reserve

BOUND = 1.15
STORE_BYTES = 100_000_000
DRIVER = "import ray; ray.init(log_to_driver=False, logging_level='ERROR'); assert ray.cluster_resources()['CPU'] == 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Seconds that one cluster took."""

    start_s: float
    connect_s: float
    stop_s: float

    @property
    def total_s(self) -> float:
        return self.start_s + self.connect_s + self.stop_s


def connect(env: Mapping[str, str]) -> None:
    subprocess.run([sys.executable, "-c", DRIVER], env=env, check=True)


def bare(directory: Path) -> Reading:
    """Nothing but what Ray's own documentation says, on free ports because others may run here."""
    ports = reserve(PURPOSES)
    env = {**environment(), "RAY_ADDRESS": f"{LOOPBACK}:{ports['gcs']}", "RAY_AUTH_MODE": "disabled"}
    env["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    flags = [f"{flag}={ports[purpose]}" for purpose, flag in PORT_FLAGS.items()]
    argv = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        "--head",
        f"--node-ip-address={LOOPBACK}",
        *flags,
    ]
    argv += ["--num-cpus=1", f"--object-store-memory={STORE_BYTES}", f"--temp-dir={directory}"]
    argv += ["--include-dashboard=false", "--disable-usage-stats"]
    begun = time.perf_counter()
    start = subprocess.Popen(
        argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    if start.wait():
        raise SystemExit("bare `ray start` failed")
    started = time.perf_counter()
    connect(env)
    connected = time.perf_counter()
    os.killpg(start.pid, signal.SIGKILL)
    while any(process.alive and process.group == start.pid for process in tree.every_process()):
        time.sleep(0.01)
    stopped = time.perf_counter()
    ports.release()
    return Reading(start_s=started - begun, connect_s=connected - started, stop_s=stopped - connected)


def isolated(directory: Path) -> Reading:
    options = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": STORE_BYTES, "start_timeout_s": 300}
    env = environment("RAY_ADDRESS")
    begun = time.perf_counter()
    with RayCluster(options, directory, env) as cluster:
        started = time.perf_counter()
        connect({**env, **cluster.env})
        connected = time.perf_counter()
    stopped = time.perf_counter()
    if cluster.warnings:
        raise SystemExit("\n".join(cluster.warnings))
    return Reading(start_s=started - begun, connect_s=connected - started, stop_s=stopped - connected)


def measure(kind: Callable[[Path], Reading]) -> Reading:
    where = Path(tempfile.mkdtemp(prefix="plb", dir="/tmp"))
    reading = kind(where)
    shutil.rmtree(where, ignore_errors=True)
    print(
        f"{kind.__name__:<9} start {reading.start_s:6.2f}  connect {reading.connect_s:5.2f}  "
        f"stop {reading.stop_s:5.2f}  = {reading.total_s:6.2f} s",
        flush=True,
    )
    return reading


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="pairs of clusters that are counted")
    options = parser.parse_args()
    theirs, ours = in_turn(options.rounds, partial(measure, bare), partial(measure, isolated))
    ratios = [mine.total_s / yours.total_s for yours, mine in zip(theirs, ours, strict=True)]
    total = sum(reading.total_s for reading in ours) / sum(reading.total_s for reading in theirs)
    ratio = statistics.median(ratios)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}; of the sums {total:.2f}"
    row = Row(
        what="an isolated cluster, beside a bare one",
        metric="isolation_overhead",
        figure=ratio,
        bound=BOUND,
        unit="x",
        detail=spread,
    )
    return finish(options, [row], num_clusters=len(ours))


if __name__ == "__main__":
    raise SystemExit(main())
