"""What the eval executor itself costs: `python benchmarks/evals_executor.py [--stubs 1000] [--rounds 3] [--models]`.

* No-op stubs: the executor against a bare pool of as many processes that writes and syncs the same files. Both are
  timed from the start of their processes to the last file, in turns, since machines change their pace.
* Busy slots: how much of the time the workers have a stub, with 100 stubs of mixed length.
* One load for many: 4 attentions × 6 subsets of a model built here, in one worker, over the time that generating,
  one import and one load take.
* Prefill: 8 short questions on one context of at least 2,000 tokens, asked together and each by itself.

The last two come with `--models`, and need torch and transformers. Nothing needs a GPU or a network. Prints a table,
and exits with 1 if a target is missed.
"""

import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A line of the table; `metric`, `value` and `unit` are what the history gets."""

    metric: str
    value: float
    unit: str
    what: str
    measured: str
    target: str
    is_met: bool

    def __str__(self) -> str:
        return f"{self.what:<58} {self.measured:>10} {self.target:>10}{'' if self.is_met else '  missed'}"


def executor_figures(stubs: int, rounds: int, place: Path) -> Iterator[Figure]:
    overhead = statistics.median(measure_overhead(stubs, rounds, place))
    yield Figure(
        metric="stub_overhead_ms",
        value=overhead,
        unit="ms",
        what="a no-op stub over a bare pool, median",
        measured=f"{overhead:.2f} ms",
        target=f"≤ {MOST_OVERHEAD_MS:g} ms",
        is_met=overhead <= MOST_OVERHEAD_MS,
    )
    share = measure_busy_share(place)
    yield Figure(
        metric="slot_efficiency",
        value=share,
        unit="",
        what="slots busy, 100 stubs of mixed length",
        measured=f"{share:.1%}",
        target=f"≥ {LEAST_BUSY_SHARE:.0%}",
        is_met=share >= LEAST_BUSY_SHARE,
    )


def model_figures(rounds: int, place: Path) -> Iterator[Figure]:
    import evals_models

    evals_models.build(place / "model")
    measured = [evals_models.measure_matrix(place / "model", place / f"matrix{n}") for n in range(rounds)]
    ratio, loads = statistics.median(ratio for ratio, _ in measured), max(count for _, count in measured)
    yield Figure(
        metric="matrix_ratio",
        value=ratio,
        unit="x",
        what=f"4 attentions × 6 subsets, {loads} load: over generating + loading",
        measured=f"{ratio:.2f}×",
        target=f"≤ {evals_models.MOST_MATRIX_RATIO:g}×",
        is_met=ratio <= evals_models.MOST_MATRIX_RATIO and loads == 1,
    )
    for name, speedup in evals_models.measure_prefill(place / "model", 2000, rounds).items():
        yield Figure(
            metric=f"{name}_speedup",
            value=speedup,
            unit="x",
            what=f"8 questions on one context, {name}: apart over together",
            measured=f"{speedup:.1f}×",
            target=f"≥ {evals_models.LEAST_SPEEDUP:g}×",
            is_met=speedup >= evals_models.LEAST_SPEEDUP,
        )


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--stubs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", action="store_true", help="also what needs torch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evals-executor-") as name:
        place = Path(name)
        figures = list(executor_figures(options.stubs, options.rounds, place))
        if options.models:
            figures += model_figures(options.rounds, place)
    print(f"{'what':<58} {'measured':>10} {'target':>10}")
    for figure in figures:
        print(figure)
    published = {figure.metric: (figure.value, figure.unit) for figure in figures}
    publish(options, published, num_stubs=options.stubs)
    return 0 if is_recorded(options) or all(figure.is_met for figure in figures) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))  # where workers import NoOps from
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is used, as on any user's machine
    sys.exit(main())
