"""The document pipelines beside other ways to do the same work, in one run: equality first, then ratios of CPU time.

    pip install datasketch duckdb polars pandas ftfy
    python benchmarks/peers/curation_documents.py --documents 20000 [--peer-venv peer]

The peer's environment is that of `curation.py --setup`; without it the heuristic filters are compared with plain code
only, and removal with copying.
Everything runs in one process with one thread, each pair three times in turn; the middle times are shown.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from plain_text import CHANGES, SCORES

from paceline.curate import LocalExecutor, Pipeline
from paceline.curate.dedup import TextHashStage, first_of_each
from paceline.curate.minhash import MinHasher
from paceline.curate.readers import DocumentReader
from paceline.curate.removal import RemovalStage
from paceline.curate.shingles import shingle
from paceline.curate.text_filters import HEURISTIC_FILTERS, judge
from paceline.curate.text_modifiers import MODIFIERS
from paceline.curate.text_scores import TextScorer
from paceline.curate.writers import DocumentWriterStage

HERE = Path(__file__).parent
MAKE = HERE.parent / "data" / "make_documents.py"
ROUNDS = 3
SAMPLE = 1000
Row = tuple[str, float, float]


def main() -> int:
    args = parse_args()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        words = ["--output", work / "docs", "--ids-output", work / "ids.parquet", "--format", "parquet"]
        subprocess.run(
            [sys.executable, *map(str, [MAKE, *words, "--documents", args.documents, "--seed", 1])],
            check=True,
        )
        rows = list(compare(work, args.peer_venv))
    print("| what | other CPU s | ours CPU s | other / ours |\n|---|---|---|---|")
    for what, other_s, ours_s in rows:
        print(f"| {what} | {other_s:.3f} | {ours_s:.3f} | {other_s / ours_s:.2f} |")
    return 0


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="compare the document pipelines with others")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--peer-venv", type=Path, help="an environment with nemo-curator")
    return parser.parse_args()


def compare(work: Path, peer_venv: Path | None) -> Iterator[Row]:
    yield from compare_removal(work, peer_venv)
    yield from compare_exact(work)
    texts: list[str] = pq.read_table(work / "docs", columns=["text"])["text"].to_pylist()
    yield compare_minhash(texts[:SAMPLE])
    yield from compare_filters(texts[:SAMPLE], work, peer_venv)
    yield compare_modifiers(texts[:SAMPLE])


def pair(what: str, other: Callable[[], Any], ours: Callable[[], Any]) -> Row:
    """Middle CPU times of both, made in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for place, work in enumerate((other, ours)):
            started = time.process_time()
            work()
            times[place].append(time.process_time() - started)
    return what, median(times[0]), median(times[1])


def must(condition: bool, what: str) -> None:
    if not condition:
        sys.exit(f"{what}: results differ")


def compare_removal(work: Path, peer_venv: Path | None) -> Iterator[Row]:
    def ours() -> None:
        shutil.rmtree(work / "ours", ignore_errors=True)
        stages = [
            DocumentReader(str(work / "docs"), id_field="id"),
            RemovalStage(str(work / "ids.parquet"), id_field="id"),
            DocumentWriterStage(str(work / "ours")),
        ]
        Pipeline("removal", stages).run(LocalExecutor(workers=1))

    def copy() -> None:
        (work / "copy").mkdir(exist_ok=True)
        for file in sorted((work / "docs").iterdir()):
            pq.write_table(pq.read_table(file, use_threads=False), work / "copy" / file.name)

    ours()
    listed = set(pq.read_table(work / "ids.parquet")["id"].to_pylist())
    before = pq.read_table(work / "docs")
    expected = before.filter(pa.array([one not in listed for one in before["id"].to_pylist()]))
    must(pq.read_table(work / "ours").equals(expected), "removal")
    yield pair("removal / reading and writing the same Parquet", copy, ours)
    if peer_venv is not None:
        words = ("removal", work / "docs", work / "ids.parquet", work / "theirs")
        runs = [run_peer(peer_venv, *words) for _ in range(ROUNDS)]
        must(runs[0]["documents"] == len(expected), "removal and the peer's")
        yield "removal / NeMo Curator's", median(run["cpu_s"] for run in runs), pair("", int, ours)[2]


def run_peer(venv: Path, *words: object) -> dict[str, Any]:
    command = [venv / "bin" / "python", HERE / "nemo_curator_text.py", *words]
    said = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return found


