"""Shingles and signatures, against plain Python and datasketch; groups, against comparing everything."""

import json
import re
import subprocess
import sys
from itertools import chain, combinations
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.curate import PipelineError
from paceline.curate.minhash import BYTE_BASE, EMPTY, WORD_BASE, Bytes, MinHasher, Places, Shingles, shingle
from paceline.curate.similarity import Components, group_similar

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "scripts" / "fuzzy_dedup_benchmark.py"
MASK = (1 << 64) - 1
WORDS = st.text(alphabet="abÄ ß.,\n-日Z09", max_size=40)


def packed(texts: list[str]) -> tuple[Bytes, Places]:
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def plain_shingles(text: str, size: int) -> list[int]:
    """The definition, one word at a time."""
    words = []
    for word in re.findall(rb"[0-9A-Za-z\x80-\xff]+", text.encode().lower()):
        code = sum(byte * pow(BYTE_BASE, place, 1 << 64) for place, byte in enumerate(word)) & MASK
        words.append(code ^ (code >> 29))
    found = []
    for begin in range(max(1, len(words) - size + 1) if words else 0):
        mixed = 0
        for word in words[begin : begin + size]:
            mixed = (mixed * WORD_BASE + word) & MASK
        found.append(((mixed ^ (mixed >> 32)) * BYTE_BASE & MASK) >> 32)
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=8), st.integers(1, 6))
def test_shingles_are_those_of_the_definition(texts: list[str], size: int) -> None:
    expected = [plain_shingles(text, size) for text in texts]
    blocks = list(shingle(*packed(texts), size))
    assert [code for block in blocks for code in block.hashes.tolist()] == list(chain(*expected))
    assert [count for block in blocks for count in block.counts.tolist()] == list(map(len, expected))


def test_blocks_may_be_shorter_than_a_text() -> None:
    texts = ["one two three " * 9000, "", "four five six", "seven " * 20000]
    blocks = list(shingle(*packed(texts), 3))
    assert len(blocks) > 1
    assert [count for block in blocks for count in block.counts.tolist()] == [26998, 0, 1, 19998]


def test_case_and_marks_do_not_matter_and_word_order_does() -> None:
    one, two, three = (plain_shingles(text, 2) for text in ("The cat, sat", "the CAT sat!", "cat the sat"))
    assert one == two and one != three


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=30), min_size=1, max_size=6),
    st.sampled_from((1, 16, 128)),
    st.integers(0, 3),
)
def test_signatures_are_those_of_datasketch(sets: list[list[int]], num_perm: int, seed: int) -> None:
    datasketch = pytest.importorskip("datasketch", minversion="2.0")
    part = Shingles(
        hashes=np.array(list(chain(*sets)), dtype=np.uint32),
        counts=np.array(list(map(len, sets)), dtype=np.int64),
    )
    ours = MinHasher(num_perm=num_perm, seed=seed).sign_shingles(part)
    for values, row in zip(sets, ours, strict=True):
        theirs = datasketch.MinHash(num_perm=num_perm, seed=seed, hashfunc=lambda code: code)
        theirs.update_batch(values)
        assert theirs.hashvalues.tolist() == row.tolist()


def test_a_signature_worked_out_by_hand() -> None:
    """One shingle, hash 1: finisher of MurmurHash3 gives 0x514E28B7; then a·h + b with the first draws of seed 1."""
    chance = np.random.RandomState(1)
    factor = int(chance.randint(0, 1 << 31, 1, dtype=np.uint32)[0]) * 2 + 1
    summand = int(chance.randint(0, 1 << 32, 1, dtype=np.uint32)[0])
    part = Shingles(hashes=np.array([1], dtype=np.uint32), counts=np.array([1], dtype=np.int64))
    assert MinHasher(num_perm=1).sign_shingles(part).tolist() == [[(factor * 0x514E28B7 + summand) % 2**32]]


