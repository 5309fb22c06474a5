"""Where to look for a change: a few intervals of every length, so that a step is alone in at least one of them."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

SHORTEST_SEGMENT = 3
LONGEST_SERIES = 1024
_SHORTEST_INTERVAL = 2 * SHORTEST_SEGMENT + 2
_GROWTH = 1.5  # Each length is this much longer than the one before; neighbours of a length overlap by half.
_SPLITS = 128

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Every split of every interval, flat: all are weighed by a handful of array operations.

    Places are counted from the end of the series, and intervals sorted by how long a series must be to hold them. So
    one table serves series of every length, and the newest points are always looked at in intervals of every length.
    """

    begin: Integers
    middle: Integers
    end: Integers
    weight_begin: Floats
    weight_middle: Floats
    weight_end: Floats
    first_split: Integers
    reaches: Integers
    ends: Integers

    def scores(self, from_end: Floats) -> tuple[Floats, Floats]:
        """How far the two sides of each split lie apart, in units of the noise, and the best of each interval.

        With S the cumulated sums, read from the end, `weight_end · S[end] − weight_middle · S[middle] + weight_begin ·
        S[begin]` is the difference of the means on both sides, in units of its own standard error, times the noise.
        """
        count = int(np.searchsorted(self.reaches, len(from_end) - 1, side="right"))
        splits = int(self.first_split[count])
        scores = self.weight_end[:splits] * from_end[self.end[:splits]]
        scores -= self.weight_middle[:splits] * from_end[self.middle[:splits]]
        scores += self.weight_begin[:splits] * from_end[self.begin[:splits]]
        np.abs(scores, out=scores)
        return scores, np.maximum.reduceat(scores, self.first_split[:count])

    def split_of(self, interval: int, scores: Floats) -> int:
        """Where the interval is best split, counted from the end."""
        first, last = self.first_split[interval : interval + 2].tolist()
        return int(self.middle[first + int(scores[first:last].argmax())])


def cumulated(values: Floats) -> Floats:
    """The sums of the first 0, 1, 2 … values."""
    sums = np.empty(len(values) + 1)
    sums[0] = 0.0
    np.add.accumulate(values, out=sums[1:])
    return sums


@cache
def intervals() -> Intervals:
    """The intervals to look at."""
    bounds = sorted(bound for size in _sizes() for bound in _placed(size))
    splits = [_splits(begin, end) for begin, end in bounds]
    counts = [len(part) for part in splits]
    middle = np.concatenate(splits)
    begin = np.repeat([begin for begin, _ in bounds], counts)
    end = np.repeat([end for _, end in bounds], counts)
    before, after = (begin - middle).astype(float), (middle - end).astype(float)
    weight_end = np.sqrt(before / (after * (before + after)))
    weight_begin = np.sqrt(after / (before * (before + after)))
    return Intervals(
        begin=begin,
        middle=middle,
        end=end,
        weight_begin=weight_begin,
        weight_middle=weight_begin + weight_end,
        weight_end=weight_end,
        first_split=np.concatenate(([0], np.cumsum(counts))),
        reaches=np.array([begin for begin, _ in bounds]),
        ends=np.array([end for _, end in bounds]),
    )


def _sizes() -> list[int]:
    sizes, size = [], float(_SHORTEST_INTERVAL)
    while size <= LONGEST_SERIES:
        sizes.append(math.floor(size))
        size *= _GROWTH
    return sizes


def _splits(begin: int, end: int) -> Integers:
    """Where to split an interval: everywhere, or at some places of a long one, as they are refined later."""
    stride = max((begin - end) // _SPLITS, 1)
    return np.arange(begin - SHORTEST_SEGMENT, end + SHORTEST_SEGMENT - 1, -stride)


def _placed(size: int) -> list[tuple[int, int]]:
    """Intervals of one size, as the distances of their begin and end from the end of the series."""
    return [(end + size, end) for end in range(0, LONGEST_SERIES - size + 1, size // 2)]
