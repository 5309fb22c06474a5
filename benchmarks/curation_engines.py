"""How busy a GPU is that one stage of a pipeline books, between two stages that need none, on each executor.

    python benchmarks/curation_engines.py                        all four; with Ray's start, a few minutes
    python benchmarks/curation_engines.py --executors local

The GPU is not a real one, and stages sleep instead of computing: what is measured is whether an engine has the next
batch ready, and runs the CPU stages of other batches meanwhile. `busy` is the share of the time from the GPU stage's
first task to its last in which it worked; `beside` is the share of that work during which a CPU stage worked, too.
The Ray cluster is given four CPUs, which sleeping stages do not need: Xenna's streaming mode books some for every
stage. Xenna asks NVML for GPUs, so its workers find a module of that name which has one.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from figures import Row, finish, make_parser

from paceline.curate import Pipeline, Resources, Stage, Task
from paceline.curate.executors import EXECUTORS, make_executor
from paceline.run.ray.home import Home

BOUND = 0.10
CPUS = 4
Span = tuple[float, float]
NVML = """
class NVMLError(Exception): ...
nvmlInit = nvmlShutdown = lambda: None
nvmlDeviceGetCount = lambda: 1
nvmlDeviceGetHandleByIndex = lambda index: index
nvmlDeviceGetName = lambda handle: "not a GPU"
nvmlDeviceGetUUID = lambda handle: "GPU-00000000-0000-0000-0000-000000000001"
"""


class Wait(Stage):
    """Takes its time for each task, and says when it did."""

    def __init__(self, name: str, takes_s: float, gpus: float = 0.0) -> None:
        self.name, self.takes_s = name, takes_s
        self.resources = Resources(cpus=1, gpus=gpus)

    def process(self, task: Task) -> Task:
        begun = time.monotonic()
        time.sleep(self.takes_s)
        return task.carrying([*task.data, (self.name, begun, time.monotonic())])


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--executors", nargs="+", choices=EXECUTORS, default=list(EXECUTORS))
    parser.add_argument("--tasks", type=int, default=600)
    args = parser.parse_args()
    rows = []
    with cluster() if set(args.executors) - {"local"} else nullcontext():
        for name in args.executors:
            busy, beside = measure(name, args.tasks)
            print(f"{name:<12} busy {busy:6.1%}   beside {beside:6.1%}")
            rows.append(
                Row(
                    what=f"GPU idle, {name}",
                    metric=f"{name}_gpu_idle_overhead",
                    figure=1 - busy,
                    bound=BOUND,
                    unit="",
                    detail=f"a CPU stage beside it {beside:.0%} of the time",
                )
            )
    return finish(args, rows, num_tasks=args.tasks)


def measure(name: str, count: int) -> tuple[float, float]:
    """The share of its time that the GPU's stage works, and of that the share beside a CPU stage."""
    options = {"workers": CPUS, "gpus": 1} if name == "local" else {}
    executor = make_executor(name, tasks_per_unit=10, **options)
    stages = [Wait("before", 0.006), Wait("gpu", 0.010, gpus=1), Wait("after", 0.006)]
    result = Pipeline("engines", stages).run(executor, [Task(data=[]) for _ in range(count)])
    notes = [note for task in result for note in task.data]
    assert len(result) == count and len(notes) == 3 * count
    gpu = joined([(begun, ended) for one, begun, ended in notes if one == "gpu"])
    cpu = joined([(begun, ended) for one, begun, ended in notes if one != "gpu"])
    worked = sum(ended - begun for begun, ended in gpu)
    both = sum(max(0.0, min(b, d) - max(a, c)) for a, b in gpu for c, d in cpu)
    return worked / (gpu[-1][1] - gpu[0][0]), both / worked


def joined(spans: Sequence[Span]) -> list[Span]:
    """The time that they cover, as spans that do not overlap."""
    covered: list[Span] = []
    for begun, ended in sorted(spans):
        if covered and begun <= covered[-1][1]:
            covered[-1] = covered[-1][0], max(covered[-1][1], ended)
        else:
            covered.append((begun, ended))
    return covered


@contextmanager
def cluster() -> Iterator[None]:
    """A Ray cluster on loopback with a GPU that is not there."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.pop("RAY_ADDRESS", None)
    home = Home.create(os.environ)
    os.environ |= {
        **home.env(os.environ),
        "RAY_TMPDIR": str(home.path),
        "RAY_raylet_start_wait_time_s": "150",
    }
    import ray

    (home.path / "pynvml.py").write_text(NVML)
    # Workers unpickle the stages of this program.
    paths = [str(home.path), str(Path(__file__).parent), *sys.path]
    try:
        ray.init(
            address="local",
            num_cpus=CPUS,
            num_gpus=1,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=200_000_000,
            _node_ip_address="127.0.0.1",
            _temp_dir=str(home.ray_dir),
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(paths)}},
        )
        yield
    finally:
        ray.shutdown()
        home.end_processes()  # Some of Xenna's outlive the cluster.
        home.remove()


if __name__ == "__main__":
    sys.exit(main())
