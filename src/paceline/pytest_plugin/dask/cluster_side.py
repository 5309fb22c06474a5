"""What runs inside a Dask cluster. It is sent there by value: the cluster's machines need not have Paceline.

Nothing here may use anything of Paceline, and imports that other modules need stay inside the functions.
"""

import os
import socket
import threading
import time
from typing import Any

import psutil
from distributed import WorkerPlugin

MOST_SAMPLES = 4096
"""Samples a worker keeps; when it has as many, every second one goes and the interval doubles."""


class MemoryWatch(WorkerPlugin):
    """Samples the resident memory of a worker's process by a thread, and asks the kernel for its peak.

    A plugin, not a call, so that workers which join later are watched as well.
    """

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s

    def setup(self, worker: Any) -> None:
        self._process = psutil.Process()
        self._ended = threading.Event()
        self._samples: list[tuple[float, int]] = []
        self._byte_seconds = 0.0
        self._peak_before = read_peak()
        self._is_reset = reset_peak()
        self._take()
        self._thread = threading.Thread(target=self._watch, name="paceline-memory", daemon=True)
        self._thread.start()

    def teardown(self, worker: Any) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self.interval_s):
            self._take()

    def _take(self) -> None:
        now, resident = time.time(), self._process.memory_info().rss
        if self._samples:
            before, last = self._samples[-1]
            self._byte_seconds += (now - before) * (resident + last) / 2
        self._samples.append((now, resident))
        if len(self._samples) >= MOST_SAMPLES:
            # The last one stays: the next piece of the sum begins there.
            self._samples = [*self._samples[:-1:2], self._samples[-1]]
            self.interval_s *= 2

    def stop(self) -> dict[str, Any]:
        """What was seen; later calls say the same."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            self._take()
        return {
            "process": (socket.gethostname(), os.getpid()),
            "samples": list(self._samples),
            "byte_seconds": self._byte_seconds,
            "peak_bytes": self._kernel_peak(),
        }

    def _kernel_peak(self) -> int | None:
        """The highest since the beginning; None if it may be older and the kernel could not be told to forget it."""
        peak = read_peak()
        if peak is None or (not self._is_reset and peak == self._peak_before):
            return None
        return peak


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


def stop_watch(name: str, dask_worker: Any) -> dict[str, Any]:
    """The readings of the watch of that name."""
    watch: MemoryWatch = dask_worker.plugins[name]
    return watch.stop()


async def send_metrics(dask_worker: Any) -> None:
    """Tell the scheduler now what it would learn with the next heartbeat."""
    await dask_worker.heartbeat()


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
