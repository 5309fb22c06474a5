"""What every way to start eval workers has to keep to: processes on this machine, and actors on a Ray cluster."""

import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    Clocks,
    ExecutorOptions,
    RetryPolicy,
)
from paceline.evals.results import ExecutionResults
from paceline.evals.stub_files import ATTEMPTS, DONE, PREDICTIONS
from ray_nodes import simulated_nodes

HAS_RAY = importlib.util.find_spec("ray") is not None
CLOCKS = Clocks(startup_timeout_s=120, stall_timeout_s=3, timeout_per_benchmark_s=300)


@pytest.fixture(
    scope="module",
    params=[
        "local",
        pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.skipif(not HAS_RAY, reason="no ray")]),
    ],
)
def on(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "local":
        yield "local"
        return
    with simulated_nodes({"num_cpus": 2}, {"num_cpus": 1, "num_gpus": 2}) as nodes:
        yield nodes.address


def execute(
    on: str, base: Path, script: Path, gpu_ids: list[Any], *, pause_s: float = 0, **params: Any
) -> ExecutionResults:
    options = ExecutorOptions(clocks=CLOCKS, retry=RetryPolicy(stall=20))
    executor = BenchmarkExecutor(gpu_ids, len(gpu_ids), base, options=options, on=on)
    return executor.run_benchmark_matrix(
        ["model"],
        [("dense", None)],
        [BenchmarkConfig("evals_parts:Tasks", params={"subsets": 6, "samples": 2, **params})],
        AdapterConfig("evals_parts:TornAdapter", model_kwargs={"script": str(script), "pause_s": pause_s}),
    )


def lines(base: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for path in base.rglob(name) for line in path.read_text().splitlines()]


def is_alive(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def test_faults_cost_attempts_and_nothing_is_left(on: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    (script / "loads").mkdir(parents=True)
    for fault in ("kill", "stop", "oom", "orphan"):
        (script / f"generate-{fault}").touch()
    results = execute(on, tmp_path / "results", script, ["cpu", "cpu"])
    assert results.execution_summary["completed"] == results.execution_summary["total"] == 6
    found = {attempt["fault"] for attempt in lines(tmp_path / "results", ATTEMPTS)}
    assert {"crash", "stall", "out_of_memory"} <= found
    assert any(
        "about to have the fault" in attempt["log_tail"] for attempt in lines(tmp_path / "results", ATTEMPTS)
    )
    pids = [
        int(path.name.partition("-")[0]) for path in (script / "loads").iterdir() if "orphan" not in path.name
    ]
    orphans = [int(path.name.partition("-")[2]) for path in (script / "loads").glob("orphan-*")]
    assert pids and orphans
    until = time.monotonic() + 120
    while any(map(is_alive, [*pids, *orphans])):
        assert time.monotonic() < until, "a worker, or what it started, outlives the execution"
        time.sleep(0.05)


def test_workers_see_the_gpu_they_were_given(on: str, tmp_path: Path) -> None:
    (tmp_path / "script").mkdir()
    results = execute(on, tmp_path / "results", tmp_path / "script", [0, 1])
    assert results.execution_summary["completed"] == 6
    seen = {line["extra"]["cuda"] for line in lines(tmp_path / "results", PREDICTIONS)}
    assert seen and seen <= {"0", "1"}


def test_a_second_execution_finds_the_results_of_the_first(on: str, tmp_path: Path) -> None:
    (tmp_path / "script").mkdir()
    first = execute(on, tmp_path / "results", tmp_path / "script", ["cpu"])
    second = execute(on, tmp_path / "results", tmp_path / "script", ["cpu"])
    assert (first.execution_summary["completed"], second.execution_summary["skipped"]) == (6, 6)
    places = [results.individual_results[0].result_dir for results in (first, second)]
    assert places[0] == places[1]


def busy_stubs(base: Path) -> int:
    return sum(not path.with_name(DONE).exists() for path in base.rglob(PREDICTIONS))


@pytest.mark.ray
@pytest.mark.skipif(not HAS_RAY, reason="no ray")
def test_stubs_of_a_node_that_dies_run_on_another(tmp_path: Path) -> None:
    (tmp_path / "script").mkdir()
    base = tmp_path / "results"
    with simulated_nodes({"num_cpus": 1}, {"num_cpus": 1}) as nodes:

        def kill_once_busy() -> None:
            """Two stubs at once are one on each node."""
            until = time.monotonic() + 120
            while busy_stubs(base) < 2 and time.monotonic() < until:
                time.sleep(0.05)
            nodes.kill(nodes.nodes[1])

        thread = threading.Thread(target=kill_once_busy)
        thread.start()
        results = execute(nodes.address, base, tmp_path / "script", ["cpu", "cpu"], samples=40, pause_s=0.05)
        thread.join()
    assert results.execution_summary["completed"] == 6
    assert "crash" in {attempt["fault"] for attempt in lines(base, ATTEMPTS)}
