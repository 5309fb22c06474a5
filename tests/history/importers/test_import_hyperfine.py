"""hyperfine 1.15 wrote the stored files of version 1; that of version 2 is made by its published schema."""

from pathlib import Path

import pytest

from history.importers.golden import FILES, load_json, read_one, write_json
from paceline.history.importers import recognise
from paceline.history.importers.values import number_or_text
from paceline.model import Status


@pytest.mark.parametrize("name", ["scan", "failing", "version-2"])
def test_it_is_recognised(name: str) -> None:
    assert recognise(FILES / f"hyperfine/{name}.json") == "hyperfine"


def test_a_scan_of_a_parameter() -> None:
    batch, records = read_one(FILES / "hyperfine/scan.json")
    assert list(records) == ["sleep 0.01[delay=0.01]", "sleep 0.02[delay=0.02]"]
    record = records["sleep 0.01[delay=0.01]"]
    first = load_json("hyperfine/scan.json")["results"][0]
    assert record.case.params == {"delay": 0.01}
    assert record.metrics["duration"].samples == tuple(first["times"])
    assert record.metrics["duration"].value == pytest.approx(first["median"])
    assert record.metrics["user_time"].value == first["user"]
    assert record.metrics["user_time"].samples == ()
    assert {metric.direction for metric in record.metrics.values()} == {"lower"}
    assert batch.session.started_at != ""
    assert batch.session.revision == ""


def test_runs_that_failed() -> None:
    _, records = read_one(FILES / "hyperfine/failing.json")
    broken = records["broken"]
    assert broken.status is Status.FAILED
    assert broken.reason == "3 of 3 runs ended with 1 instead of 0"
    assert len(broken.metrics["duration"].samples) == 3
    assert records["true"].status is Status.PASSED


def test_a_run_that_a_signal_ended(tmp_path: Path) -> None:
    data = load_json("hyperfine/failing.json")
    data["results"][1]["exit_codes"] = [0, None, 0]
    _, records = read_one(write_json(tmp_path / "signal.json", data))
    assert records["true"].reason == "1 of 3 runs ended with a signal instead of 0"


def test_memory_of_later_versions(tmp_path: Path) -> None:
    data = load_json("hyperfine/scan.json")
    data["results"][0]["memory_usage_byte"] = [1024, 2048, 4096, 2048]
    _, records = read_one(write_json(tmp_path / "memory.json", data))
    assert records["sleep 0.01[delay=0.01]"].metrics["peak_memory"].value == 2048


def test_a_file_without_times(tmp_path: Path) -> None:
    data = load_json("hyperfine/scan.json")
    del data["results"][0]["times"]
    _, records = read_one(write_json(tmp_path / "summary.json", data))
    duration = records["sleep 0.01[delay=0.01]"].metrics["duration"]
    assert (duration.value, duration.samples) == (data["results"][0]["median"], ())


def test_version_2() -> None:
    batch, records = read_one(FILES / "hyperfine/version-2.json")
    assert batch.session.started_at == "2026-10-20T08:15:30.000Z"
    assert batch.session.meta["version"] == "2.0.0"
    assert batch.environment["comparable"] == {"machine": "x86_64", "os": "linux"}
    good, failing = records.values()
    assert good.case.key == "sleep for 0.1 seconds[delay=0.1]"
    assert good.metrics["duration"].samples == (0.1012, 0.1018)
    assert good.metrics["user_time"].samples == (0.001, 0.0012)
    assert (good.metrics["peak_memory"].unit, good.metrics["peak_memory"].direction) == ("bytes", "lower")
    assert good.metrics["instructions"].direction == "lower"
    assert failing.reason == "1 of 2 runs ended with 1 instead of 0"


def test_the_same_numbers_are_the_same_session(tmp_path: Path) -> None:
    data = load_json("hyperfine/scan.json")
    first, _ = read_one(FILES / "hyperfine/scan.json")
    again, _ = read_one(write_json(tmp_path / "again.json", data))
    data["results"][0]["times"][0] += 0.001
    other, _ = read_one(write_json(tmp_path / "other.json", data))
    assert first.session.id == again.session.id != other.session.id


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("0.5", 0.5),
        ("010", "010"),
        ("1e3", "1e3"),
        ("x", "x"),
        ("", ""),
        ("nan", "nan"),
        (" 1", " 1"),
    ],
)
def test_parameters_that_are_numbers(text: str, value: object) -> None:
    assert number_or_text(text) == value
    assert type(number_or_text(text)) is type(value)
