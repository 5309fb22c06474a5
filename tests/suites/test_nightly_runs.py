"""Some entries of the nightly suite run through; the others are looked at by their plan."""

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from workplace import Workplace

REPOSITORY = Path(__file__).parents[2]
BENCHMARKS = REPOSITORY / "benchmarks"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_documents_and_judges_pass_in_a_session(place: Workplace) -> None:
    """Counts and checksums are met, and the second set-up finds the data of the first."""
    chosen = ("--only", "removal_smoke,exact_dedup_smoke[executor=local*]")
    fixed = ("--results-dir", "results", "--session-name", "s", "--no-history")
    done = place.run(
        "run", BENCHMARKS / "nightly.yaml", *chosen, *fixed, PACELINE_BENCHMARK_DATA=str(place.path / "data")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    records = place.records("s")
    assert {name.partition("[")[0]: one["status"] for name, one in records.items()} == {
        "removal_smoke": "passed",
        "exact_dedup_smoke": "passed",
    }
    assert [path.name for path in (place.path / "data").iterdir() if path.is_dir()] == ["documents_2000"]


@pytest.mark.parametrize(
    ("script", "words", "figures"),
    [
        ("bisect_search.py", ("--searches", "1"), 8),
        ("suspicion.py", ("--series", "1"), 6),
        ("ab_accuracy.py", ("--experiments", "1"), 9),
        ("findings_scale.py", ("--cases", "2", "--nights", "12"), 5),
        ("judge_accuracy.py", ("--seed", "1", "--count", "1", "--only", "changes"), 3),
    ],
)
def test_own_benchmarks_tell_their_figures(
    tmp_path: Path, script: str, words: tuple[str, ...], figures: int
) -> None:
    command = [sys.executable, str(BENCHMARKS / script), *words, "--benchmark-results-path", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    metrics: dict[str, Any] = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["is_success"] is True and metrics["num_figures"] == figures


def test_a_bound_decides_by_hand_and_not_in_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = load(BENCHMARKS / "figures.py")
    row = figures.Row(what="planning", metric="plan_overhead", figure=3.0, bound=2, unit="x", detail="CPU")
    monkeypatch.delenv("PACELINE_RESULTS_PATH", raising=False)
    by_hand = argparse.Namespace(benchmark_results_path=None)
    assert figures.finish(by_hand, [row]) == 1
    assert "OVER" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("PACELINE_RESULTS_PATH", str(tmp_path))
    assert figures.finish(by_hand, [row], num_entries=7) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics == {"plan_overhead": 3.0, "is_success": True, "num_figures": 1, "num_entries": 7}


@pytest.mark.dask
def test_a_dask_module_is_one_case(tmp_path: Path) -> None:
    words = ("--modules", "futures", "--tests", "single_future", "--scale", "0.02")
    command = [sys.executable, BENCHMARKS / "dask_suite.py", "--benchmark-results-path", tmp_path, *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["num_tests"] == 1 and metrics["single_future.duration"] > 0
