"""Clusters for the suite: private ones on this machine, or one that is running already."""

import gc
import io
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
from benchmarks.dask import workloads
from benchmarks.dask.sizes import ClusterSize
from distributed import Client, LocalCluster

# A busy machine starts processes slowly; none of these is waited for when all is well.
_PATIENCE = {"distributed.comm.timeouts.connect": "60s", "distributed.comm.timeouts.tcp": "60s"}
_START_TIMEOUT_S = 120
_SETTLE_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The cluster that a run asks for; with an address the rest is as that scheduler has it."""

    scheduler_address: str | None = None
    workers: int = 2
    threads_a_worker: int = 1
    memory_limit: str | int = "1GiB"


@contextmanager
def open_client(
    settings: ClusterSettings, directory: Path, config: dict[str, Any] | None = None
) -> Iterator[Client]:
    """A client of the cluster; workers that were started for it end with it."""
    with dask.config.set({**_PATIENCE, **(config or {})}):
        if settings.scheduler_address is None:
            with _start_cluster(settings, directory) as cluster, Client(cluster) as client:
                client.wait_for_workers(settings.workers, timeout=_START_TIMEOUT_S)
                client.run(workloads.import_libraries)
                yield client
        else:
            with Client(settings.scheduler_address, timeout=_START_TIMEOUT_S) as client:
                client.wait_for_workers(1, timeout=_START_TIMEOUT_S)
                _send_code(client)
                client.run(workloads.import_libraries)
                yield client


def _start_cluster(settings: ClusterSettings, directory: Path) -> LocalCluster:
    return LocalCluster(
        n_workers=settings.workers,
        threads_per_worker=settings.threads_a_worker,
        memory_limit=settings.memory_limit,
        local_directory=str(directory),
        # Without a dashboard the scheduler still serves HTTP: on loopback, at any port that is free.
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    )


def _send_code(client: Client) -> None:
    """Give a foreign cluster the functions that tasks call."""
    with TemporaryDirectory() as directory:
        archive = Path(directory) / "paceline_dask_suite.zip"
        archive.write_bytes(_archive_bytes())
        client.upload_file(str(archive))


def _archive_bytes() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        # Python 3.11 finds a package in an archive only if it has this file.
        archive.writestr("benchmarks/__init__.py", "")
        archive.writestr("benchmarks/dask/__init__.py", "")
        archive.write(workloads.__file__, "benchmarks/dask/workloads.py")
    return buffer.getvalue()


def size_of(client: Client) -> ClusterSize:
    """What the workers that are there now have together."""
    # Not from client.scheduler_info(): a refresh in the background may leave it without workers for a moment.
    workers: dict[str, tuple[int, int]] = client.run_on_scheduler(workloads.describe_workers)
    memory_bytes = sum(memory for _, memory in workers.values())
    if not memory_bytes:
        raise ValueError(
            "the cluster's workers have no memory limit, and sizes are shares of it: give them one"
        )
    threads = sum(count for count, _ in workers.values())
    return ClusterSize(workers=len(workers), threads=threads, memory_bytes=memory_bytes)


def settle(client: Client) -> None:
    """Wait until the cluster holds nothing of an earlier workload, so that it is not measured with the next."""
    deadline = time.monotonic() + _SETTLE_TIMEOUT_S
    while client.run_on_scheduler(workloads.count_tasks):
        if time.monotonic() > deadline:  # a failed test's traceback keeps its futures
            client.restart(timeout=_START_TIMEOUT_S)
            return
        gc.collect()
        time.sleep(0.02)
    client.run(gc.collect)
