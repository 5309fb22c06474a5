"""The Dask fixtures' contexts; imported with Dask itself, when a test gives one of them a client."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.metadata import version
from typing import Any

from paceline.pytest_plugin.dask.collectors import (
    Collector,
    DurationCollector,
    MemoryCollector,
    SchedulerCollector,
    within,
)
from paceline.pytest_plugin.guarding import guarded
from paceline.pytest_plugin.measuring import Measured, Region

Context = AbstractContextManager[None]


def memory(measured: Measured, client: Any) -> Context:
    return _collecting(measured, "benchmark_memory", client, MemoryCollector)


def task_durations(measured: Measured, client: Any) -> Context:
    return _collecting(measured, "benchmark_task_durations", client, DurationCollector)


@contextmanager
def cluster_info(measured: Measured, cluster: Any) -> Iterator[None]:
    """What a cluster says of itself; a Coiled cluster has an id and a page, others have not."""
    with guarded(measured.warn, "get_cluster_info"):
        told = {
            "cluster_name": getattr(cluster, "name", None),
            "cluster_id": getattr(cluster, "cluster_id", None),
            "cluster_details_url": getattr(cluster, "details_url", None),
        }
        measured.details.update({name: str(value) for name, value in told.items() if value})
    yield


@contextmanager
def everything(measured: Measured, client: Any) -> Iterator[None]:
    """All collectors, the quick ones to stop innermost, and time inside of them."""
    _describe(measured, client)
    with ExitStack() as stack:
        stack.enter_context(task_durations(measured, client))
        stack.enter_context(_collecting(measured, "benchmark_all", client, SchedulerCollector))
        stack.enter_context(memory(measured, client))
        if client.cluster is not None:
            stack.enter_context(cluster_info(measured, client.cluster))
        stack.enter_context(Region(measured))
        yield


def _describe(measured: Measured, client: Any) -> None:
    """How large the cluster is, and which Dask it runs."""
    measured.details |= {f"{name}_version": version(name) for name in ("dask", "distributed")}
    with guarded(measured.warn, "benchmark_all"):
        # Not from client.scheduler_info(): a refresh in the background may leave it without workers for a moment.
        told = within(lambda: client.sync(client.scheduler.identity, n_workers=-1))
        workers = told["workers"].values()
        measured.details["cluster_name"] = told["address"]  # Unless the cluster itself has a name.
        measured.details["cluster_size"] = {
            "workers": len(workers),
            "threads": sum(worker["nthreads"] for worker in workers),
            "memory_bytes": sum(worker["memory_limit"] or 0 for worker in workers),
        }


@contextmanager
def _collecting(
    measured: Measured, what: str, client: Any, collector_type: type[Collector]
) -> Iterator[None]:
    """A collector around a region; one that fails is a warning in the record."""
    collector: Collector | None = None
    with guarded(measured.warn, what):
        if getattr(client, "asynchronous", False):
            raise TypeError("needs a client that is not asynchronous")
        made = collector_type(client)  # type: ignore[call-arg]
        made.start()
        collector = made
    try:
        yield
    finally:
        if collector is not None:
            with guarded(measured.warn, what):
                metrics, warnings = collector.stop()
                measured.metrics.update(metrics)
                measured.warnings += [f"{what}: {text}" for text in warnings]
