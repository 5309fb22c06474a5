"""Word shingles of many texts at once, as 32-bit hashes.

A word is a run of ASCII letters and digits (lower-cased) and bytes of other characters; a shingle is `size` words in a
row, or all words of a text that has fewer. The hash of a word is a polynomial in its bytes modulo 2^64, taken from
running sums, so that all words of a block of text are hashed together without a loop.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Hashes32 = npt.NDArray[np.uint32]
Hashes64 = npt.NDArray[np.uint64]

# Odd, so that powers have inverses modulo 2^64; otherwise arbitrary.
BYTE_BASE = 0x9E3779B97F4A7C15
WORD_BASE = 0xD6E8FEB86659FD93
# Running sums of a block fit in the cache.
BLOCK_BYTES = 65_536


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
