"""The examples that need nothing else are run: the scripts by hand, the suite as a session."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.run.script_output import read
from workplace import Workplace

REPOSITORY = Path(__file__).parents[1]
DEMO = REPOSITORY / "benchmarks/scripts/test_benchmark.py"
MATRIX = REPOSITORY / "examples/scripts/matrix_benchmark.py"
SORT = REPOSITORY / "examples/scripts/sort_benchmark.sh"
QUICKSTART = REPOSITORY / "examples/quickstart.yaml"


def run_by_hand(*words: str | Path) -> None:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_demo_by_hand(tmp_path: Path) -> None:
    run_by_hand(sys.executable, DEMO, "--benchmark-results-path", tmp_path, "--iterations", "3")
    output = read(tmp_path)
    assert output.problems == ()
    assert output.params["iterations"] == 3
    assert output.metrics["is_success"] is True
    assert output.metrics["num_documents"] == 60
    assert output.metrics["task_data_loading_num_items_processed_sum"] == 60
    assert len(pickle.loads((tmp_path / "tasks.pkl").read_bytes())) == 6


@pytest.mark.parametrize("algorithm", ["naive", "transposed", "row_sums"])
def test_matrices_by_hand(tmp_path: Path, algorithm: str) -> None:
    words = ("--size", "12", "--algorithm", algorithm)
    run_by_hand(sys.executable, MATRIX, "--benchmark-results-path", tmp_path, *words)
    output = read(tmp_path)
    assert output.problems == ()
    assert output.params == {"size": 12, "algorithm": algorithm}
    assert output.metrics["is_success"] is True
    assert output.metrics["num_multiplications"] == 12**3
    assert output.units == {"multiply_time": "s"}


@pytest.mark.parametrize("form", ["--benchmark-results-path={}", "--benchmark-results-path {}"])
def test_sorting_by_hand(tmp_path: Path, form: str) -> None:
    run_by_hand(SORT, *form.format(tmp_path).split(), "--lines", "500")
    output = read(tmp_path)
    assert output.problems == ()
    assert output.params == {"lines": 500}
    assert output.metrics["is_success"] is True
    assert output.metrics["num_lines"] == 500


def test_sorting_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    done = subprocess.run([SORT, "--rows", "5"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "unknown argument: --rows" in done.stderr


def test_the_quickstart_passes(tmp_path: Path) -> None:
    done = Workplace(tmp_path).run("run", QUICKSTART, "--results-dir", tmp_path / "results", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["ok"]
    assert {record["status"] for record in report["records"]} == {"passed"}
