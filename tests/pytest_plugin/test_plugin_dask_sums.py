"""How a cluster's readings come together; no cluster needed."""

import pickle
import subprocess
import sys
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.pytest_plugin.dask import cluster_side as dask_cluster_side
from paceline.pytest_plugin.dask import collectors as dask_collectors
from paceline.pytest_plugin.dask.collectors import classify, heartbeat_s, highest_sum, sum_memory, within


def test_activities_become_sums() -> None:
    found = classify(
        {
            ("execute", "sum", "thread-cpu", "seconds"): 1.0,
            ("execute", "sum", "thread-noncpu", "seconds"): 0.5,
            ("execute", "sum", "executor", "seconds"): 9.0,
            ("execute", "sum", "disk-read", "seconds"): 0.25,
            ("execute", "sum", "disk-read", "bytes"): 100,
            ("execute", "shuffle", "p2p-shard-partition-cpu", "seconds"): 2.0,
            ("p2p", "foreground", "shard-partition-cpu", "seconds"): 2.0,
            ("p2p", "background-comms", "send", "seconds"): 0.125,
            ("p2p", "background-disk", "disk-write", "seconds"): 4.0,
            ("p2p", "background-disk", "disk-write", "bytes"): 7,
            ("gather-dep", "network", "seconds"): 1.0,
            ("gather-dep", "deserialize", "seconds"): 0.5,
            ("get-data", "network", "seconds"): 8.0,
            ("get-data", "serialize", "seconds"): 0.25,
            ("memory-monitor", "disk-write", "seconds"): 0.75,
            ("memory-monitor", "disk-write", "bytes"): 11,
            ("memory-monitor", "disk-write", "count"): 3,
            ("memory-monitor", "compress", "seconds"): 0.125,
            "latency": 5.0,
            "tick-duration": 6.0,
        }
    )
    assert found == {
        "compute_time": 3.5,
        "compute_cpu_time": 3.0,
        "transfer_time": 1.125,
        "disk_spill_time": 1.0,
        "disk_spill_bytes": 111,
        "serializing_time": 0.875,
        "shuffle_disk_time": 4.0,
    }


def reading(
    pid: int, samples: list[tuple[float, int]], peak: int | None, byte_seconds: float
) -> dict[str, Any]:
    return {"process": ("host", pid), "samples": samples, "peak_bytes": peak, "byte_seconds": byte_seconds}


def test_memory_is_averaged_over_time_and_peaks_are_the_kernels() -> None:
    found = sum_memory(
        [
            reading(1, [(0.0, 100), (10.0, 100)], 150, 1000.0),
            reading(2, [(5.0, 60), (10.0, 60)], None, 300.0),  # joined later
            reading(1, [(0.0, 100), (10.0, 100)], 150, 1000.0),  # another worker of the first process
        ]
    )
    assert found == {"average_memory": 130.0, "peak_memory": 210, "peak_memory_sampled": 160}


CURVES = st.lists(
    st.lists(st.tuples(st.integers(0, 99).map(float), st.integers(0, 10**9)), min_size=1).map(sorted),
    min_size=1,
    max_size=4,
)


@given(CURVES)
def test_the_highest_sum_lies_between_the_highest_curve_and_the_sum_of_peaks(
    curves: list[list[tuple[float, int]]],
) -> None:
    peaks = [max(value for _, value in curve) for curve in curves]
    assert max(peaks) <= highest_sum(curves) <= sum(peaks)


def test_what_runs_on_a_cluster_needs_no_paceline_there() -> None:
    sent = cloudpickle.dumps((dask_cluster_side.MemoryWatch(0.01), dask_cluster_side.stop_watch))
    program = """
import pickle, sys
sys.modules["paceline"] = None
watch, stop = pickle.load(sys.stdin.buffer)
watch.setup(None)
block = bytearray(50_000_000)
del block
class Worker:
    plugins = {"it": watch}
found = stop("it", Worker)
assert stop("it", Worker) == found
assert len(found["samples"]) >= 2 and found["byte_seconds"] > 0
assert found["peak_bytes"] is None or found["peak_bytes"] >= found["samples"][0][1] + 40_000_000
"""
    done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_samples_are_thinned_and_the_sum_stays_right(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = dask_cluster_side.MemoryWatch(1000)
    watch.setup(None)
    moments = iter(range(10**6))
    monkeypatch.setattr(dask_cluster_side.time, "time", lambda: float(next(moments)))
    watch._samples.clear()
    watch._process = type("Process", (), {"memory_info": lambda _: type("Info", (), {"rss": 2})})()
    for _ in range(10_000):
        watch._take()
    found = watch.stop()
    assert len(found["samples"]) < dask_cluster_side.MOST_SAMPLES
    assert found["byte_seconds"] == 2 * 10_000  # one more is taken at the end
    assert found["samples"][-1][0] == 10_000


def test_a_call_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr(dask_collectors, "PATIENCE_S", 0.05)
    with pytest.raises(TimeoutError, match="does not answer"):
        within(threading.Event().wait)
    with pytest.raises(ZeroDivisionError):
        within(lambda: 1 / 0)
    assert within(lambda: None) is None


def test_heartbeats_are_rarer_in_large_clusters() -> None:
    assert [heartbeat_s(count) for count in (1, 10, 11, 50, 400)] == [0.5, 0.5, 1, 2, 3]


def test_the_plugin_survives_pickle() -> None:
    again = pickle.loads(cloudpickle.dumps(dask_cluster_side.MemoryWatch(0.5)))
    assert again.interval_s == 0.5
