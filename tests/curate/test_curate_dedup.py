"""Exact deduplication, against a dict of texts."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
import numpy as np  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from paceline.curate import Task  # noqa: E402
from paceline.curate.dedup import TextHashStage, first_of_each, rows_to_drop, text_bytes  # noqa: E402
from paceline.curate.documents import LineDocuments, Source, TableDocuments  # noqa: E402

SCRIPTS = Path(__file__).parents[2] / "benchmarks" / "scripts"
SOURCE = Source(name="a", path="a", start=0, whole=True)


def call(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script), *map(str, words)], capture_output=True, text=True, check=False
    )


def naive(items: list[Any]) -> list[int]:
    first: dict[Any, int] = {}
    return [first.setdefault(item, place) for place, item in enumerate(items)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3))))
def test_the_first_of_each_is_that_of_a_dict(pairs: list[tuple[int, int]]) -> None:
    hashes = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    assert first_of_each(hashes).tolist() == naive(pairs)


def batches(texts: list[str]) -> list[LineDocuments | TableDocuments]:
    records = [{"id": place, "text": text} for place, text in enumerate(texts)]
    kinds = (pa.string(), pa.large_string())
    tables = [pa.table({"id": pa.array(range(len(texts))), "text": pa.array(texts, kind)}) for kind in kinds]
    lines = LineDocuments(lines=[None] * len(texts), records=records, source=SOURCE)
    return [lines, *(TableDocuments(table=table, source=SOURCE) for table in tables)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["", "a", "A", "ä", "a ", "日本"]), max_size=12), st.integers(0, 5))
def test_all_kinds_of_batches_hash_alike(texts: list[str], skip: int) -> None:
    stage = TextHashStage(text_field="text", id_field="id")
    mask = np.arange(len(texts)) >= skip
    for documents in batches(texts):
        left = documents.keep(mask)
        assert first_of_each(stage.process(Task(data=left)).data.values).tolist() == naive(texts[skip:])
        data, offsets = text_bytes(left, "text")
        cut = [data[a:b].tobytes().decode() for a, b in pairwise(offsets)]
        assert cut == texts[skip:]


def test_rows_are_told_by_batch() -> None:
    stage = TextHashStage(text_field="text", id_field="id")
    parts = []
    for start, texts in enumerate((["a", "b"], ["c"], ["b", "a", "d"])):
        source = Source(name="a", path="a", start=start, whole=False)
        table = pa.table({"id": texts, "text": texts})
        parts.append(stage.process(Task(data=TableDocuments(table=table, source=source))).data)
    kept = first_of_each(np.concatenate([part.values for part in parts]))
    assert {key: rows.tolist() for key, rows in rows_to_drop(parts, kept).items()} == {("a", 2): [0, 1]}


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
def test_the_benchmark_keeps_the_first_of_each_text(file_format: str, tmp_path: Path) -> None:
    texts = [f"text {number * 7 % 30}" for number in range(90)]
    documents = [{"id": f"d{n}", "text": text, "n": n} for n, text in enumerate(texts)]
    (tmp_path / "in").mkdir()
    for part in range(3):
        some = documents[part * 30 : part * 30 + 30]
        if file_format == "parquet":
            pq.write_table(pa.Table.from_pylist(some), tmp_path / "in" / f"{part}.parquet", row_group_size=7)
        else:
            lines = "".join(json.dumps(document) + "\n" for document in some)
            (tmp_path / "in" / f"{part}.jsonl").write_text(lines + '{"id": 1}\n')
    words = ("--benchmark-results-path", tmp_path / "r", "--input-path", tmp_path / "in", "--output-path")
    ran = call("exact_dedup_benchmark.py", *words, tmp_path / "out", "--executor", "local")
    assert ran.returncode == 0, ran.stderr
    first = naive(texts)
    expected = [document for n, document in enumerate(documents) if first[n] == n]
    assert read(tmp_path / "out", file_format) == expected
    listed = pq.read_table(tmp_path / "out" / "_duplicates.parquet").to_pylist()
    assert listed == [{"id": f"d{n}", "kept_id": f"d{first[n]}"} for n in range(90) if first[n] != n]
    metrics = json.loads((tmp_path / "r" / "metrics.json").read_text())
    rejected = 3 if file_format == "jsonl" else 0
    assert (metrics["num_duplicates"], metrics["num_duplicate_groups"]) == (60, 30)
    assert (metrics["num_input_documents"], metrics["num_output_documents"]) == (90 + rejected, 30)
    assert metrics["num_rejected"] == rejected
    again = call("exact_dedup_benchmark.py", *words, tmp_path / "out", "--identify-only")
    assert again.returncode == 0, again.stderr
    assert [file.name for file in (tmp_path / "out").iterdir() if file.name[0] not in "_."] == []


def read(path: Path, file_format: str) -> list[dict[str, Any]]:
    files = sorted(file for file in path.glob(f"*.{file_format}") if not file.name.startswith("_"))
    if file_format == "parquet":
        return [document for file in files for document in pq.read_table(file).to_pylist()]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
