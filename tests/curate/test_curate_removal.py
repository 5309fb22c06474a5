"""Removing documents by id, against a set."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
import numpy as np  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from paceline.curate import PipelineError  # noqa: E402
from paceline.curate.removal import IdList, read_ids  # noqa: E402

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)


def call(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False)


@settings(max_examples=100, deadline=None)
@given(
    listed=st.lists(st.one_of(st.integers(-50, 50), INT64)),
    ids=st.lists(st.one_of(st.integers(-50, 50), INT64)),
)
def test_integers_are_found_as_in_a_set(listed: list[int], ids: list[int]) -> None:
    mask = IdList([np.array(listed, dtype=np.int64)]).mark_integers(np.array(ids, dtype=np.int64))
    assert mask.tolist() == [one in set(listed) for one in ids]


def test_long_lists_are_searched() -> None:
    listed = IdList([np.arange(0, 1000, 2, dtype=np.int64)])
    assert listed.mark_integers(np.array([0, 999, 998, 7], dtype=np.int64)).tolist() == [
        True,
        False,
        True,
        False,
    ]


@given(
    listed=st.lists(st.one_of(st.integers(), st.text(max_size=3))),
    ids=st.lists(st.one_of(st.integers(), st.text(max_size=3))),
)
def test_ids_of_any_kind_are_found_as_in_a_set(listed: list[Any], ids: list[Any]) -> None:
    assert IdList([listed]).mark(ids).tolist() == [one in set(listed) for one in ids]


def test_a_list_with_a_bad_line_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "ids.jsonl").write_text('{"id": 1}\n{"id": null}\n')
    with pytest.raises(PipelineError, match="every id to remove must be readable"):
        read_ids(str(tmp_path / "ids.jsonl"), "id")


@pytest.mark.parametrize(("file_format", "string_ids"), [("jsonl", True), ("parquet", False)])
def test_the_benchmark_removes_exactly_the_listed(file_format: str, string_ids: bool, tmp_path: Path) -> None:
    made = call(
        BENCHMARKS / "data" / "make_documents.py",
        *("--output", tmp_path / "docs", "--documents", 400, "--files", 3, "--mean-words", 30),
        *("--format", file_format, "--ids-output", tmp_path / f"ids.{file_format}", "--remove-rate", 0.3),
        *(["--string-ids"] if string_ids else []),
    )
    assert made.returncode == 0, made.stderr
    ran = call(
        BENCHMARKS / "scripts" / "removal_benchmark.py",
        *(
            "--benchmark-results-path",
            tmp_path / "r",
            "--input-path",
            tmp_path / "docs",
            "--executor",
            "local",
        ),
        *("--ids-to-remove-path", tmp_path / f"ids.{file_format}", "--output-path", tmp_path / "out"),
        *("--id-field", "id", "--files-per-partition", 2),
    )
    assert ran.returncode == 0, ran.stderr
    listed = {document["id"] for document in read(tmp_path / f"ids.{file_format}")}
    before, after = read(tmp_path / "docs"), read(tmp_path / "out")
    assert after == [document for document in before if document["id"] not in listed]
    metrics = json.loads((tmp_path / "r" / "metrics.json").read_text())
    assert metrics["is_success"] is True
    counts = [metrics[f"num_{name}"] for name in ("input_documents", "output_documents", "removed")]
    assert counts == [400, 280, 120]
    assert (tmp_path / "r" / "tasks.pkl").exists() and (tmp_path / "r" / "params.json").exists()


def read(path: Path) -> list[dict[str, Any]]:
    files = (
        [path] if path.is_file() else sorted(file for file in path.iterdir() if not file.name.startswith("_"))
    )
    if files[0].suffix == ".parquet":
        return [document for file in files for document in pq.read_table(file).to_pylist()]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_ids_of_another_kind_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text('{"id": "7"}\n')
    (tmp_path / "ids.jsonl").write_text('{"id": 7}\n')
    words = ("--input-path", tmp_path / "docs.jsonl", "--ids-to-remove-path", tmp_path / "ids.jsonl")
    ran = call(
        BENCHMARKS / "scripts" / "removal_benchmark.py",
        *("--benchmark-results-path", tmp_path / "r", "--output-path", tmp_path / "out", *words),
    )
    assert ran.returncode == 1 and "none could match" in ran.stderr and "Traceback" not in ran.stderr
    assert json.loads((tmp_path / "r" / "metrics.json").read_text())["is_success"] is False
