"""A program with Debian's google-benchmark 1.7 wrote the stored files."""

from pathlib import Path

import pytest

from history.importers.golden import FILES, load_json, read_one, write_json
from paceline.errors import HistoryError
from paceline.history.importers import read, recognise
from paceline.model import Status

REPETITIONS, AGGREGATES = "google-benchmark/repetitions.json", "google-benchmark/aggregates.json"


def test_a_run() -> None:
    assert recognise(FILES / REPETITIONS) == "google-benchmark"
    batch, records = read_one(FILES / REPETITIONS)
    assert batch.session.started_at == "2026-11-16T05:15:44.000Z"
    assert batch.session.meta["executable"] == "bench"
    assert batch.session.revision == ""
    assert sorted(records) == [
        "BM_Broken",
        "BM_Copy[arg0=64]",
        "BM_Sort<double>[arg0=64,threads=2]",
        "BM_Sort<int>[size=64,spare=1]",
    ]


def test_repetitions_are_samples_in_seconds() -> None:
    _, records = read_one(FILES / REPETITIONS)
    rows = [row for row in load_json(REPETITIONS)["benchmarks"] if row["run_type"] == "iteration"]
    copy, sort = records["BM_Copy[arg0=64]"], records["BM_Sort<int>[size=64,spare=1]"]
    assert copy.metrics["duration"].samples == tuple(row["real_time"] * 1e-9 for row in rows[:3])
    assert sort.metrics["cpu_time"].samples == tuple(
        row["cpu_time"] * 1e-6 for row in rows if row["run_name"].startswith("BM_Sort<int>")
    )
    assert copy.case.params == {"arg0": 64}
    assert sort.details["label"] == "reversed"


def test_counters() -> None:
    _, records = read_one(FILES / REPETITIONS)
    copy, sort = records["BM_Copy[arg0=64]"].metrics, records["BM_Sort<int>[size=64,spare=1]"].metrics
    assert (copy["bytes_per_second"].unit, copy["bytes_per_second"].direction) == ("bytes/s", "higher")
    assert (sort["items_per_second"].unit, sort["items_per_second"].direction) == ("items/s", "higher")
    assert copy["copies"].direction is None
    assert set(copy) == {"duration", "cpu_time", "bytes_per_second", "copies"}


def test_an_error() -> None:
    _, records = read_one(FILES / REPETITIONS)
    broken = records["BM_Broken"]
    assert (broken.status, broken.reason) == (Status.FAILED, 'no data "here"')
    assert broken.metrics == {}


def test_aggregates_alone() -> None:
    batch, records = read_one(FILES / AGGREGATES)
    rows = {row["name"]: row for row in load_json(AGGREGATES)["benchmarks"]}
    assert batch.session.revision == "0123abc"
    assert sorted(records) == [
        *("BM_Copy[arg0=4096]", "BM_Copy[arg0=64]", "BM_Scale[arg0=64]", "BM_Scale[arg0=8]")
    ]
    metrics = records["BM_Copy[arg0=64]"].metrics
    assert metrics["duration"].value == rows["BM_Copy/64_median"]["real_time"] * 1e-9
    assert metrics["duration"].samples == ()
    assert metrics["duration_mean"].value == rows["BM_Copy/64_mean"]["real_time"] * 1e-9
    assert metrics["duration_std"].direction is None
    assert records["BM_Copy[arg0=64]"].details["repetitions"] == 3


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("BM_Plain", "BM_Plain"),
        ("BM_Map<std::map<int, int>/x>/8/16", "BM_Map<std::map<int, int>/x>[arg0=8,arg1=16]"),
        ("group/BM_x/n:-4/min_time:0.500/repeats:3/real_time", "group/BM_x/real_time[n=-4]"),
        ("8/9", "8[arg0=9]"),
        ("BM_x/ratio:0.5", "BM_x[ratio=0.5]"),
    ],
)
def test_arguments_in_names(tmp_path: Path, name: str, key: str) -> None:
    row = {"name": name, "run_name": name, "real_time": 1, "cpu_time": 1, "time_unit": "s"}
    _, records = read_one(write_json(tmp_path / "named.json", {"context": {}, "benchmarks": [row]}))
    assert list(records) == [key]


def test_a_unit_of_time_that_is_none(tmp_path: Path) -> None:
    data = load_json(REPETITIONS)
    data["benchmarks"][0]["time_unit"] = "days"
    path = write_json(tmp_path / "unit.json", data)
    with pytest.raises(HistoryError, match=r"benchmarks\[0\]: time_unit 'days' is no unit of time; "):
        list(read(path))


def test_a_benchmark_that_was_skipped(tmp_path: Path) -> None:
    row = {"name": "BM_x", "run_type": "iteration", "skipped": True, "skip_message": "no GPU"}
    _, records = read_one(write_json(tmp_path / "skipped.json", {"context": {}, "benchmarks": [row]}))
    assert (records["BM_x"].status, records["BM_x"].reason) == (Status.SKIPPED, "no GPU")


def test_the_clock_rate_makes_no_class(tmp_path: Path) -> None:
    data = load_json(REPETITIONS)
    data["context"] |= {"mhz_per_cpu": 800, "host_name": "other"}
    first, _ = read_one(FILES / REPETITIONS)
    other, _ = read_one(write_json(tmp_path / "other.json", data))
    assert first.environment["class_id"] == other.environment["class_id"]
