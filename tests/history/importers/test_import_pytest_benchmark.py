"""pytest-benchmark 5.3 wrote the stored files; a run of the installed version is read as well."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from history.importers.golden import FILES, load_json, read_all, read_one, write_json
from paceline.history.importers import recognise

RUN = FILES / "pytest-benchmark/run.json"


def test_a_run() -> None:
    assert recognise(RUN) == "pytest-benchmark"
    batch, records = read_one(RUN)
    session = batch.session
    assert (session.tool, session.kind) == ("pytest-benchmark", "import")
    assert session.revision == "482edbe38aae3e134d7d7f48ecfafc23cb9d4c34"
    assert (session.branch, session.commit_time) == ("main", "2026-11-16T05:14:32.000Z")
    assert session.started_at == "2026-11-16T05:14:35.405Z"
    assert session.name == f"pytest-benchmark-20261116-051435-{session.id[:6]}"
    assert sorted(records) == [
        "test_text.py::TestJoin::test_join",
        *(
            f"test_text.py::test_sort[kind={kind},size={size}]"
            for kind in ("list", "tuple")
            for size in (1000, 10)
        ),
    ]


def test_samples_and_parameters() -> None:
    _, records = read_one(RUN)
    record = records["test_text.py::test_sort[kind=list,size=10]"]
    stats = load_json("pytest-benchmark/run.json")["benchmarks"][0]["stats"]
    duration = record.metrics["duration"]
    assert duration.samples == tuple(stats["data"])
    assert duration.value == stats["median"]
    assert (duration.unit, duration.direction) == ("s", "lower")
    assert list(record.metrics) == ["duration"]
    assert record.case.params == {"kind": "list", "size": 10}
    assert record.params == {"kind": "list", "size": 10, "elements": 10}
    assert record.details["test_name"] == "test_sort[list-10]"
    assert record.details["original_name"] == "test_sort"
    assert (record.details["rounds"], record.details["iterations"]) == (5, 2)
    assert record.revision == "482edbe38aae3e134d7d7f48ecfafc23cb9d4c34"


def test_the_machine() -> None:
    batch, _ = read_one(RUN)
    assert batch.environment["hostname"] == "box"
    assert batch.environment["comparable"] == {
        "cpu": "Example CPU @ 2.50GHz",
        "cpus": 4,
        "kernel": "6.1",
        "python": "3.11",
        "machine": "x86_64",
        "os": "Linux",
    }


def test_a_file_without_samples_has_the_summaries() -> None:
    _, records = read_one(FILES / "pytest-benchmark/0001_plain.json")
    metrics = records["test_text.py::test_sort[kind=list,size=10]"].metrics
    assert list(metrics) == ["duration", "duration_min", "duration_mean", "duration_max", "duration_std"]
    assert metrics["duration"].samples == ()
    assert metrics["duration_min"].direction == "lower"
    assert metrics["duration_std"].direction is None


@pytest.mark.parametrize(
    ("change", "same_machine"),
    [
        ({"node": "other-box"}, True),
        ({"release": "6.1.0-99-amd64"}, True),
        ({"python_version": "3.11.9"}, True),
        ({"python_version": "3.13.0"}, False),
        ({"machine": "aarch64"}, False),
        ({"python_implementation": "PyPy"}, False),
        ({"cpu": {"brand_raw": "Other CPU", "count": 4}}, False),
    ],
)
def test_what_makes_another_class_of_machine(
    tmp_path: Path, change: dict[str, object], same_machine: bool
) -> None:
    data = load_json("pytest-benchmark/run.json")
    data["machine_info"] |= change
    other, _ = read_one(write_json(tmp_path / "other.json", data))
    first, _ = read_one(RUN)
    assert (other.environment["class_id"] == first.environment["class_id"]) is same_machine
    assert other.environment["id"] != first.environment["id"]


def test_a_repository_that_is_unknown(tmp_path: Path) -> None:
    data = load_json("pytest-benchmark/run.json")
    data["commit_info"] |= {"id": "unversioned", "time": None, "branch": "(unknown)"}
    batch, _ = read_one(write_json(tmp_path / "other.json", data))
    assert (batch.session.revision, batch.session.branch, batch.session.commit_time) == ("", "", "")


def test_runs_without_a_time_are_told_apart_by_their_numbers(tmp_path: Path) -> None:
    data = load_json("pytest-benchmark/run.json")
    del data["datetime"]
    first = read_all(write_json(tmp_path / "a.json", data))
    again = read_all(write_json(tmp_path / "b.json", data))
    data["benchmarks"][0]["stats"]["data"][0] *= 2
    other = read_all(write_json(tmp_path / "c.json", data))
    assert first[0].session.id == again[0].session.id != other[0].session.id
    assert first[0].session.started_at != ""


def test_what_the_installed_version_writes(tmp_path: Path) -> None:
    test = tmp_path / "test_live.py"
    test.write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('size', [1, 2])\n"
        "def test_live(benchmark, size):\n"
        "    benchmark.pedantic(sum, ([0] * size,), rounds=4)\n"
    )
    words = ["-q", "-p", "no:cacheprovider", "--benchmark-json=live.json", "--rootdir=.", test.name]
    # Inside a worker of these tests pytest-benchmark would take itself for one and not measure.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", *words]
    subprocess.run(command, cwd=tmp_path, env=environ, check=True, capture_output=True, timeout=120)
    _, records = read_one(tmp_path / "live.json")
    assert sorted(records) == ["test_live.py::test_live[size=1]", "test_live.py::test_live[size=2]"]
    assert all(len(record.metrics["duration"].samples) == 4 for record in records.values())
