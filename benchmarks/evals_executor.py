"""What the eval executor itself costs: `python benchmarks/evals_executor.py [--stubs 1000] [--rounds 3]`.

* No-op stubs: the executor against a bare pool of as many processes that writes and syncs the same files. Both are
  timed from the start of their processes to the last file, in turns, since machines change their pace.
* Busy slots: how much of the time the workers have a stub, with 100 stubs of mixed length.

Needs neither torch nor a GPU. Prints a table, and exits with 1 if a target is missed.
"""

import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import ClassVar

from figures import is_recorded, make_parser, publish

from paceline.evals import AdapterConfig, BenchmarkConfig, BenchmarkExecutor
from paceline.evals.benchmarks.mock import MockBenchmark
from paceline.evals.interfaces import Sample

WORKERS = 2
MOST_OVERHEAD_MS = 3.0
LEAST_BUSY_SHARE = 0.95
STUB_FILES = ("spec.json", "predictions.jsonl", "raw_results.csv", "metrics.json", "DONE.json")


class NoOps(MockBenchmark):
    """As many subsets as one likes, of one question each, or of as many as `lengths` says."""

    name: ClassVar[str] = "no_ops"

    def __init__(self, subsets: int = 1, lengths: Sequence[int] = ()) -> None:
        super().__init__(repeat=max([1, *lengths]))
        self._lengths = dict(zip((f"s{number}" for number in range(subsets)), lengths, strict=False))
        self._subsets = tuple(f"s{number}" for number in range(subsets))

    def subsets(self) -> tuple[str, ...]:
        return self._subsets

    def load(self, subset: str | None, *, data_dir: Path | None, revision: str | None) -> Sequence[Sample]:
        samples = super().load(None, data_dir=data_dir, revision=revision)
        return samples[: self._lengths.get(str(subset), 1)]


def run_executor(base: Path, subsets: int, *, lengths: Sequence[int] = (), seconds: float = 0.0) -> float:
    """Run so many stubs; the share of time in which workers had one."""
    executor = BenchmarkExecutor(["cpu"] * WORKERS, WORKERS, base)
    results = executor.run_benchmark_matrix(
        ["model"],
        [("dense", None)],
        [BenchmarkConfig("evals_executor:NoOps", params={"subsets": subsets, "lengths": list(lengths)})],
        AdapterConfig("mock", model_kwargs={"seconds_per_sample": seconds}),
    )
    summary = results.execution_summary
    assert summary["completed"] == subsets, summary["failures"]
    return float(summary["slot_busy_share"])


def write_files(task: tuple[str, dict[str, bytes], bytes]) -> None:
    """What a stub leaves behind, and nothing else."""
    directory, files, record = task
    Path(directory).mkdir(parents=True)
    for name, data in files.items():
        with Path(directory, name).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    Path(directory, "record.json").write_bytes(record)


def run_bare_pool(base: Path, stubs: int, files: dict[str, bytes], record: bytes) -> None:
    context = multiprocessing.get_context("spawn")
    tasks = [(str(base / f"s{number}"), files, record) for number in range(stubs)]
    with context.Pool(WORKERS) as pool:
        for _ in pool.imap_unordered(write_files, tasks):
            pass


def example_files(base: Path) -> tuple[dict[str, bytes], bytes]:
    """The files of one stub, as the executor writes them."""
    run_executor(base, 1)
    stub = next(path.parent for path in base.glob("*/*/*/DONE.json"))
    record = next(base.glob("execution_*/*/record.json"))
    return {name: (stub / name).read_bytes() for name in STUB_FILES}, record.read_bytes()


def measure_overhead(stubs: int, rounds: int, place: Path) -> list[float]:
    """Milliseconds a stub takes more than in the bare pool, in each round."""
    files, record = example_files(place / "example")
    found = []
    for number in range(rounds):
        started = time.perf_counter()
        run_bare_pool(place / f"bare{number}", stubs, files, record)
        bare_s = time.perf_counter() - started
        started = time.perf_counter()
        run_executor(place / f"executor{number}", stubs)
        executor_s = time.perf_counter() - started
        found.append((executor_s - bare_s) / stubs * 1000)
        print(f"  round {number + 1}: bare pool {bare_s:.2f} s, executor {executor_s:.2f} s", flush=True)
        for name in ("bare", "executor"):
            shutil.rmtree(place / f"{name}{number}")
    return found


def measure_busy_share(place: Path) -> float:
    """100 stubs of 1 to 100 samples of 5 ms each."""
    random = Random(1)
    lengths = [random.randint(1, 100) for _ in range(100)]
    return run_executor(place / "busy", 100, lengths=lengths, seconds=0.005)


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--stubs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evals-executor-") as name:
        place = Path(name)
        overheads = measure_overhead(options.stubs, options.rounds, place)
        share = measure_busy_share(place)
    overhead = statistics.median(overheads)
    print(f"{'what':<44} {'measured':>10} {'target':>10}")
    print(
        f"{'no-op stub over a bare pool, median':<44} {overhead:>7.2f} ms {f'≤ {MOST_OVERHEAD_MS:g} ms':>10}"
    )
    print(f"{'slots busy, 100 stubs of mixed length':<44} {share:>8.1%} {f'≥ {LEAST_BUSY_SHARE:.0%}':>12}")
    publish(
        options,
        {"stub_overhead_ms": (overhead, "ms"), "slot_efficiency": (share, "")},
        num_stubs=options.stubs,
    )
    met = overhead <= MOST_OVERHEAD_MS and share >= LEAST_BUSY_SHARE
    return 0 if met or is_recorded(options) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))  # where workers import NoOps from
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is used, as on any user's machine
    sys.exit(main())
