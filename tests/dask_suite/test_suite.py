"""The Dask suite runs: on clusters of its own and on a scheduler that is there, and stores what it measured."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from paceline.history.store.store import open_store
from patience import PATIENCE_S, wait_until

REPOSITORY = Path(__file__).parents[2]


def run_pytest(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *map(str, args)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)


def test_every_module_is_collected() -> None:
    done = run_pytest("benchmarks/dask", "--collect-only")
    assert done.returncode == 0, done.stdout + done.stderr
    modules = set(re.findall(r"benchmarks/dask/test_(\w+)\.py", done.stdout))
    assert modules == {
        *("array", "dataframe", "futures", "join", "parquet", "rechunk", "spill", "stealing", "tpch"),
    }
    assert len(re.findall(r"test_tpch\.py::test_\w+\[\d+\]", done.stdout)) == 66


def test_the_suite_does_not_hide_the_library() -> None:
    program = "import dask.dataframe; print(dask.__file__)"
    paths = f"{REPOSITORY}/benchmarks:{REPOSITORY}/tests:{REPOSITORY}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env={"PYTHONPATH": paths}, capture_output=True, text=True, timeout=120)
    assert "site-packages" in done.stdout, done.stderr


def test_a_scale_that_does_not_exist_is_refused() -> None:
    done = run_pytest("benchmarks/dask", "--dask-scale", "tiny", "--collect-only")
    assert done.returncode != 0
    assert "'tiny' is no scale: give smallest, small, medium, full" in done.stderr


@pytest.mark.dask
def test_results_are_stored_with_their_size(tmp_path: Path) -> None:
    database = tmp_path / "benchmark.db"
    names = ["test_array.py::test_double_diff", "test_tpch.py::test_dask[6]", "test_tpch.py::test_polars[6]"]
    tests = [f"benchmarks/dask/{name}" for name in names]
    done = run_pytest(*tests, "--benchmark", "--benchmark-db", database, "--dask-scale", "0.02")
    assert done.returncode == 0, done.stdout + done.stderr
    metrics = metrics_of(database)
    assert set(metrics) == {"test_double_diff", "test_dask[query=6]", "test_polars[query=6]"}
    memory_bytes = 2 * 2**30
    for found in metrics.values():
        assert found["duration"] > 0
        assert found["cluster_memory_bytes"] == memory_bytes
        assert found["cluster_threads"] == 2
    assert metrics["test_double_diff"]["data_bytes"] == pytest.approx(2 * 0.02 * memory_bytes, rel=0.1)
    assert metrics["test_dask[query=6]"]["tpch_scale"] == 0.01
    assert metrics["test_dask[query=6]"]["peak_memory"] > 0


def metrics_of(database: Path) -> dict[str, dict[str, float]]:
    """Every test's metrics, by its key without the path."""
    metrics: dict[str, dict[str, float]] = {}
    with open_store(database, create=False) as store:
        for series in store.iter_columns():
            [point] = series.points
            metrics.setdefault(series.case_key.rpartition("::")[2], {})[series.metric] = point.value
    return metrics


@pytest.mark.dask
def test_a_scheduler_that_is_running_is_used_and_left_running(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as (address, processes):
        tests = [
            "test_futures.py::test_memory_efficient",
            "test_join.py::test_shuffle",
            "test_stealing.py::test_scaling_up",
        ]
        done = run_pytest(
            *(f"benchmarks/dask/{name}" for name in tests),
            "--scheduler-address",
            address,
            "--dask-scale",
            "0.02",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "not ours to scale" in done.stdout
        assert all(process.poll() is None for process in processes)


@contextmanager
def running_cluster(place: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and a worker that do not see the repository, as on other machines."""
    told = place / "scheduler.json"
    with ExitStack() as stack:
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told)]
        scheduler = stack.enter_context(started(place, "scheduler", *options))
        wait_until(lambda: told.exists() and told.read_text())
        options = [
            "--scheduler-file",
            str(told),
            "--nthreads",
            "1",
            "--memory-limit",
            "1GiB",
            "--no-dashboard",
        ]
        worker = stack.enter_context(started(place, "worker", *options))
        yield json.loads(told.read_text())["address"], [scheduler, worker]


@contextmanager
def started(place: Path, what: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "dask", what, *options]
    with (place / f"{what}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
    try:
        yield process
    finally:
        family = [*psutil.Process(process.pid).children(recursive=True), process]
        process.terminate()
        process.wait(PATIENCE_S)
        for member in family[:-1]:
            member.wait(PATIENCE_S)
