"""What runs inside a Dask cluster. It is sent there by value: the cluster's machines need not have Paceline.

Nothing here may use anything of Paceline, and imports that other modules need stay inside the functions.
"""

import os
import socket
from typing import Any

from distributed import WorkerPlugin

Peak = tuple[tuple[str, int], int | None]
"""Which process, and the most memory that it had; None if the kernel does not say."""


class PeakWatch(WorkerPlugin):
    """Asks the kernel for the peak of a worker's process since the plugin came.

    A plugin, not a call, so that workers which join later are watched as well.
    """

    def setup(self, worker: Any) -> None:
        self._before = read_peak()
        self._is_reset = reset_peak()

    def read(self) -> Peak:
        peak = read_peak()
        if not self._is_reset and peak == self._before:
            peak = None  # It may be older.
        return (socket.gethostname(), os.getpid()), peak


def read_peak() -> int | None:
    """The most memory that was ever resident in this process, in bytes; None where the kernel does not say."""
    try:
        with open("/proc/self/status", "rb") as file:  # noqa: PTH123 - pathlib would have to be imported there
            lines = [line for line in file if line.startswith(b"VmHWM:")]
    except OSError:
        return None
    return int(lines[0].split()[1]) * 1024 if lines else None


def reset_peak() -> bool:
    """Let the kernel's peak begin anew at what is resident now."""
    try:
        with open("/proc/self/clear_refs", "wb") as file:  # noqa: PTH123
            file.write(b"5")
    except OSError:
        return False
    return True


def read_watch(name: str, dask_worker: Any) -> Peak:
    """The peak since the watch of that name began."""
    watch: PeakWatch = dask_worker.plugins[name]
    return watch.read()


async def send_metrics(dask_worker: Any) -> None:
    """Tell the scheduler now what it would learn with the next heartbeat."""
    await dask_worker.heartbeat()


def read_identity(dask_scheduler: Any) -> dict[str, Any]:
    """The scheduler's address and all workers; of late Dask names only a few of them unless it is asked for all."""
    try:
        told: dict[str, Any] = dask_scheduler.identity(n_workers=-1)
    except TypeError:
        told = dask_scheduler.identity()
    return told


def read_activities(dask_scheduler: Any) -> dict[Any, float]:
    """The seconds and bytes that all workers, also those that left, spent on each kind of activity."""
    return dict(dask_scheduler.cumulative_worker_metrics)


def forget_ticks(dask_worker: Any) -> None:
    dask_worker.digests_max["tick-duration"] = 0


def longest_tick(dask_worker: Any) -> float:
    """The longest that the event loop was held up since `forget_ticks`."""
    return float(dask_worker.digests_max["tick-duration"])


def mark_scheduler(dask_scheduler: Any) -> int:
    """Forget ticks; the number of readings of the scheduler's process so far."""
    dask_scheduler.digests_max["tick-duration"] = 0
    return int(dask_scheduler.monitor.count)


def read_scheduler(since: int, dask_scheduler: Any) -> dict[str, float]:
    """CPU, memory and ticks of the scheduler since a mark."""
    dask_scheduler.monitor.update()  # A short region would fall between two readings.
    seen = dask_scheduler.monitor.range_query(since)
    return {
        "scheduler_cpu_avg": sum(seen["cpu"]) / max(len(seen["cpu"]), 1) / 100,
        "scheduler_memory_max": max(seen["memory"], default=0),
        "scheduler_max_tick": float(dask_scheduler.digests_max["tick-duration"]),
    }