def test_estimates_are_within_their_error() -> None:
    """The standard deviation is at most 1/(2·sqrt(1024)) = 0.016; five of them over 60 pairs."""
    chance = np.random.default_rng(3)
    hasher = MinHasher(num_perm=1024, shingle_words=1)
    for share in (0.1, 0.5, 0.9):
        for _ in range(20):
            words = [f"w{number}" for number in chance.integers(0, 10**9, 400).tolist()]
            common = int(400 * share)
            texts = [" ".join(words[:common] + words[common + half : 400 : 2]) for half in (0, 1)]
            left, right = (set(text.split()) for text in texts)
            signatures = hasher.sign(*packed(texts))
            estimate = (signatures[0] == signatures[1]).mean()
            assert abs(estimate - len(left & right) / len(left | right)) < 5 * 0.016


@given(st.integers(1, 20), st.lists(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19))), max_size=4))
def test_components_are_those_of_plain_merging(size: int, rounds: list[list[tuple[int, int]]]) -> None:
    components = Components(size)
    groups = [{member} for member in range(size)]
    for links in rounds:
        pairs = [(left % size, right % size) for left, right in links]
        components.link(*np.array(pairs, dtype=np.int64).reshape(-1, 2).T)
        for left, right in pairs:
            joined = groups[left] | groups[right]
            for member in joined:
                groups[member] = joined
    assert components.roots().tolist() == [min(group) for group in groups]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_groups_are_those_of_comparing_all_pairs(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 14))
    cell = st.integers(0, 2)
    rows = [data.draw(st.lists(cell, min_size=8, max_size=8)) for _ in range(count)]
    signatures = np.array(rows, dtype=np.uint32).reshape(count, 8)
    bands, threshold = data.draw(st.sampled_from((1, 2, 4, 8))), data.draw(st.sampled_from((0.25, 0.5, 1.0)))
    groups = [{member} for member in range(count)]
    size = 8 // bands
    for left, right in combinations(range(count), 2):
        equal = signatures[left] == signatures[right]
        same_band = any(equal[at : at + size].all() for at in range(0, 8, size))
        if same_band and equal.mean() >= threshold:
            joined = groups[left] | groups[right]
            for member in joined:
                groups[member] = joined
    found = group_similar(signatures, bands=bands, threshold=threshold)
    assert found.tolist() == [min(group) for group in groups]


def test_texts_without_words_are_no_duplicates_of_each_other() -> None:
    signatures = np.full((3, 8), EMPTY, dtype=np.uint32)
    assert group_similar(signatures, bands=2, threshold=0.5).tolist() == [0, 1, 2]


def test_uneven_bands_and_odd_thresholds_are_refused() -> None:
    with pytest.raises(PipelineError, match="128 permutations cannot be shared out evenly among 10"):
        group_similar(np.zeros((2, 128), dtype=np.uint32), bands=10, threshold=0.5)
    with pytest.raises(PipelineError, match="threshold"):
        group_similar(np.zeros((2, 128), dtype=np.uint32), bands=8, threshold=0.0)


def test_the_benchmark_drops_near_copies_and_keeps_the_first(tmp_path: Path) -> None:
    base = [" ".join(f"w{(number * 97 + step * step) % 5000}" for step in range(120)) for number in range(8)]
    near = [text.replace("w", "W").replace(" ", ", ", 3) + " tail" for text in base]
    texts = [*base, *near, "", "...", base[0][:40]]
    documents = [{"id": number, "text": text} for number, text in enumerate(texts)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents) + "broken\n")
    words = ["--benchmark-results-path", tmp_path / "r", "--input-path", tmp_path / "in.jsonl"]
    ran = subprocess.run(
        [sys.executable, *map(str, [SCRIPT, *words, "--output-path", tmp_path / "out"])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    left = [json.loads(line)["id"] for line in (tmp_path / "out" / "in.jsonl").read_text().splitlines()]
    assert left == [*range(8), 16, 17, 18]
    metrics = json.loads((tmp_path / "r" / "metrics.json").read_text())
    assert (metrics["num_duplicates"], metrics["num_duplicate_groups"]) == (8, 8)
    assert (metrics["num_without_words"], metrics["num_rejected"]) == (2, 1)
