"""Measurements as CSV, JSON and Parquet: the same rows in each."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from paceline.errors import HistoryError
from paceline.history import Store, open_store
from paceline.history.export import columns_of
from stored_records import ENVIRONMENT, measured, record, session


@pytest.fixture
def store(url: str) -> Any:
    with open_store(url) as opened:
        metrics = {
            "wall_s": measured(2.0, 1.0, 3.0),
            "note": measured('a "b", c\nd', unit=None, direction=None),
        }
        opened.add(session(1), ENVIRONMENT, [record("old", metrics=metrics), record("other")])
        opened.add(session(2), ENVIRONMENT, [record("new", 4.0, number=2)])
        opened.alias("old", "new")
        yield opened


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    found: list[dict[str, Any]] = (
        json.loads(path.read_text())
        if path.suffix == ".json"
        else pyarrow.parquet.read_table(path).to_pylist()
    )
    return found


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_all_rows_are_there(store: Store, tmp_path: Path, format_: str) -> None:
    path = tmp_path / f"all.{format_}"
    assert store.export(path) == 4
    rows = sorted(read(path), key=lambda row: (row["case_key"], row["metric"], row["session"]))
    assert [(row["case_key"], row["metric"], row["session"]) for row in rows] == [
        *(("new", "note", "night-1"), ("new", "wall_s", "night-1"), ("new", "wall_s", "night-2")),
        ("other", "wall_s", "night-1"),
    ]
    assert set(rows[0]) == set(columns_of(samples=False))
    assert rows[0]["text"] == 'a "b", c\nd' and rows[0]["value"] in (None, "")
    assert float(rows[1]["value"]) == 2.0 and int(rows[1]["sample_count"]) == 2
    assert rows[1]["environment_class"] == "class-1" and rows[1]["session_id"] == session(1).id
    assert [path.name for path in tmp_path.iterdir() if "all" in path.name] == [f"all.{format_}"]


def test_samples_and_selection(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    assert store.export(path, cases=["old"], metrics=["wall*"], samples=True) == 3
    assert [(row["sample"], float(row["value"])) for row in read(path)] == [
        ("0", 1.0),
        ("1", 3.0),
        ("0", 4.0),
    ]
    assert store.export(path, since="2026-01-03") == 1 and store.export(path, cases=["nothing"]) == 0
    assert read(path) == []


def test_an_empty_history_is_an_empty_table(url: str, tmp_path: Path) -> None:
    with open_store(url) as store:
        for name in ("x.json", "x.parquet"):
            assert store.export(tmp_path / name) == 0 and read(tmp_path / name) == []


def test_what_cannot_be_written(store: Store, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"cannot tell the format of .*all.*--format"):
        store.export(tmp_path / "all")
    with pytest.raises(HistoryError, match="cannot write"):
        store.export(tmp_path / "missing" / "all.csv")
    with pytest.raises(HistoryError, match="cannot write"):
        store.export(tmp_path / "missing" / "all.parquet")
