"""The document pipelines beside other ways to do the same work, in one run: equality first, then ratios of CPU time.

    pip install datasketch duckdb polars pandas ftfy
    python benchmarks/peers/curation_documents.py --documents 20000 [--peer-venv peer] [--growth 1000 10000 100000]

The peer's environment is that of `curation.py --setup` with ftfy in it; without it filters and modifiers are compared
with plain code only, and removal with copying. Everything runs in one process with one thread, each pair three times in
turn; the middle times are shown, and the least ratio that is asked for. `--growth` makes so many documents each and
shows how time grows with them.
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
from paceline.curate.minhash import MinHasher, MinHashStage, shingle
from paceline.curate.readers import DocumentReader
from paceline.curate.removal import RemovalStage
from paceline.curate.similarity import group_similar
from paceline.curate.text_filters import HEURISTIC_FILTERS, judge
from paceline.curate.text_modifiers import MODIFIERS
from paceline.curate.text_scores import TextScorer
from paceline.curate.writers import DocumentWriterStage

HERE = Path(__file__).parent
MAKE = HERE.parent / "data" / "make_documents.py"
ROUNDS = 3
SAMPLE = 1000
PAGE_BYTES = 1_048_576
# Ten times the data may take so many times as long.
MOST_GROWTH = 10.5
# What, CPU seconds of the other and ours, and the ratio that is asked for.
Row = tuple[str, float, float, float]


def main() -> int:
    args = parse_args()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        make_documents(work, args.documents)
        print("| what | other CPU s | ours CPU s | other / ours | asked for |\n|---|---|---|---|---|")
        for what, other_s, ours_s, asked in compare(work, args.peer_venv):
            bar = f"≥ {asked:.2g}" if asked else "the bound"
            print(f"| {what} | {other_s:.3f} | {ours_s:.3f} | {other_s / ours_s:.2f} | {bar} |", flush=True)
        if args.growth:
            show_growth(work, args.growth)
    return 0


def make_documents(work: Path, count: int) -> None:
    words = ["--output", work / "docs", "--ids-output", work / "ids.parquet", "--format", "parquet"]
    command = [MAKE, *words, "--documents", count, "--seed", 1]
    subprocess.run([sys.executable, *map(str, command)], check=True)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="compare the document pipelines with others")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--peer-venv", type=Path, help="an environment with nemo-curator")
    parser.add_argument("--growth", type=int, nargs="*", default=[], help="numbers of documents")
    return parser.parse_args()


def compare(work: Path, peer_venv: Path | None) -> Iterator[Row]:
    yield from compare_removal(work, peer_venv)
    yield from compare_exact(work)
    texts: list[str] = pq.read_table(work / "docs", columns=["text"])["text"].to_pylist()
    yield compare_minhash(texts[:SAMPLE])
    (work / "texts.json").write_text(json.dumps(texts[:SAMPLE]), encoding="utf-8")
    yield from compare_filters(texts[:SAMPLE], work, peer_venv)
    yield from compare_modifiers(texts[:SAMPLE], work, peer_venv)


def pair(what: str, other: Callable[[], Any], ours: Callable[[], Any], asked: float = 0.0) -> Row:
    """Middle CPU times of both, made in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for place, work in enumerate((other, ours)):
            started = time.process_time()
            work()
            times[place].append(time.process_time() - started)
    return what, median(times[0]), median(times[1]), asked


def must(condition: bool, what: str) -> None:
    if not condition:
        sys.exit(f"{what}: results differ")


def remove(work: Path) -> None:
    shutil.rmtree(work / "ours", ignore_errors=True)
    stages = [
        DocumentReader(str(work / "docs"), id_field="id"),
        RemovalStage(str(work / "ids.parquet"), id_field="id"),
        DocumentWriterStage(str(work / "ours")),
    ]
    Pipeline("removal", stages).run(LocalExecutor(workers=1))


def compare_removal(work: Path, peer_venv: Path | None) -> Iterator[Row]:
    ours = partial(remove, work)

    def copy() -> None:
        (work / "copy").mkdir(exist_ok=True)
        for file in sorted((work / "docs").iterdir()):
            pq.write_table(pq.read_table(file, use_threads=False), work / "copy" / file.name)

    ours()
    listed = set(pq.read_table(work / "ids.parquet")["id"].to_pylist())
    before = pq.read_table(work / "docs")
    expected = before.filter(pa.array([one not in listed for one in before["id"].to_pylist()]))
    must(pq.read_table(work / "ours").equals(expected), "removal")
    yield pair("removal / reading and writing the same Parquet", copy, ours, 1 / 1.5)
    if peer_venv is not None:
        words = ("removal", work / "docs", work / "ids.parquet", work / "theirs")
        runs = [run_peer(peer_venv, *words) for _ in range(ROUNDS)]
        must(runs[0]["documents"] == len(expected), "removal and the peer's")
        peer_s = median(run["cpu_s"] for run in runs)
        yield "removal / NeMo Curator's", peer_s, pair("", int, ours)[2], 5.0
        # Nobody who reads and writes these files can be further ahead than this.
        yield "only unpacking and packing / NeMo Curator's removal", peer_s, codec_s(before, expected), 0.0


