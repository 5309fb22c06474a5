"""The stored `data.js` is made by the schema that the action's source gives; it is on no registry to be run here."""

from pathlib import Path

import pytest

from history.importers.golden import FILES, read_all, write_json
from paceline.errors import HistoryError
from paceline.history.importers import recognise
from paceline.history.importers.github_action import read_script

DATA = FILES / "github-action-benchmark/data.js"


def test_a_session_for_each_point() -> None:
    assert recognise(DATA) == "github-action-benchmark"
    batches = read_all(DATA)
    assert [(batch.session.meta["suite"], batch.session.revision[-2:]) for batch in batches] == [
        *(("Python Benchmark", "a1"), ("Python Benchmark", "a2"), ("Rust Benchmark", "a1")),
        *(("Go Benchmark", "a1"), ("Sizes", "a1"), ("Sizes", "a2")),
    ]
    assert batches[0].session.started_at == "2026-01-01T09:00:00.000Z"
    assert batches[0].session.commit_time == "2026-01-01T08:00:00.000Z"
    assert len({batch.session.id for batch in batches}) == 6
    assert len({batch.environment["class_id"] for batch in batches}) == 1


def test_units_and_directions() -> None:
    found = {
        record.case.key: (name, metric.value, metric.unit, metric.direction)
        for batch in read_all(DATA)
        for record in batch.records
        for name, metric in record.metrics.items()
    }
    assert found == {
        "Python Benchmark/bench/test_sort.py::test_sort": ("ops", 43000.25, "iter/s", "higher"),
        "Rust Benchmark/bench_fib_10": ("duration", pytest.approx(135e-9), "s", "lower"),
        "Rust Benchmark/bench_fib_20": ("duration", pytest.approx(18149e-9), "s", "lower"),
        "Go Benchmark/BenchmarkCopy": ("duration", 0.0005, "s", "lower"),
        "Go Benchmark/BenchmarkCopy - MB/s": ("throughput", 812.5, "MB/s", "higher"),
        "Go Benchmark/BenchmarkCopy - B/op": ("value", 64, "B/op", "lower"),
        "Sizes/Hits": ("value", 97.5, "Percent", "higher"),
        "Sizes/Wheel": ("value", 250, "kB", "lower"),
    }


def test_what_is_said_of_the_spread_is_kept() -> None:
    (record,) = read_all(DATA)[0].records
    assert record.details["range"] == "stddev: 0.0000025"
    assert record.metrics["ops"].samples == ()


def test_no_person_is_imported() -> None:
    assert "somebody" not in str(read_all(DATA)).lower()


def test_the_same_as_json(tmp_path: Path) -> None:
    path = write_json(tmp_path / "data.json", read_script(DATA).data)
    assert recognise(path) == "github-action-benchmark"
    assert [batch.session.id for batch in read_all(path)] == [batch.session.id for batch in read_all(DATA)]


@pytest.mark.parametrize("text", ["window.BENCHMARK_DATA", "window.BENCHMARK_DATA = {"])
def test_a_torn_script(tmp_path: Path, text: str) -> None:
    path = tmp_path / "data.js"
    path.write_text(text)
    with pytest.raises(HistoryError, match=r"data\.js: (assigns nothing|is no complete JSON)"):
        read_all(path)


def test_another_script_is_none(tmp_path: Path) -> None:
    path = tmp_path / "app.js"
    path.write_text("window.x = {}")
    assert recognise(path) is None