def compare_exact(work: Path) -> Iterator[Row]:
    import duckdb
    import polars

    files = str(work / "docs" / "*.parquet")
    query = (
        "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY text ORDER BY id) AS place "
        f"FROM read_parquet('{files}')) WHERE place > 1 ORDER BY id"
    )

    def ours() -> list[int]:
        stages = [
            DocumentReader(str(work / "docs"), id_field="id", text_field="text", columns=["id", "text"]),
            TextHashStage(text_field="text", id_field="id"),
        ]
        parts = [task.data for task in Pipeline("exact", stages).run(LocalExecutor(workers=1))]
        kept = first_of_each(np.concatenate([part.values for part in parts]))
        ids = pa.concat_arrays([part.ids for part in parts])
        found: list[int] = ids.filter(pa.array(kept != np.arange(len(kept)))).to_pylist()
        return found

    def in_duckdb() -> list[int]:
        connection = duckdb.connect(config={"threads": 1})
        return [row[0] for row in connection.execute(query).fetchall()]

    def in_polars() -> list[int]:
        frame = polars.scan_parquet(files).select("id", "text")
        return list(frame.filter(~polars.col("text").is_first_distinct()).collect()["id"])

    for name, other in (("DuckDB", in_duckdb), ("Polars", in_polars)):
        must(ours() == other(), f"exact deduplication and {name}")
        yield pair(f"exact duplicates / {name}", other, ours)


def compare_minhash(texts: list[str]) -> Row:
    from datasketch import MinHash

    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    hasher = MinHasher(num_perm=128, shingle_words=5)

    def theirs() -> None:
        for text in encoded:
            words = re.findall(rb"[0-9A-Za-z\x80-\xff]+", text.lower())
            sketch = MinHash(num_perm=128)
            sketch.update_batch([b" ".join(words[at : at + 5]) for at in range(max(1, len(words) - 4))])

    signatures = hasher.sign(data, offsets)
    first = next(shingle(data, offsets, 5))
    begins = np.cumsum(first.counts) - first.counts
    for row, begin, count in zip(signatures, begins, first.counts, strict=False):
        sketch = MinHash(num_perm=128, hashfunc=int)
        sketch.update_batch(first.hashes[begin : begin + count])
        must(bool((sketch.hashvalues == row).all()), "MinHash of the same hashes")
    return pair("MinHash, 128 values / datasketch", theirs, partial(hasher.sign, data, offsets))


def compare_filters(texts: list[str], work: Path, peer_venv: Path | None) -> Iterator[Row]:
    scorer = TextScorer()

    def ours() -> np.ndarray:
        return judge(scorer.score(texts), HEURISTIC_FILTERS)[0]

    def chain() -> pd.Index:
        frame = pd.DataFrame({"text": texts})
        for one in HEURISTIC_FILTERS:
            frame = frame[frame["text"].apply(SCORES[one.score]).between(one.low, one.high)]
        return frame.index

    scores = scorer.score(texts)
    for name, score in SCORES.items():
        must(np.allclose(scores[name], [score(text) for text in texts]), name)
    kept = np.flatnonzero(ours()).tolist()
    must(kept == chain().tolist(), "heuristic filters")
    yield pair("28 heuristic filters / a chain of pandas applies", chain, ours)
    if peer_venv is not None:
        yield compare_with_peer(texts, kept, ours, work, peer_venv)


def compare_with_peer(
    texts: list[str], kept: list[int], ours: Callable[[], Any], work: Path, peer_venv: Path
) -> Row:
    (work / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    runs = [run_peer(peer_venv, "filters", work / "texts.json") for _ in range(ROUNDS)]
    # Among n-grams that are equally common it takes any, from run to run: that may move a text over a limit.
    must(len(set(runs[0]["kept"]) ^ set(kept)) <= len(texts) // 200, "heuristic filters and the peer's")
    return (
        "28 heuristic filters / NeMo Curator's",
        median(run["cpu_s"] for run in runs),
        pair("", int, ours)[2],
    )


def compare_modifiers(texts: list[str]) -> Row:
    def apply(modifiers: dict[str, Callable[[str], str]]) -> list[str]:
        found = texts
        for modify in modifiers.values():
            found = list(map(modify, found))
        return found

    must(apply(dict(MODIFIERS)) == apply(CHANGES), "modifiers")
    return pair(
        "six modifiers / plain code and ftfy", partial(apply, CHANGES), partial(apply, dict(MODIFIERS))
    )


if __name__ == "__main__":
    sys.exit(main())
