"""How a cluster's readings come together; no cluster needed."""

import subprocess
import sys

import cloudpickle
import pytest

from paceline.pytest_plugin.dask import cluster_side as dask_cluster_side
from paceline.pytest_plugin.dask import collectors as dask_collectors
from paceline.pytest_plugin.dask.collectors import classify, heartbeat_s, sum_peaks, within


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


def test_peaks_of_processes_are_summed_once_and_only_if_all_are_known() -> None:
    one, other, same = (("host", 1), 100), (("host", 2), 60), (("host", 1), 100)
    assert sum_peaks([one, other, same], 0) == {"kernel_peak_memory": 160}
    assert sum_peaks([one, (("host", 2), None)], 0) == sum_peaks([one], 1) == sum_peaks([], 0) == {}


def test_what_runs_on_a_cluster_needs_no_paceline_there() -> None:
    sent = cloudpickle.dumps((dask_cluster_side.PeakWatch(), dask_cluster_side.read_watch))
    program = """
import os, pickle, sys
sys.modules["paceline"] = None
watch, read = pickle.load(sys.stdin.buffer)
old = bytearray(100_000_000)
del old
watch.setup(None)
block = bytearray(50_000_000)
del block
class Worker:
    plugins = {"it": watch}
(host, process), peak = read("it", Worker)
assert process == os.getpid()
resident = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
assert peak is None or resident + 40_000_000 <= peak <= resident + 90_000_000
"""
    done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


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
