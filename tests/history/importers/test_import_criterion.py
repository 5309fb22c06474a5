"""Criterion 0.3.6 of Debian wrote the stored tree; shapes of older and newer versions are made from it."""

import json
from pathlib import Path

import pytest

from history.importers.golden import FILES, copy_of, read_all, read_one, write_json
from paceline.errors import HistoryError
from paceline.history.importers import read, recognise

TREE = FILES / "criterion"
SMALL = "criterion/sorting/unstable/16"


def load(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_bytes())
    return found


def test_a_session_for_each_measurement_and_none_for_its_copy() -> None:
    assert recognise(TREE) == recognise(TREE / "sum 1000/new") == "criterion"
    batches = read_all(TREE)
    keys = [record.case.key for batch in batches for record in batch.records]
    assert keys == ["sorting/unstable[value=16]", "sorting/unstable[value=256]", "sum 1000"]
    assert len({batch.session.id for batch in batches}) == 3
    assert {batch.session.meta["baseline"] for batch in batches} == {"new"}


def test_times_of_one_iteration() -> None:
    _, records = read_one(FILES / SMALL / "new")
    record = records["sorting/unstable[value=16]"]
    sample = load(FILES / SMALL / "new/sample.json")
    assert isinstance(sample["times"], list) and isinstance(sample["iters"], list)
    duration = record.metrics["duration"]
    expected = [time / count for time, count in zip(sample["times"], sample["iters"], strict=True)]
    assert [value * 1e9 for value in duration.samples if isinstance(value, float)] == pytest.approx(expected)
    assert isinstance(duration.value, float)
    assert duration.value * 1e9 == pytest.approx(84.89154748808214)
    assert (duration.unit, duration.direction) == ("s", "lower")
    assert record.case.params == {"value": 16}
    assert record.details["estimates"]["slope"][0] == 849.5230303982779


def test_throughput() -> None:
    _, records = read_one(FILES / SMALL / "new")
    metrics = records["sorting/unstable[value=16]"].metrics
    throughput, duration = metrics["throughput"], metrics["duration"]
    assert (throughput.unit, throughput.direction) == ("elements/s", "higher")
    assert throughput.samples[0] == pytest.approx(16 / float(str(duration.samples[0])))


def test_a_measurement_is_known_wherever_it_went(tmp_path: Path) -> None:
    first, _ = read_one(FILES / SMALL / "new")
    moved = copy_of(f"{SMALL}/base", tmp_path).rename(tmp_path / "weekly")
    second, _ = read_one(moved)
    assert second.session.id == first.session.id


def test_an_earlier_measurement_is_another_session(tmp_path: Path) -> None:
    tree = copy_of(SMALL, tmp_path)
    base = load(tree / "base/sample.json")
    write_json(tree / "base/sample.json", {**base, "times": [1000.0 * number for number in range(1, 11)]})
    batches = read_all(tree)
    assert [batch.session.meta["baseline"] for batch in batches] == ["base", "new"]
    assert batches[0].session.id != batches[1].session.id


def test_without_samples_there_is_the_estimate(tmp_path: Path) -> None:
    new = copy_of(f"{SMALL}/new", tmp_path)
    (new / "sample.json").unlink()
    _, records = read_one(new)
    metrics = records["sorting/unstable[value=16]"].metrics
    assert metrics["duration"].value == pytest.approx(849.5230303982779e-9)
    assert metrics["duration"].samples == ()
    assert list(metrics) == ["duration"]


def test_flat_sampling_has_no_slope(tmp_path: Path) -> None:
    new = copy_of(f"{SMALL}/new", tmp_path)
    (new / "sample.json").unlink()
    write_json(new / "estimates.json", {**load(new / "estimates.json"), "slope": None})
    _, records = read_one(new)
    assert records["sorting/unstable[value=16]"].metrics["duration"].value == pytest.approx(
        595.8623678849367e-9
    )


def test_names_before_0_3(tmp_path: Path) -> None:
    new = copy_of(f"{SMALL}/new", tmp_path)
    estimates = load(new / "estimates.json")
    write_json(new / "estimates.json", {"Mean": estimates["mean"], "Slope": estimates["slope"]})
    write_json(new / "sample.json", [[1.0, 2.0], [100.0, 300.0]])
    _, records = read_one(new)
    record = records["sorting/unstable[value=16]"]
    assert record.metrics["duration"].samples == pytest.approx((100e-9, 150e-9))
    assert set(record.details["estimates"]) == {"mean", "slope"}


@pytest.mark.parametrize(
    ("throughput", "units"),
    [
        ({"Bytes": 1024}, {"throughput": "bytes/s"}),
        ({"BytesDecimal": 1024}, {"throughput": "bytes/s"}),
        ({"Bits": 8}, {"throughput": "bits/s"}),
        (
            {"ElementsAndBytes": {"elements": 2, "bytes": 16}},
            {"throughput": "elements/s", "throughput_bytes": "bytes/s"},
        ),
        ({"Parsecs": 3}, {}),
        (None, {}),
    ],
)
def test_kinds_of_throughput(tmp_path: Path, throughput: object, units: dict[str, str]) -> None:
    new = copy_of(f"{SMALL}/new", tmp_path)
    write_json(new / "benchmark.json", {**load(new / "benchmark.json"), "throughput": throughput})
    _, records = read_one(new)
    metrics = records["sorting/unstable[value=16]"].metrics
    assert {name: metric.unit for name, metric in metrics.items() if name != "duration"} == units


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({"iters": [1.0], "times": [1.0, 2.0]}, "has not one number of iterations for each time"),
        ({"iters": [0.0], "times": [1.0]}, "has not one number of iterations for each time"),
        ([[1.0]], "expected two lists"),
        ({"iters": [1.0]}, "times: is missing"),
    ],
)
def test_samples_that_make_no_sense(tmp_path: Path, sample: object, said: str) -> None:
    new = copy_of(f"{SMALL}/new", tmp_path)
    write_json(new / "sample.json", sample)
    with pytest.raises(HistoryError, match=f"sample.json: {said}"):
        list(read(new))
