"""The Dask fixtures on real clusters: processes, threads of this process, a scheduler at an address."""

from pathlib import Path
from typing import Any

import pytest

from paceline.model import Record, Status
from pytest_plugin.benchmark_suite import Suite

pytestmark = pytest.mark.dask

MIB = 1 << 20
ONE_LOOK = "memory was looked at once, when the region began"

TESTS = """
import threading
import time
from types import SimpleNamespace

import numpy
import pytest
from distributed import Client, LocalCluster, wait

MIB = 1 << 20

@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit="512MiB", dashboard_address=None, name="two",
        local_directory=str(tmp_path_factory.mktemp("dask")),
    ) as made:
        yield made

@pytest.fixture
def client(cluster):
    with Client(cluster) as made:
        yield made

def hold(mib, seconds):
    block = numpy.ones(mib * MIB, dtype="u1")
    time.sleep(seconds)
    return len(block)

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def test_peak(client, benchmark_all):
    with benchmark_all(client):
        client.submit(hold, 200, 0.01, pure=False).result()

def test_quiet_after_it(client, benchmark_all):
    with benchmark_all(client):
        client.submit(int, pure=False).result()

def test_sampled(client, benchmark_memory, test_run_benchmark):
    sums, ended = [], threading.Event()

    def look():
        while not ended.wait(0.5 if sums else 0):
            sums.append(client.run_on_scheduler(
                lambda dask_scheduler: sum(one.memory.process for one in dask_scheduler.workers.values())
            ))

    thread = threading.Thread(target=look)
    with benchmark_memory(client):
        thread.start()
        client.gather(client.map(hold, [60, 61], [4, 4], pure=False))
        ended.set()
    thread.join()
    test_run_benchmark.highest, test_run_benchmark.mean = max(sums), sum(sums) / len(sums)

def test_compute(client, benchmark_task_durations):
    with benchmark_task_durations(client):
        client.gather(client.map(spin, [0.1, 0.2], pure=False))

def test_transfer(client, benchmark_task_durations):
    one, other = client.scheduler_info()["workers"]
    with benchmark_task_durations(client):
        block = client.submit(numpy.ones, 20_000_000, dtype="u1", workers=one, pure=False)
        assert client.submit(len, block, workers=other, pure=False).result() == 20_000_000

def test_spill(client, benchmark_task_durations):
    with benchmark_task_durations(client):
        blocks = client.map(lambda number: numpy.random.bytes(40 * MIB), range(16), pure=False)
        wait(blocks)
        sizes = client.gather(client.map(len, blocks, pure=False))
    assert sizes == [40 * MIB] * 16

def test_address(cluster, benchmark_all):
    with Client(cluster.scheduler_address) as client, benchmark_all(client):
        client.submit(spin, 0.05, pure=False).result()

def test_joining(client, cluster, benchmark_memory, test_run_benchmark):
    with benchmark_memory(client):
        cluster.scale(3)
        client.wait_for_workers(3)
        client.gather([client.submit(hold, 60, 0.2, workers=one, pure=False)
                       for one in client.scheduler_info()["workers"]])

def test_leaving(client, cluster, benchmark_memory):
    with benchmark_memory(client):
        client.retire_workers([list(client.scheduler_info()["workers"])[-1]])
        while len(client.scheduler_info()["workers"]) > 2:
            time.sleep(0.01)

def test_info(cluster, get_cluster_info):
    coiled = SimpleNamespace(name="far", cluster_id=7, details_url="https://cloud/7")
    with get_cluster_info(cluster):
        pass
    with get_cluster_info(coiled):
        pass

def test_broken(cluster, benchmark_all, benchmark_memory):
    with Client(cluster.scheduler_address) as client:
        with benchmark_all(client):
            client.close()
    with benchmark_memory(SimpleNamespace(asynchronous=True)):
        pass

def test_error(client, benchmark_all):
    with benchmark_all(client):
        client.submit(lambda: 1 / 0, pure=False).result()
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """What the tests above leave: one cluster for all."""
    folder = tmp_path_factory.mktemp("suite")
    suite: Any = Suite(type("Place", (), {"path": folder})())  # type: ignore[arg-type]
    suite.write(TESTS)
    done = suite.run_apart()
    assert "11 passed" in done.stdout and "1 failed" in done.stdout, done.stdout + done.stderr
    found: dict[str, Record] = suite.records()
    return found


def value(record: Record, metric: str) -> float:
    found = record.metrics[metric].value
    assert isinstance(found, int | float)
    return found


def test_peaks_are_those_of_the_region(records: dict[str, Record]) -> None:
    peak, quiet = records["test_peak"], records["test_quiet_after_it"]
    # The average is what workers last told the scheduler, some of it before the region: as Coiled has it.
    assert value(peak, "kernel_peak_memory") > 200 * MIB
    assert value(quiet, "kernel_peak_memory") < value(peak, "kernel_peak_memory") - 100 * MIB
    for record in (peak, quiet):
        assert 50 * MIB < value(record, "average_memory") <= value(record, "peak_memory")
        for name in ("average_memory", "peak_memory", "kernel_peak_memory"):
            assert (record.metrics[name].unit, record.metrics[name].direction) == ("bytes", "lower")
        assert all(ONE_LOOK in text for text in record.warnings)  # on a busy machine there is time for two


def test_memory_is_what_coiled_measures(records: dict[str, Record]) -> None:
    record = records["test_sampled"]
    # The mean and the highest of the sums that the scheduler knew of, every half second.
    assert value(record, "peak_memory") == pytest.approx(value(record, "highest"), rel=0.1)
    assert value(record, "average_memory") == pytest.approx(value(record, "mean"), rel=0.15)
    assert value(record, "highest") > 200 * MIB and record.warnings == ()


def test_everything_has_all_columns(records: dict[str, Record]) -> None:
    record = records["test_peak"]
    assert {
        *("duration", "average_memory", "peak_memory", "compute_time", "disk_spill_time", "serializing_time"),
        *(
            "transfer_time",
            "scheduler_cpu_avg",
            "scheduler_memory_max",
            "worker_max_tick",
            "scheduler_max_tick",
        ),
    } <= set(record.metrics)
    assert value(record, "duration") >= 0.01 and value(record, "scheduler_memory_max") > 20 * MIB
    assert value(record, "worker_max_tick") > 0 and value(record, "scheduler_max_tick") > 0
    assert record.details["cluster_name"] == "two" and record.details["dask_version"]
    assert record.details["cluster_size"] == {"workers": 2, "threads": 2, "memory_bytes": 1024 * MIB}
    assert all(ONE_LOOK in text for text in record.warnings)


def test_time_goes_where_it_was_spent(records: dict[str, Record]) -> None:
    compute, transfer, spill = (records[f"test_{name}"] for name in ("compute", "transfer", "spill"))
    assert 0.29 <= value(compute, "compute_cpu_time") <= value(compute, "compute_time")
    assert value(compute, "transfer_time") == value(compute, "disk_spill_time") == 0
    assert value(transfer, "transfer_time") > 0 and value(transfer, "serializing_time") > 0
    assert value(spill, "disk_spill_time") > 0 and value(spill, "disk_spill_bytes") > 40 * MIB


def test_an_address_is_as_good_as_a_cluster(records: dict[str, Record]) -> None:
    record = records["test_address"]
    assert value(record, "compute_cpu_time") >= 0.045 and value(record, "peak_memory") > 50 * MIB
    assert record.details["cluster_name"].startswith("tcp://127.0.0.1:")
    assert all(ONE_LOOK in text for text in record.warnings)


def test_workers_that_come_count_and_those_that_go_are_named(records: dict[str, Record]) -> None:
    joining, leaving = records["test_joining"], records["test_leaving"]
    assert (
        value(joining, "kernel_peak_memory")
        > value(records["test_quiet_after_it"], "average_memory") + 60 * MIB
    )
    assert "benchmark_memory: 1 worker(s) left, so kernel_peak_memory is not known" in leaving.warnings
    assert "kernel_peak_memory" not in leaving.metrics and "peak_memory" in leaving.metrics


def test_clusters_tell_of_themselves(records: dict[str, Record]) -> None:
    details = records["test_info"].details
    names = ("cluster_name", "cluster_id", "cluster_details_url")
    assert [details[name] for name in names] == ["far", "7", "https://cloud/7"]


def test_a_collector_that_fails_is_a_warning(records: dict[str, Record]) -> None:
    broken = records["test_broken"]
    assert broken.status is Status.PASSED and "duration" in broken.metrics
    for name in ("benchmark_task_durations", "benchmark_memory", "benchmark_all"):
        assert any(text.startswith(f"{name}: ") for text in broken.warnings)
    assert any("not asynchronous" in text for text in broken.warnings)


def test_what_was_measured_before_an_error_stays(records: dict[str, Record]) -> None:
    record = records["test_error"]
    assert record.status is Status.FAILED and "ZeroDivisionError" in record.reason
    assert {"duration", "peak_memory", "compute_time"} <= set(record.metrics)


def test_threads_count_once_and_a_report_is_drawn(suite: Suite) -> None:
    suite.write(
        """
import os
import psutil
from distributed import Client, LocalCluster

def test_it(benchmark_all, benchmark_time, test_run_benchmark):
    with LocalCluster(n_workers=2, processes=False, dashboard_address=None) as cluster, Client(cluster) as client:
        with benchmark_time, benchmark_all(client):
            client.submit(int).result()
        test_run_benchmark.resident = psutil.Process().memory_info().rss
"""
    )
    done = suite.run_apart("--benchmark-profile", "dask")
    assert done.returncode == 0, done.stdout + done.stderr
    record = suite.record("test_it")
    assert value(record, "kernel_peak_memory") < 1.5 * value(record, "resident")
    page = Path(record.details["performance_report_url"])
    assert page.name == "performance-report.html" and "bokeh" in page.read_text().lower()
    assert len(record.metrics["duration"].samples) == 2
