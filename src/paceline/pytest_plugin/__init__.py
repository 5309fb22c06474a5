"""Tests as benchmarks, remembered in the history.

Each fixture is ready without `--benchmark` too, when it measures nothing and costs nothing.
"""

# What this module imports is paid by every pytest run in an environment that has Paceline; the rest is imported when it
# is used.

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Protocol, TypeVar

import pytest

from paceline.pytest_plugin.measuring import (
    STAGES,
    Measured,
    ProfiledRegion,
    Region,
    Stage,
    TestRun,
    current,
    run_rounds,
)

__all__ = [
    "bench",
    "benchmark_all",
    "benchmark_gpu",
    "benchmark_memory",
    "benchmark_task_durations",
    "benchmark_time",
    "get_cluster_info",
    "test_run_benchmark",
]

R = TypeVar("R")

Context = AbstractContextManager[None]

PROFILERS = ("dask", "py-spy", "memray")
GPU_INTERVAL_S = 0.1
_FIXTURES = frozenset(__all__)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; those of pytest-benchmark begin with the same word and mean other things."""
    group = parser.getgroup("paceline", "benchmarks remembered by Paceline")
    group.addoption(
        "--benchmark",
        action="store_true",
        dest="paceline_benchmark",
        help="Measure what the benchmark fixtures mark, and add it to the history.",
    )
    group.addoption(
        "--benchmark-db",
        metavar="URL",
        dest="paceline_db",
        help="With --benchmark: the database to record into, a file or postgresql://…. "
        "Default: $PACELINE_DB, else benchmark.db.",
    )
    group.addoption(
        "--benchmark-profile",
        metavar="KINDS",
        dest="paceline_profile",
        type=_parse_profilers,
        default=(),
        help="With --benchmark: run each benchmark that passed once more under profilers, after its timed pass. "
        f"One or more of {', '.join(PROFILERS)}, separated by commas.",
    )
    group.addoption(
        "--benchmark-profile-dir",
        metavar="DIR",
        dest="paceline_profile_dir",
        default="benchmark-profiles",
        help="Where profiles are kept. Default: %(default)s.",
    )


def _parse_profilers(text: str) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [kind for kind in kinds if kind not in PROFILERS]
    if unknown or not kinds:
        raise argparse.ArgumentTypeError(f"{text!r}: give one or more of {', '.join(PROFILERS)}")
    return kinds


def pytest_configure(config: pytest.Config) -> None:
    is_active = config.option.paceline_benchmark and not config.option.collectonly
    STAGES.append(Stage() if is_active else None)
    if is_active:
        from paceline.pytest_plugin.session import activate

        activate(config)


def pytest_unconfigure() -> None:
    STAGES.pop()


class Bench(Protocol):
    """What the fixture `bench` is."""

    def __call__(
        self, func: Callable[..., R], /, *args: Any, rounds: int = 5, warmup: int = 1, **kwargs: Any
    ) -> R: ...


@pytest.fixture
def test_run_benchmark() -> TestRun:
    """The record that is being made: every number set on it is kept as a metric, everything else as a detail.

    For fixtures of your own. Without `--benchmark` it is falsy and keeps nothing.
    """
    return TestRun(current())


@pytest.fixture
def benchmark_time() -> Context:
    """Record the wall time of a block: `with benchmark_time: …`. Each further use is one more sample."""
    measured = current()
    if measured is None:
        return nullcontext()
    return Region(measured) if measured.profiling is None else ProfiledRegion(measured.profiling)


@pytest.fixture
def bench() -> Bench:
    """Time a function: `bench(func, *args, rounds=5, warmup=1, **kwargs)` returns what the function returns.

    Every round is a sample. Without `--benchmark` the function is called once.
    """
    measured = current()

    def call(func: Callable[..., R], /, *args: Any, rounds: int = 5, warmup: int = 1, **kwargs: Any) -> R:
        if measured is None:
            return func(*args, **kwargs)
        return run_rounds(measured, func, args, kwargs, rounds=rounds, warmup=warmup)

    return call


@pytest.fixture
def benchmark_memory() -> Callable[[Any], Context]:
    """Record the memory of a Dask cluster's workers: `with benchmark_memory(client): …`."""
    return _dask_fixture("memory")


@pytest.fixture
def benchmark_task_durations() -> Callable[[Any], Context]:
    """Record what a Dask cluster's workers spent computing, transferring, spilling and serialising."""
    return _dask_fixture("task_durations")


@pytest.fixture
def get_cluster_info() -> Callable[[Any], Context]:
    """Record a cluster's name and, where it has them, its id and page: `with get_cluster_info(cluster): …`."""
    return _dask_fixture("cluster_info")


@pytest.fixture
def benchmark_all() -> Callable[[Any], Context]:
    """Record all of it for a Dask client: `with benchmark_all(client): …`. Time is taken innermost."""
    return _dask_fixture("everything")


@pytest.fixture
def benchmark_gpu() -> Context:
    """Record memory, utilisation and temperature of NVIDIA GPUs: `with benchmark_gpu: …`."""
    measured = current()
    if measured is None or measured.profiling is not None:
        return nullcontext()
    return GpuRegion(measured)


class GpuRegion:
    """`with benchmark_gpu:`; of several uses in one test the last one's figures stay."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._stack = ExitStack()

    def __enter__(self) -> None:
        from pathlib import Path

        from paceline.run.collectors import gpu_collectors

        # The curve is not kept: a test has no directory of its own.
        self._collectors = gpu_collectors(Path("/dev/null"), GPU_INTERVAL_S)
        if not self._collectors:
            self._measured.warn(
                "benchmark_gpu: there is no NVIDIA driver, or no nvidia-ml-py (paceline[gpu])"
            )
        for collector in self._collectors:
            self._stack.enter_context(collector)

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for collector in self._collectors:
            self._measured.metrics.update(collector.metrics())
            self._measured.warnings.extend(collector.warnings())


def asks_for_ours(item: pytest.Item) -> bool:
    """Whether a test has one of these fixtures, directly or through another."""
    return not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def _dask_fixture(what: str) -> Callable[[Any], Context]:
    measured = current()

    def enter(client_or_cluster: Any) -> Context:
        if measured is None:
            return nullcontext()
        if measured.profiling is not None:
            client = None if what == "cluster_info" else client_or_cluster
            return measured.profiling.around(client)
        from paceline.pytest_plugin.dask import collectors

        made: Context = getattr(collectors, what)(measured, client_or_cluster)
        return made

    return enter
