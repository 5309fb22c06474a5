"""Options and fixtures of the Dask suite: a cluster a module, and sizes that follow from its memory."""

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.dask.clusters import ClusterSettings, open_client, settle, size_of
from benchmarks.dask.sizes import SHARES, Budget, parse_share
from distributed import Client

DEFAULT_SCALE = "smallest"
_DEFAULTS = ClusterSettings()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dask suite", "the Dask suite")
    group.addoption(
        "--scheduler-address",
        metavar="ADDRESS",
        help="Run on the cluster of this scheduler, such as tcp://10.0.0.5:8786, instead of on private ones.",
    )
    group.addoption(
        "--dask-scale",
        metavar="SCALE",
        type=_share_argument,
        default=parse_share(DEFAULT_SCALE),
        help=f"Size of the workloads: {', '.join(SHARES)}, or a share of the cluster's memory. Default: smallest.",
    )
    group.addoption(
        "--dask-workers",
        type=int,
        default=_DEFAULTS.workers,
        help="Workers of a private cluster. Default: %(default)s.",
    )
    group.addoption(
        "--dask-threads",
        type=int,
        default=_DEFAULTS.threads_a_worker,
        help="Threads of each of its workers. Default: %(default)s.",
    )
    group.addoption(
        "--dask-memory-limit",
        metavar="SIZE",
        default=_DEFAULTS.memory_limit,
        help="Memory of each of its workers. Default: %(default)s.",
    )
    group.addoption(
        "--dask-data-dir",
        metavar="DIR",
        type=Path,
        help="Where data is written that workers read and write; all of them must see it. "
        "TPC-H tables are kept there. Default: a temporary directory.",
    )
    group.addoption(
        "--tpch-scale", type=float, help="Scale factor of the TPC-H tables. Default: follows from the memory."
    )


def _share_argument(text: str) -> float:
    try:
        return parse_share(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def pytest_configure(config: pytest.Config) -> None:
    """Give Polars, which asks for its number of threads only once, as many as a private cluster has."""
    if option(config, "scheduler_address") is None:
        threads = option(config, "dask_workers", _DEFAULTS.workers) * option(
            config, "dask_threads", _DEFAULTS.threads_a_worker
        )
        os.environ.setdefault("POLARS_MAX_THREADS", str(threads))


def option(config: pytest.Config, name: str, default: Any = None) -> Any:
    """An option's value; its default when pytest came here from a directory above and read no options for it."""
    return config.getoption(name, default)


@pytest.fixture(scope="session")
def cluster_settings(pytestconfig: pytest.Config) -> ClusterSettings:
    """The cluster that the command line asks for."""
    return ClusterSettings(
        scheduler_address=option(pytestconfig, "scheduler_address"),
        workers=option(pytestconfig, "dask_workers", _DEFAULTS.workers),
        threads_a_worker=option(pytestconfig, "dask_threads", _DEFAULTS.threads_a_worker),
        memory_limit=option(pytestconfig, "dask_memory_limit", _DEFAULTS.memory_limit),
    )


@pytest.fixture(scope="session")
def share(pytestconfig: pytest.Config) -> float:
    """The share of the cluster's memory that a workload of size 1 takes."""
    value: float = option(pytestconfig, "dask_scale", parse_share(DEFAULT_SCALE))
    return value


@pytest.fixture(scope="session")
def data_dir(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the client and all workers see."""
    given: Path | None = option(pytestconfig, "dask_data_dir")
    return given.absolute() if given else tmp_path_factory.mktemp("dask-data")


@pytest.fixture(scope="module")
def module_client(
    cluster_settings: ClusterSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """The cluster of one module. A fresh one takes less time than a restart, and inherits nothing."""
    with open_client(cluster_settings, tmp_path_factory.mktemp("dask-workers")) as client:
        yield client


@pytest.fixture
def client(module_client: Client) -> Iterator[Client]:
    """The module's cluster, empty before the test and after it."""
    settle(module_client)
    yield module_client
    settle(module_client)


@pytest.fixture
def budget(client: Client, share: float) -> Budget:
    """What a workload may use."""
    return Budget(cluster=size_of(client), share=share)


@pytest.fixture
def note_size(budget: Budget, test_run_benchmark: Any) -> Callable[..., None]:
    """Stores with the result how large the workload was and on what it ran."""

    def note(data_bytes: float, **counts: float) -> None:
        sizes = {"data_bytes": int(data_bytes), "cluster_memory_bytes": budget.cluster.memory_bytes}
        sizes |= {"cluster_threads": budget.cluster.threads, "cluster_workers": budget.cluster.workers}
        for name, value in {**sizes, "memory_share": budget.share, **counts}.items():
            setattr(test_run_benchmark, name, value)

    return note
