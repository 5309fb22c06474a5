"""What a case on a pool of machines costs beside a bare Ray task that runs the same command, measured in one run.

    python benchmarks/ray_pool.py              five rounds of 200 cases on two simulated nodes, a few minutes
    python benchmarks/ray_pool.py --rounds 2   for a first look

Bare: a program that connects to the cluster and runs the command in one Ray task a case. Ours: `paceline run --on` with
as many entries; besides, it watches each process tree, measures it, keeps its output and brings its files home. Both
are timed from the start of their process to its end. They take turns, and swap places every round, so that a change
of load meets both; the first round does not count.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from figures import Row, finish, make_parser
from measuring import in_memory, in_turn

from paceline.run.ray.ports import reserve

BOUND_MS = 15.0
COMMAND = ["true"]
STORE_BYTES = 100_000_000
WORK_DIR = in_memory() or Path(tempfile.gettempdir())
BARE = """
import subprocess, sys
import ray

ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")

@ray.remote(num_cpus=1)
def task(command):
    return subprocess.run(command, capture_output=True).returncode

codes = ray.get([task.remote(sys.argv[3:]) for _ in range(int(sys.argv[2]))])
assert codes == [0] * int(sys.argv[2])
"""


@contextmanager
def two_nodes() -> Iterator[str]:
    """Two nodes of one CPU each, on loopback."""
    home = Path(tempfile.mkdtemp(prefix="plb", dir="/tmp"))
    (home / "ray").mkdir()
    os.environ["TMPDIR"] = str(WORK_DIR)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is used as on any user's machine
    os.environ.pop("RAY_ADDRESS", None)
    os.environ |= {"RAY_TMPDIR": str(home), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ |= {"RAY_raylet_start_wait_time_s": "150"}  # a busy machine can take longer than Ray's 30 s
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    ports = reserve(("dashboard", "agent"))  # Ray's own choice is the same for every cluster of a machine
    head = {"dashboard_port": ports["dashboard"], "dashboard_agent_listen_port": ports["agent"]}
    cluster = Cluster(initialize_head=True, head_node_args={**node, **head, "include_dashboard": False})
    try:
        cluster.add_node(**node)
        yield cluster.address
    finally:
        cluster.shutdown()
        ports.release()
        shutil.rmtree(home, ignore_errors=True)


def timed(argv: list[str], cwd: Path) -> float:
    begun = time.perf_counter()
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{argv[:4]} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - begun


def bare(address: str, count: int, cwd: Path) -> float:
    return timed([sys.executable, "-c", BARE, address, str(count), *COMMAND], cwd)


def pooled(address: str, count: int, cwd: Path) -> float:
    entries = [{"name": f"case_{number}", "command": COMMAND} for number in range(count)]
    (cwd / "suite.json").write_text(json.dumps({"entries": entries}))
    ours = [sys.executable, "-m", "paceline", "run", "suite.json", "--on", address, "--db", "benchmark.db"]
    seconds = timed(ours, cwd)
    records = list(cwd.glob("results/*/case_*/record.json"))
    if len(records) != count:
        raise SystemExit(f"{len(records)} records of {count} cases")
    return seconds


def measure(kind: Callable[[str, int, Path], float], address: str, count: int) -> float:
    with tempfile.TemporaryDirectory(prefix="plb", dir=WORK_DIR) as cwd:
        seconds = kind(address, count, Path(cwd))
    print(f"{kind.__name__:<7} {seconds:6.2f} s  {1000 * seconds / count:6.1f} ms a case", flush=True)
    return seconds


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs that are counted")
    parser.add_argument("--cases", type=int, default=200, help="cases of a run")
    options = parser.parse_args()
    with two_nodes() as address:
        measures = [partial(measure, kind, address, options.cases) for kind in (bare, pooled)]
        theirs, ours = in_turn(options.rounds, *measures)
    extra_ms = [1000 * (mine - yours) / options.cases for yours, mine in zip(theirs, ours, strict=True)]
    figure = statistics.median(extra_ms)
    spread = f"{min(extra_ms):.1f} to {max(extra_ms):.1f}; {statistics.median(ours) / statistics.median(theirs):.2f}x"
    row = Row(
        what="a case on the pool, beside a bare task",
        metric="pool_case_overhead_ms",
        figure=figure,
        bound=BOUND_MS,
        unit="ms",
        detail=spread,
    )
    return finish(options, [row], num_cases=options.cases)


if __name__ == "__main__":
    raise SystemExit(main())
