"""asv 0.6.6 wrote the stored files; a run of the installed version is read as well."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from git_commands import git
from history.importers.golden import FILES, copy_of, read_all, read_one
from paceline.errors import HistoryError
from paceline.history.importers import read, recognise
from paceline.model import Status

RESULT = next((FILES / "asv/testbox").glob("856623c7-*.json"))


def test_a_commit() -> None:
    assert recognise(FILES / "asv") == recognise(RESULT) == "asv"
    batch, records = read_one(FILES / "asv")
    session = batch.session
    assert session.revision == "856623c704a3279df469a48e56b0af913a71a289"
    assert session.commit_time == "2026-11-16T05:15:00.000Z"
    assert session.started_at == "2026-11-16T05:15:07.626Z"
    assert len(records) == 11
    assert {record.case.variant for record in records.values()} == {None}


def test_cells_of_a_benchmark() -> None:
    _, records = read_one(FILES / "asv")
    cells = {
        (record.case.params["size"], record.case.params["kind"]): record
        for key, record in records.items()
        if key.startswith("sorting.Sorting.time_sort")
    }
    assert sorted(cells) == [(10, "list"), (10, "tuple"), (1000, "list"), (1000, "tuple")]
    first = cells[10, "list"]
    assert first.metrics["duration"].samples == (4.338000508141704e-06,)
    assert (first.metrics["duration"].unit, first.metrics["duration"].direction) == ("s", "lower")
    assert first.case.version == "24776e5fdb3b33e5f5b2b58ce8257fa68d644bc85fddceb5b8e0555ea7d66f6f"
    assert first.details["source"].startswith("class Sorting:")
    skipped = cells[1000, "tuple"]
    assert skipped.status is Status.SKIPPED
    assert "its setup said that it does not apply" in skipped.reason
    assert skipped.metrics == {}


def test_kinds_of_benchmarks() -> None:
    _, records = read_one(FILES / "asv")
    memory, peak = records["sorting.mem_list"], records["sorting.peakmem_list"]
    length = records["sorting.Sorting.track_length[kind=list,size=10]"]
    assert (memory.metrics["memory"].value, memory.metrics["memory"].unit) == (856, "bytes")
    assert (peak.metrics["peak_memory"].value, peak.metrics["peak_memory"].direction) == (37535744, "lower")
    assert (length.metrics["value"].value, length.metrics["value"].unit) == (20, "elements")
    assert length.metrics["value"].direction is None
    assert length.metrics["value"].samples == (20,)


def test_a_failure() -> None:
    _, records = read_one(FILES / "asv")
    broken = records["sorting.time_broken"]
    assert (broken.status, broken.metrics) == (Status.FAILED, {})
    assert broken.reason == "asv has no result: the benchmark failed or took too long"


def test_the_machine_is_known_by_its_name(tmp_path: Path) -> None:
    batch, _ = read_one(FILES / "asv")
    assert batch.environment["comparable"] == {
        "machine_name": "testbox",
        "cpu": "Example CPU @ 2.50GHz",
        "cpus": 4,
        "memory_gib": 16,
        "os": "Linux 6.1",
    }
    other = copy_of("asv", tmp_path)
    machine = other / "testbox/machine.json"
    machine.write_text(machine.read_text().replace("testbox", "other"))
    second, _ = read_one(other)
    assert second.environment["class_id"] != batch.environment["class_id"]
    assert second.session.id != batch.session.id


def change_result(root: Path, **changes: object) -> None:
    path = root / "testbox" / RESULT.name
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_matrix_makes_variants_and_classes(tmp_path: Path) -> None:
    root = copy_of("asv", tmp_path)
    change_result(root, python="3.12", requirements={"numpy": "2.1", "cython": ""}, env_vars={"THREADS": "1"})
    batch, records = read_one(root)
    assert {record.case.variant for record in records.values()} == {"THREADS=1,cython=,numpy=2.1"}
    assert batch.environment["comparable"]["python"] == "3.12"


def test_a_benchmark_that_failed_as_a_whole(tmp_path: Path) -> None:
    root = copy_of("asv", tmp_path)
    results = json.loads(RESULT.read_text())["results"]
    results["sorting.Sorting.time_sort"][0] = None
    change_result(root, results=results)
    _, records = read_one(root)
    cells = [record for key, record in records.items() if "time_sort" in key]
    assert [record.status for record in cells] == [Status.FAILED] * 4


def test_a_file_alone_has_no_names_of_parameters(tmp_path: Path) -> None:
    alone = tmp_path / "machine" / RESULT.name
    alone.parent.mkdir()
    shutil.copy(RESULT, alone)
    batch, records = read_one(alone)
    assert "sorting.Sorting.time_sort[param1=10,param2=list]" in records
    assert batch.environment["comparable"]["machine_name"] == "testbox"


def test_the_format_before(tmp_path: Path) -> None:
    old = {
        "commit_hash": "abc1234",
        "date": 1500000000000,
        "params": {"machine": "testbox", "python": "3.6"},
        "python": "3.6",
        "requirements": {},
        "results": {
            "time_plain": 0.5,
            "time_failed": None,
            "time_cells": {"result": [0.25, None], "params": [["1", "2"]], "samples": [[0.2, 0.3], None]},
        },
        "version": 1,
    }
    path = tmp_path / "abc1234-py3.6.json"
    path.write_text(json.dumps(old))
    _, records = read_one(path)
    assert {key: record.status.value for key, record in records.items()} == {
        "time_plain": "passed",
        "time_failed": "failed",
        "time_cells[param1=1]": "passed",
        "time_cells[param1=2]": "failed",
    }
    assert records["time_cells[param1=1]"].metrics["duration"].samples == (0.2, 0.3)


def test_too_many_cells(tmp_path: Path) -> None:
    root = copy_of("asv", tmp_path)
    axis = [str(number) for number in range(100)]
    change_result(root, result_columns=["result", "params"], results={"time_x": [None, [axis] * 9]})
    with pytest.raises(HistoryError, match="more than 100,000 combinations"):
        list(read(root / "testbox" / RESULT.name))


def test_a_damaged_neighbour_is_named(tmp_path: Path) -> None:
    root = copy_of("asv", tmp_path)
    (root / "benchmarks.json").write_text("{")
    with pytest.raises(HistoryError, match=r"benchmarks\.json: is no complete JSON"):
        list(read(root / "testbox" / RESULT.name))


def test_a_rerun_of_the_same_commit_is_the_same_session(tmp_path: Path) -> None:
    root = copy_of("asv", tmp_path)
    results = json.loads(RESULT.read_text())["results"]
    results["sorting.mem_list"][0] = [999]
    change_result(root, results=results)
    (first,), (second,) = read_all(FILES / "asv"), read_all(root)
    assert first.session.id == second.session.id


@pytest.mark.skipif(shutil.which("git") is None, reason="asv needs git")
def test_what_the_installed_version_writes(tmp_path: Path) -> None:
    suite = tmp_path / "benchmarks/live.py"
    suite.parent.mkdir()
    suite.write_text("def track_live(n):\n    return n * 2\ntrack_live.params = [1, 2]\n")
    (suite.parent / "__init__.py").touch()
    config = {
        "version": 1,
        "project": "live",
        "repo": ".",
        "branches": ["main"],
        "environment_type": "existing",
    }
    (tmp_path / "asv.conf.json").write_text(
        json.dumps({**config, "benchmark_dir": "benchmarks", "results_dir": "out"})
    )
    environ = {**os.environ, "HOME": str(tmp_path), "GIT_CONFIG_GLOBAL": os.devnull}

    def run(*words: str) -> None:
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, done.stdout + done.stderr

    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    facts = {"machine": "live", "os": "x", "arch": "x", "cpu": "x", "num_cpu": "2", "ram": "1"}
    (tmp_path / ".asv-machine.json").write_text(json.dumps({"live": facts, "version": 1}))
    quick = ("--quick", "--launch-method=forkserver", "-E", f"existing:{sys.executable}")
    run(sys.executable, "-m", "asv", "run", "--machine=live", *quick, "--set-commit-hash=HEAD")
    batch, records = read_one(tmp_path / "out")
    assert len(batch.session.revision) == 40
    assert {key: record.metrics["value"].value for key, record in records.items()} == {
        "live.track_live[param1=1]": 2,
        "live.track_live[param1=2]": 4,
    }


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("suite.time_x", "duration"),
        ("suite.TimeSuite.TimeSort", "duration"),
        ("suite.timeraw_x", "duration"),
        ("suite.mem_x", "memory"),
        ("suite.PeakMemList", "peak_memory"),
        ("suite.track_time_x", "value"),
        ("timely", "value"),
    ],
)
def test_kinds_by_name_where_nothing_else_tells(tmp_path: Path, name: str, metric: str) -> None:
    data = {"commit_hash": "abc1234", "params": {}, "results": {name: [[1.5]]}, "result_columns": ["result"]}
    path = tmp_path / "abc1234.json"
    path.write_text(json.dumps(data))
    _, records = read_one(path)
    assert list(records[name].metrics) == [metric]


def test_the_source_of_another_version_is_not_its_source(tmp_path: Path) -> None:
    root = copy_of("asv", tmp_path)
    results = json.loads(RESULT.read_text())["results"]
    results["sorting.mem_list"][2] = "0" * 64
    change_result(root, results=results)
    _, records = read_one(root)
    assert "source" not in records["sorting.mem_list"].details
    assert "source" in records["sorting.peakmem_list"].details
