"""A Dask cluster's figures: collectors that are started and stopped around a region, and the fixtures' contexts.

Imported with Dask itself, when a test gives one of the fixtures a client.

Everything goes through the client, so a local cluster and a scheduler at an address are the same.
"""

import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

import cloudpickle  # type: ignore[import-untyped]
from distributed.diagnostics.memory_sampler import MemorySampler

from paceline.pytest_plugin.dask import cluster_side as cluster_side
from paceline.pytest_plugin.failures import FAILURES, guarded
from paceline.pytest_plugin.measuring import Measured, Region

cloudpickle.register_pickle_by_value(cluster_side)

T = TypeVar("T")

Context = AbstractContextManager[None]

PATIENCE_S = 60.0
"""How long a cluster may take to answer: a worker that is stuck must not hang the suite."""
INTERVAL_S = 0.5
"""How often Dask's sampler looks, and workers report: both its own default."""
_ONE_LOOK = (
    f"memory was looked at once, when the region began: it ended before {INTERVAL_S} s, and what it took is in "
    "kernel_peak_memory alone"
)

_SUMS = (
    "compute_time",
    "compute_cpu_time",
    "transfer_time",
    "disk_spill_time",
    "disk_spill_bytes",
    "serializing_time",
    "shuffle_disk_time",
)
_SPILL = frozenset({"disk-read", "disk-write"})
_SERIALISE = frozenset({"serialize", "deserialize", "compress", "decompress"})
_NOT_COMPUTING = frozenset({"executor", "memory-read", "other", "cancelled", "failed"}) | _SPILL | _SERIALISE


class Collector(Protocol):
    """Something that watches a cluster; `stop` gives metrics and what has to be said of them."""

    def start(self) -> None: ...

    def stop(self) -> tuple[Mapping[str, float], Iterable[str]]: ...


def within(call: Callable[[], T]) -> T:
    """The result of a call into the cluster, or `TimeoutError` if it takes too long."""
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(call())
        except FAILURES as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="paceline-dask", daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"the cluster does not answer within {PATIENCE_S:.0f} s")
    return results[0]


class MemoryCollector:
    """Memory of the workers as Coiled's benchmarks measure it, and the sum of their peaks.

    Dask's own sampler sums up, every half second, what the last heartbeat of each worker said of its process.
    `average_memory` and `peak_memory` are the mean and the highest of these sums. What comes and goes in between is
    not in them; the kernel keeps each process's peak, so it is in `kernel_peak_memory`, their sum.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._name = f"paceline-memory-{uuid.uuid4().hex}"
        self._sampler: Any = MemorySampler()  # type: ignore[no-untyped-call]
        self._sampling = self._sampler.sample(
            self._name, client=client, measure="process", interval=INTERVAL_S
        )
        self._present: frozenset[str] = frozenset()

    def start(self) -> None:
        told = within(lambda: self._client.register_plugin(cluster_side.PeakWatch(), name=self._name))
        self._present = frozenset(told)
        within(self._sampling.__enter__)

    def stop(self) -> tuple[Mapping[str, float], Iterable[str]]:
        within(lambda: self._sampling.__exit__(None, None, None))
        try:
            told = within(lambda: self._client.run(cluster_side.read_watch, self._name, on_error="ignore"))
        finally:
            within(lambda: self._client.unregister_worker_plugin(self._name))
        sums = [value for _, value in self._sampler.samples[self._name]]
        gone = len(self._present - frozenset(told))
        return (
            {
                "average_memory": statistics.fmean(sums),
                "peak_memory": max(sums),
                **sum_peaks(told.values(), gone),
            },
            [text for text, applies in ((_ONE_LOOK, len(sums) < 2), (_gone(gone), gone)) if applies],
        )


def sum_peaks(peaks: Iterable[cluster_side.Peak], gone: int) -> dict[str, float]:
    """The sum over processes, so that workers which are threads of one count once; nothing if one is not known."""
    processes = dict(peaks)
    known = [peak for peak in processes.values() if peak is not None]
    return {"kernel_peak_memory": sum(known)} if known and not gone and len(known) == len(processes) else {}


def _gone(count: int) -> str:
    return f"{count} worker(s) left, so kernel_peak_memory is not known"


class DurationCollector:
    """What the workers spent their time on, by the difference of what the scheduler has summed up."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._before: Mapping[Any, float] = {}

    def start(self) -> None:
        self._before = self._read()

    def stop(self) -> tuple[Mapping[str, float], Iterable[str]]:
        after = self._read()
        changes = {key: value - self._before.get(key, 0) for key, value in after.items()}
        lost = any(value < -1e-9 for value in changes.values())
        warnings = ["the scheduler was restarted: task durations are not complete"] if lost else []
        return classify(changes), warnings

    def _read(self) -> Mapping[Any, float]:
        answers = within(lambda: self._client.run(cluster_side.send_metrics, on_error="return"))
        if any(isinstance(answer, BaseException) for answer in answers.values()):
            time.sleep(2 * heartbeat_s(len(answers)))  # Then they arrive when they do.
        found: Mapping[Any, float] = within(
            lambda: self._client.run_on_scheduler(cluster_side.read_activities)
        )
        return found


def heartbeat_s(workers: int) -> float:
    """How often workers report by themselves: less often the more they are."""
    return 0.5 if workers <= 10 else 1 if workers < 50 else 2 if workers < 200 else workers / 200 + 1


def classify(changes: Mapping[Any, float]) -> dict[str, float]:
    """Dask's activities in a few sums of seconds, and the bytes that were spilled.

    Shuffles tell what they do in the foreground a second time under `p2p`; it is the `execute` entries that count.
    """
    found = dict.fromkeys(_SUMS, 0.0)
    for key, value in changes.items():
        if isinstance(key, tuple) and len(key) >= 3 and value > 0:
            context, activity, unit = key[0], key[-2], key[-1]
            for name in _sums_of(context, key[1], str(activity), unit):
                found[name] += value
    return found


def _sums_of(context: str, place: Any, activity: str, unit: str) -> tuple[str, ...]:
    if context == "p2p" and place == "foreground":
        return ()
    if unit == "bytes":
        return ("disk_spill_bytes",) if activity in _SPILL and context != "p2p" else ()
    if unit != "seconds":
        return ()
    if activity in _SERIALISE:
        return ("serializing_time",)
    if activity in _SPILL:
        return ("shuffle_disk_time" if context == "p2p" else "disk_spill_time",)
    if (context, activity) in (("gather-dep", "network"), ("p2p", "send")):
        return ("transfer_time",)
    if context != "execute" or activity in _NOT_COMPUTING:
        return ()
    on_cpu = activity.endswith("-cpu")
    return ("compute_time", "compute_cpu_time") if on_cpu else ("compute_time",)


class SchedulerCollector:
    """CPU and memory of the scheduler, and how long event loops were held up."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._mark = 0

    def start(self) -> None:
        self._mark = within(lambda: self._client.run_on_scheduler(cluster_side.mark_scheduler))
        within(lambda: self._client.run(cluster_side.forget_ticks, on_error="ignore"))

    def stop(self) -> tuple[Mapping[str, float], Iterable[str]]:
        ticks = within(lambda: self._client.run(cluster_side.longest_tick, on_error="ignore"))
        seen = within(lambda: self._client.run_on_scheduler(cluster_side.read_scheduler, self._mark))
        longest = {"worker_max_tick": max(ticks.values())} if ticks else {}
        return {**seen, **longest}, ()


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
        told = within(lambda: client.run_on_scheduler(cluster_side.read_identity))
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
