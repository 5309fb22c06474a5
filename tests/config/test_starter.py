"""The starter suite loads, plans and really runs."""

import json
import subprocess
from pathlib import Path

import pytest

from paceline.cli.init import write_starter
from paceline.config.load import load
from paceline.errors import PacelineError
from paceline.model import Case
from paceline.plan import make_plan, plan_errors


def run_case(case: Case, run_dir: Path) -> subprocess.CompletedProcess[str]:
    run_dir.mkdir()
    argv = [case.at(word, run_dir) for word in case.argv]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def test_it_plans(tmp_path: Path) -> None:
    config, script = write_starter(tmp_path / "new" / "suite")
    assert config.name == "paceline.yaml"
    assert script.name == "example_benchmark.py"
    loaded = load([config])
    assert not loaded.warnings
    plan = make_plan(loaded, session="s", results_dir=tmp_path)
    assert [case.name for case in plan.cases] == [
        "sort[order=random,size=10000]",
        "sort[order=random,size=100000]",
        "sort[order=sorted,size=100000]",
        "interpreter_start",
    ]
    assert not plan_errors(plan)
    assert not plan.warnings


def test_its_commands_run_and_leave_metrics(tmp_path: Path) -> None:
    config, _ = write_starter(tmp_path)
    plan = make_plan(load([config]), session="s", results_dir=tmp_path)
    for i, case in enumerate(plan.cases):
        run_dir = tmp_path / f"run{i}"
        done = run_case(case, run_dir)
        assert done.returncode == 0, done.stderr
        if case.metrics_required:
            metrics = json.loads(Path(case.at(case.results_path, run_dir), "metrics.json").read_text())
            assert metrics["is_sorted"] is True


@pytest.mark.parametrize("name", ["paceline.yaml", "scripts/example_benchmark.py"])
def test_it_overwrites_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    with pytest.raises(PacelineError, match="exists already"):
        write_starter(tmp_path)
    assert path.read_text() == "mine"
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PacelineError, match="cannot write"):
        write_starter(tmp_path / "file")
