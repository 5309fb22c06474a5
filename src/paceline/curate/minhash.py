"""MinHash signatures of texts, by the definition that datasketch 2 calls `affine32`.

A word is a run of ASCII letters and digits (lower-cased) and bytes of other characters; a shingle is `size` words in a
row, or all words of a text that has fewer. The hash of a word is a polynomial in its bytes modulo 2^64, taken from
running sums, so that all words of a block of text are hashed together without a loop. The hash of a shingle, 32 bits,
goes through the finisher of MurmurHash3, then through `num_perm` maps h -> a·h + b modulo 2^32; the signature is the
least value of each. Given the same 32-bit hashes, signatures are equal to those of datasketch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.curate.dedup import Fingerprints, batch_key, id_array, text_bytes
from paceline.curate.documents import Documents
from paceline.curate.errors import PipelineError
from paceline.curate.stage import Stage
from paceline.curate.task import Task

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Hashes32 = npt.NDArray[np.uint32]
Hashes64 = npt.NDArray[np.uint64]

# Odd, so that powers have inverses modulo 2^64; otherwise arbitrary.
BYTE_BASE = 0x9E3779B97F4A7C15
WORD_BASE = 0xD6E8FEB86659FD93
# Running sums of a block fit in the cache.
BLOCK_BYTES = 65_536

Signatures = npt.NDArray[np.uint32]
EMPTY = np.uint32(0xFFFFFFFF)
# Few enough shingles for the cache, enough to make numpy's cost a call small beside the work.
CHUNK_SHINGLES = 65_536


def _letter_table() -> Bytes:
    """What each byte counts as in a word: itself, in lower case; 0 for a byte that is in no word."""
    table = np.zeros(256, dtype=np.uint8)
    for code in range(256):
        one = bytes((code,))
        if code >= 0x80 or one.isalnum():
            table[code] = one.lower()[0]
    return table


_LETTERS = _letter_table()


class _Powers:
    """Powers of the base and of its inverse, grown as longer blocks come."""

    def __init__(self) -> None:
        self.up: Hashes64 = np.ones(1, dtype=np.uint64)
        self.down: Hashes64 = np.ones(1, dtype=np.uint64)

    def reach(self, length: int) -> None:
        """Doubles the tables until they hold the powers up to `length`."""
        while len(self.up) <= length:
            grown = len(self.up)
            self.up = np.concatenate((self.up, self.up * np.uint64(pow(BYTE_BASE, grown, 1 << 64))))
            inverse = pow(pow(BYTE_BASE, -1, 1 << 64), grown, 1 << 64)
            self.down = np.concatenate((self.down, self.down * np.uint64(inverse)))


_powers = _Powers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shingles:
    """The shingles of several texts in a row; text `i` has `counts[i]` of them."""

    hashes: Hashes32
    counts: Places


def shingle(data: Bytes, offsets: Places, size: int) -> Iterator[Shingles]:
    """The shingles of texts that lie in a row, a block of texts at a time."""
    last = len(offsets) - 1
    begin = 0
    while begin < last:
        end = int(np.searchsorted(offsets, offsets[begin] + BLOCK_BYTES, "right")) - 1
        end = min(max(end, begin + 1), last)
        low, high = offsets[begin], offsets[end]
        yield _shingle_block(data[low:high], offsets[begin : end + 1] - low, size)
        begin = end


def _shingle_block(data: Bytes, offsets: Places, size: int) -> Shingles:
    starts, hashes = hash_words(data, offsets)
    first = np.searchsorted(starts, offsets[:-1])
    after = np.searchsorted(starts, offsets[1:])
    words = after - first
    total = len(starts)
    place = np.arange(total)
    left = np.repeat(after, words) - place
    # Every text with a word has a shingle at its first one, also if it has fewer words than a shingle.
    chosen = (left >= size) | (place == np.repeat(first, words))
    mixed = _combine(hashes, np.minimum(left, size), size)
    counts = np.where(words >= size, words - size + 1, np.minimum(words, 1))
    return Shingles(hashes=_fold(mixed[chosen]), counts=counts)


def hash_words(data: Bytes, offsets: Places) -> tuple[Places, Hashes64]:
    """Begin and hash of each word; no word reaches from one text into the next."""
    _powers.reach(len(data))
    letters = _LETTERS[data]
    inside = letters != 0
    edge = np.zeros(len(data) + 1, dtype=np.bool_)
    edge[offsets] = True
    opens = inside.copy()
    opens[1:] &= ~inside[:-1] | edge[1:-1]
    closes = inside.copy()
    closes[:-1] &= ~inside[1:] | edge[1:-1]
    starts, ends = np.flatnonzero(opens), np.flatnonzero(closes) + 1
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    np.cumsum(letters * _powers.up[: len(data)], out=sums[1:])
    return starts, (sums[ends] - sums[starts]) * _powers.down[starts]


def _combine(words: Hashes64, lengths: Places, size: int) -> Hashes64:
    """At each word the hash of it and those after it, up to the shingle's size or the end of the text."""
    base = np.uint64(WORD_BASE)
    spread = words ^ (words >> np.uint64(29))
    mixed = spread.copy()
    for step in range(1, size):
        reaches = lengths > step
        following = np.zeros_like(spread)
        following[:-step] = spread[step:]
        mixed = np.where(reaches, mixed * base + following, mixed)
    return mixed


