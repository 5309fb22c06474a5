"""pyperf 2.10 wrote the stored files; a run of the installed version is read as well."""

import subprocess
import sys
from pathlib import Path

from history.importers.golden import FILES, load_json, read_one, write_json
from paceline.history.importers import recognise
from paceline.model import Status

SUITE = FILES / "pyperf/suite.json"


def test_a_suite() -> None:
    assert recognise(SUITE) == "pyperf"
    batch, records = read_one(SUITE)
    assert batch.session.started_at == "2026-11-16T05:14:51.124Z"
    assert batch.session.meta["version"] == "2.10.0"
    assert sorted(records) == ["sort", "true"]


def test_values_of_all_processes_are_samples() -> None:
    _, records = read_one(SUITE)
    runs = load_json("pyperf/suite.json")["benchmarks"][0]["runs"]
    duration = records["sort"].metrics["duration"]
    assert duration.samples == tuple(value for run in runs for value in run["values"])
    assert (duration.unit, duration.direction) == ("s", "lower")
    assert records["sort"].details["samples_of_runs"] == [3, 3]
    assert records["sort"].details["warmups"] == [run["warmups"][0] for run in runs]
    assert records["sort"].details["loops"] == 100
    assert records["sort"].started_at == "2026-11-16T05:14:51.124Z"
    assert records["true"].started_at == "2026-11-16T05:14:56.494Z"


def test_peaks_of_memory() -> None:
    _, records = read_one(SUITE)
    assert records["sort"].metrics["peak_memory"].samples == (22274048, 22122496)
    assert records["true"].metrics["peak_memory"].samples == (12935168, 12939264)
    assert records["true"].metrics["peak_memory"].direction == "lower"


def test_the_machine() -> None:
    batch, _ = read_one(SUITE)
    assert batch.environment["comparable"] == {
        "cpu": "Example CPU @ 2.50GHz",
        "cpus": 4,
        "kernel": "6.1",
        "python": "3.11",
        "machine": "x86_64",
        "os": "Linux",
    }


def test_a_packed_part_of_it_is_the_same_session() -> None:
    whole, records = read_one(SUITE)
    packed, part = read_one(FILES / "pyperf/sort.json.gz")
    assert recognise(FILES / "pyperf/sort.json.gz") == "pyperf"
    assert packed.session.id == whole.session.id
    assert list(part) == ["sort"]
    assert part["sort"].metrics == records["sort"].metrics


def test_units_other_than_time(tmp_path: Path) -> None:
    data = load_json("pyperf/suite.json")
    data["benchmarks"][0]["metadata"]["unit"] = "byte"
    data["benchmarks"][1]["metadata"]["unit"] = "integer"
    _, records = read_one(write_json(tmp_path / "units.json", data))
    assert records["sort"].metrics["memory"].unit == "bytes"
    assert records["true"].metrics["value"].direction is None


def test_commits_that_pyperformance_names(tmp_path: Path) -> None:
    data = load_json("pyperf/suite.json")
    data["metadata"] |= {
        "commit_id": "abc1234",
        "commit_branch": "main",
        "commit_date": "2026-11-01 10:00:00+02:00",
    }
    batch, records = read_one(write_json(tmp_path / "commit.json", data))
    assert (batch.session.revision, batch.session.branch) == ("abc1234", "main")
    assert batch.session.commit_time == "2026-11-01T08:00:00.000Z"
    assert records["sort"].revision == "abc1234"


def test_a_benchmark_that_was_only_calibrated(tmp_path: Path) -> None:
    data = load_json("pyperf/suite.json")
    for run in data["benchmarks"][1]["runs"]:
        del run["values"]
    _, records = read_one(write_json(tmp_path / "calibrated.json", data))
    assert (records["true"].status, records["true"].reason) == (Status.FAILED, "pyperf kept no values of it")


def test_the_same_name_twice_is_another_attempt(tmp_path: Path) -> None:
    data = load_json("pyperf/suite.json")
    data["benchmarks"].append(data["benchmarks"][0])
    ((first, _, second),) = [
        list(batch.records) for batch in [read_one(write_json(tmp_path / "twice.json", data))[0]]
    ]
    assert (first.attempt, second.attempt) == (1, 2)


def test_what_the_installed_version_writes(tmp_path: Path) -> None:
    words = ["timeit", "-q", "--processes=1", "--values=2", "--warmups=1", "--loops=10", "--name=live"]
    command = [sys.executable, "-m", "pyperf", *words, "-o", "live.json.gz", "sum(range(10))"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    _, records = read_one(tmp_path / "live.json.gz")
    assert len(records["live"].metrics["duration"].samples) == 2
