"""Repeated n-grams of many texts at once.

A repeated n-gram begins with a repeated (n-1)-gram, so each length only looks at places where the length before has
found repeats: after pairs there are few.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
Hashes64 = npt.NDArray[np.uint64]
_BASE = np.uint64(0xD6E8FEB86659FD93)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class WordRows:
    """The words of several texts in a row, as numbers; text `i` has those from `starts[i]` to `starts[i + 1]`."""

    words: Places
    lengths: Places
    starts: Places

    def text_of_word(self) -> Places:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """The n-grams that occur more than once in their text.

    `places` are all their occurrences in rising order; `is_first` says which are the first of their kind. `tops` has
    for each text the place of its commonest n-gram, the earliest of several; -1 for texts with fewer than n words.
    """

    size: int
    places: Places
    is_first: npt.NDArray[np.bool_]
    tops: Places


def find_repeats(rows: WordRows, longest: int) -> Iterator[Repeats]:
    """The repeats of each length from 2 to `longest`."""
    texts = rows.text_of_word()
    ends = rows.starts[1:][texts]
    places = np.arange(len(texts))
    # The number of the text is part of the hash, so that equal words of different texts are different.
    hashes = (rows.words.astype(np.uint64) + np.uint64(1)) * _SPREAD + texts.astype(np.uint64) * _BASE
    for size in range(2, longest + 1):
        fits = places + size <= ends[places]
        places, hashes = places[fits], hashes[fits]
        hashes = _mix(hashes * _BASE + rows.words[places + size - 1].astype(np.uint64))
        order, begins, sizes = _group(hashes)
        first = np.minimum.reduceat(places[order], begins) if len(begins) else places
        tops = _tops(rows, texts, size, first[sizes > 1], sizes[sizes > 1])
        chosen = np.repeat(sizes > 1, sizes)
        back = np.argsort(places[order][chosen])
        firsts = np.repeat(first, sizes)[chosen][back]
        kept = order[chosen][back]
        places, hashes = places[kept], hashes[kept]
        yield Repeats(size=size, places=places, is_first=places == firsts, tops=tops)


def _mix(hashes: Hashes64) -> Hashes64:
    return hashes ^ (hashes >> np.uint64(32))


def _group(hashes: Hashes64) -> tuple[Places, Places, Places]:
    """An order in which equal hashes are neighbours, where each run of them begins, and how long it is."""
    order = np.argsort(hashes)
    ordered = hashes[order]
    new = np.ones(len(ordered), dtype=np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    begins = np.flatnonzero(new)
    return order, begins, np.diff(np.append(begins, len(ordered)))


def _tops(rows: WordRows, texts: Places, size: int, first: Places, sizes: Places) -> Places:
    """The commonest n-gram of each text; where none is repeated all are equally common, and the first is taken."""
    tops = np.where(np.diff(rows.starts) >= size, rows.starts[:-1], -1)
    # The last one written stays: so the commonest, and of these the earliest, comes last.
    order = np.lexsort((-first, sizes))
    tops[texts[first[order]]] = first[order]
    return tops


def repeated_characters(rows: WordRows, repeats: Repeats) -> npt.NDArray[np.float64]:
    """For each text the characters in n-grams that were seen before, each word and space between counted once."""
    size = repeats.size
    again = repeats.places[~repeats.is_first]
    texts = np.searchsorted(rows.starts, again, "right") - 1
    overlap = np.zeros(len(again), dtype=np.int64)
    same = texts[1:] == texts[:-1]
    overlap[1:] = np.where(same, np.maximum(size - np.diff(again), 0), 0)
    sums = np.append(0, np.cumsum(rows.lengths))
    characters = sums[again + size] - sums[again + overlap] + np.minimum(size - overlap, size - 1)
    counts = np.bincount(texts, weights=characters, minlength=len(rows.starts) - 1)
    return counts.astype(np.float64, copy=False)