def _fold(mixed: Hashes64) -> Hashes32:
    """The upper half after a last mix, where all bits have had their influence."""
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(BYTE_BASE)
    return (mixed >> np.uint64(32)).astype(np.uint32)


def permutations(num_perm: int, seed: int = 1) -> tuple[Hashes32, Hashes32]:
    """The factors (odd, so that each map is one to one) and the summands."""
    chance = np.random.RandomState(seed)
    factors = chance.randint(0, 1 << 31, num_perm, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return factors, chance.randint(0, 1 << 32, num_perm, dtype=np.uint32)


def finish(hashes: Hashes32) -> Hashes32:
    """The 32-bit finisher of MurmurHash3."""
    mixed = hashes ^ (hashes >> np.uint32(16))
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    return mixed


class MinHasher:
    """Makes the signatures of many texts together."""

    def __init__(self, *, num_perm: int = 128, shingle_words: int = 5, seed: int = 1) -> None:
        if num_perm < 1 or shingle_words < 1:
            raise PipelineError("minhash: the numbers of permutations and of words must be at least 1")
        self.num_perm = num_perm
        self.shingle_words = shingle_words
        self._factors, self._summands = permutations(num_perm, seed)

    def sign(self, data: Bytes, offsets: Places) -> Signatures:
        """A row a text; texts without a word are all `EMPTY`."""
        signatures = np.full((len(offsets) - 1, self.num_perm), EMPTY, dtype=np.uint32)
        begin = 0
        for part in _gather(shingle(data, offsets, self.shingle_words)):
            end = begin + len(part.counts)
            signatures[begin:end] = self.sign_shingles(part)
            begin = end
        return signatures

    def sign_shingles(self, part: Shingles) -> Signatures:
        """The signatures of texts whose shingles are known."""
        signatures = np.full((len(part.counts), self.num_perm), EMPTY, dtype=np.uint32)
        filled = np.flatnonzero(part.counts)
        if not len(filled):
            return signatures
        starts = (np.cumsum(part.counts) - part.counts)[filled]
        hashes = finish(part.hashes)
        room = np.empty_like(hashes)
        least = np.empty((self.num_perm, len(filled)), dtype=np.uint32)
        for row, factor, summand in zip(least, self._factors, self._summands, strict=True):
            np.multiply(hashes, factor, out=room)
            np.add(room, summand, out=room)
            np.minimum.reduceat(room, starts, out=row)
        signatures[filled] = least.T
        return signatures


def _gather(blocks: Iterator[Shingles]) -> Iterator[Shingles]:
    """Blocks joined until there are enough shingles for the loop over permutations to pay."""
    held: list[Shingles] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block.hashes)
        if size >= CHUNK_SHINGLES:
            yield _join(held)
            held, size = [], 0
    if held:
        yield _join(held)


def _join(blocks: list[Shingles]) -> Shingles:
    return Shingles(
        hashes=np.concatenate([block.hashes for block in blocks]),
        counts=np.concatenate([block.counts for block in blocks]),
    )


class MinHashStage(Stage):
    """Batches of documents -> their signatures."""

    name = "minhash"

    def __init__(self, hasher: MinHasher, *, text_field: str, id_field: str) -> None:
        self.hasher = hasher
        self.text_field = text_field
        self.id_field = id_field

    def process(self, task: Task) -> Task:
        documents: Documents = task.data
        values = self.hasher.sign(*text_bytes(documents, self.text_field))
        self.count(without_words=int((values == EMPTY).all(axis=1).sum()))
        ids = id_array(documents, self.id_field)
        return task.carrying(Fingerprints(batch=batch_key(documents.source), values=values, ids=ids))