def codec_s(before: pa.Table, after: pa.Table) -> float:
    """What it takes to unpack the texts that are read and to pack those that are written, page by page."""
    codec = pa.Codec("snappy")
    pages = [pages_of(table) for table in (before, after)]
    packed = [(codec.compress(page), len(page)) for page in pages[0]]

    def work() -> None:
        for page, size_bytes in packed:
            codec.decompress(page, size_bytes)
        for page in pages[1]:
            codec.compress(page)

    return pair("", int, work)[2]


def pages_of(table: pa.Table) -> list[bytes]:
    data = "".join(table["text"].to_pylist()).encode()
    return [data[at : at + PAGE_BYTES] for at in range(0, len(data), PAGE_BYTES)]


def run_peer(venv: Path, *words: object) -> dict[str, Any]:
    command = [venv / "bin" / "python", HERE / "nemo_curator_text.py", *words]
    said = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return found


def find_copies(work: Path) -> list[int]:
    stages = [
        DocumentReader(str(work / "docs"), id_field="id", text_field="text", columns=["id", "text"]),
        TextHashStage(text_field="text", id_field="id"),
    ]
    parts = [task.data for task in Pipeline("exact", stages).run(LocalExecutor(workers=1))]
    kept = first_of_each(np.concatenate([part.values for part in parts]))
    ids = pa.concat_arrays([part.ids for part in parts])
    found: list[int] = ids.filter(pa.array(kept != np.arange(len(kept)))).to_pylist()
    return found


def find_near_copies(work: Path) -> None:
    stages = [
        DocumentReader(str(work / "docs"), id_field="id", text_field="text", columns=["id", "text"]),
        MinHashStage(MinHasher(num_perm=128, shingle_words=5), text_field="text", id_field="id"),
    ]
    parts = [task.data for task in Pipeline("fuzzy", stages).run(LocalExecutor(workers=1))]
    group_similar(np.concatenate([part.values for part in parts]), bands=16, threshold=0.8)


def show_growth(work: Path, counts: list[int]) -> None:
    """CPU time of each pipeline for more and more documents, as factors from one number to the next."""
    print("\n| what | documents | CPU s | data | time | asked for a tenfold |\n|---|---|---|---|---|---|")
    before: dict[str, float] = {}
    for place, count in enumerate(counts):
        shutil.rmtree(work / "docs")
        make_documents(work, count)
        for what, run in (("removal", remove), ("exact", find_copies), ("fuzzy", find_near_copies)):
            taken_s = pair("", int, partial(run, work))[2]
            more = f"{count / counts[place - 1]:.3g}× | {taken_s / before[what]:.2f}×" if place else "|"
            print(f"| {what} | {count:,} | {taken_s:.3f} | {more} | ≤ {MOST_GROWTH}× |", flush=True)
            before[what] = taken_s


def compare_exact(work: Path) -> Iterator[Row]:
    import duckdb
    import polars

    files = str(work / "docs" / "*.parquet")
    query = (
        "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY text ORDER BY id) AS place "
        f"FROM read_parquet('{files}')) WHERE place > 1 ORDER BY id"
    )

    ours = partial(find_copies, work)

    def in_duckdb() -> list[int]:
        connection = duckdb.connect(config={"threads": 1})
        return [row[0] for row in connection.execute(query).fetchall()]

    def in_polars() -> list[int]:
        frame = polars.scan_parquet(files).select("id", "text")
        return list(frame.filter(~polars.col("text").is_first_distinct()).collect()["id"])

    for name, other in (("DuckDB", in_duckdb), ("Polars", in_polars)):
        must(ours() == other(), f"exact deduplication and {name}")
        yield pair(f"exact duplicates / {name}", other, ours, 1 / 2)


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
    return pair("MinHash, 128 values / datasketch", theirs, partial(hasher.sign, data, offsets), 5.0)


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
    yield pair("28 heuristic filters / a chain of pandas applies", chain, ours, 5.0)
    if peer_venv is not None:
        yield compare_with_peer(texts, kept, ours, work, peer_venv)


def compare_with_peer(
    texts: list[str], kept: list[int], ours: Callable[[], Any], work: Path, peer_venv: Path
) -> Row:
    runs = [run_peer(peer_venv, "filters", work / "texts.json") for _ in range(ROUNDS)]
    # Among n-grams that are equally common it takes any, from run to run: that may move a text over a limit.
    must(len(set(runs[0]["kept"]) ^ set(kept)) <= len(texts) // 200, "heuristic filters and the peer's")
    peer_s = median(run["cpu_s"] for run in runs)
    return "28 heuristic filters / NeMo Curator's", peer_s, pair("", int, ours)[2], 5.0


def compare_modifiers(texts: list[str], work: Path, peer_venv: Path | None) -> Iterator[Row]:
    def apply(modifiers: dict[str, Callable[[str], str]]) -> list[str]:
        found = texts
        for modify in modifiers.values():
            found = list(map(modify, found))
        return found

    ours = partial(apply, dict(MODIFIERS))
    must(ours() == apply(CHANGES), "modifiers")
    yield pair("six modifiers / plain code and ftfy", partial(apply, CHANGES), ours, 5.0)
    if peer_venv is not None:
        runs = [run_peer(peer_venv, "modifiers", work / "texts.json") for _ in range(ROUNDS)]
        must(runs[0]["texts"] == ours(), "modifiers and the peer's")
        peer_s = median(run["cpu_s"] for run in runs)
        yield "six modifiers / NeMo Curator's", peer_s, pair("", int, ours)[2], 5.0


if __name__ == "__main__":
    sys.exit(main())
