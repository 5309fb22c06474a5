"""The fixtures. Each is ready without `--benchmark` too, when it measures nothing and costs nothing."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

import pytest

from paceline.pytest_plugin.measuring import (
    Measured,
    ProfiledRegion,
    Region,
    TestRun,
    current,
    run_rounds,
)

R = TypeVar("R")

Context = AbstractContextManager[None]
OURS = frozenset(
    {
        "bench",
        "benchmark_all",
        "benchmark_gpu",
        "benchmark_memory",
        "benchmark_task_durations",
        "benchmark_time",
        "get_cluster_info",
        "test_run_benchmark",
    }
)


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
    return nullcontext() if measured is None else _time(measured)


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
    from paceline.pytest_plugin.gpu import GpuRegion

    return GpuRegion(measured)


def asks_for_ours(item: pytest.Item) -> bool:
    """Whether a test has one of these fixtures, directly or through another."""
    return not OURS.isdisjoint(getattr(item, "fixturenames", ()))


def _time(measured: Measured) -> Context:
    return Region(measured) if measured.profiling is None else ProfiledRegion(measured.profiling)


def _dask_fixture(what: str) -> Callable[[Any], Context]:
    measured = current()

    def enter(client_or_cluster: Any) -> Context:
        if measured is None:
            return nullcontext()
        if measured.profiling is not None:
            client = None if what == "cluster_info" else client_or_cluster
            return measured.profiling.around(client)
        from paceline.pytest_plugin.dask import fixtures as dask_fixtures

        made: Context = getattr(dask_fixtures, what)(measured, client_or_cluster)
        return made

    return enter
