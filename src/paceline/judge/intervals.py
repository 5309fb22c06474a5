"""Where to look for a change: a few intervals of every length, so that a step is alone in at least one of them."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SHORTEST_SEGMENT = 3
_SHORTEST_INTERVAL = 2 * SHORTEST_SEGMENT + 2
_SHRINK = 1.5  # Each length is this much shorter than the one before; neighbours of a length overlap by half.

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Every split of every interval, flat: all are weighed by a handful of array operations.

    With S the cumulated sums, `weight_end · S[end] − weight_middle · S[middle] + weight_begin · S[begin]` is the
    difference of the means on both sides of `middle`, in units of its own standard error, times the noise.
    """

    begin: Integers
    middle: Integers
    end: Integers
    weight_begin: Floats
    weight_middle: Floats
    weight_end: Floats
    first_split: Integers
    bounds: tuple[tuple[int, int], ...]

    def scores(self, sums: Floats) -> Floats:
        """How far the two sides of each split lie apart, in units of the noise."""
        scores = self.weight_end * sums[self.end]
        scores -= self.weight_middle * sums[self.middle]
        scores += self.weight_begin * sums[self.begin]
        return np.abs(scores, out=scores)

    def best(self, scores: Floats) -> Floats:
        """The best score of each interval."""
        return np.maximum.reduceat(scores, self.first_split)

    def split_of(self, interval: int, scores: Floats) -> int:
        """Where the interval is best split."""
        first = int(self.first_split[interval])
        begin, end = self.bounds[interval]
        count = end - begin - 2 * SHORTEST_SEGMENT + 1
        return int(self.middle[first + int(scores[first : first + count].argmax())])


@lru_cache(maxsize=64)
def intervals(length: int) -> Intervals:
    """The intervals to look at in a series of this length (the same for each, so they are made once)."""
    bounds = tuple(bound for size in _sizes(length) for bound in _placed(size, length))
    splits = [np.arange(b + SHORTEST_SEGMENT, e - SHORTEST_SEGMENT + 1) for b, e in bounds]
    counts = [len(part) for part in splits]
    middle = np.concatenate(splits)
    begin = np.repeat([b for b, _ in bounds], counts)
    end = np.repeat([e for _, e in bounds], counts)
    before, after = (middle - begin).astype(float), (end - middle).astype(float)
    weight_end = np.sqrt(before / (after * (before + after)))
    weight_begin = np.sqrt(after / (before * (before + after)))
    return Intervals(
        begin=begin,
        middle=middle,
        end=end,
        weight_begin=weight_begin,
        weight_middle=weight_begin + weight_end,
        weight_end=weight_end,
        first_split=np.concatenate(([0], np.cumsum(counts)[:-1])),
        bounds=bounds,
    )


def _sizes(length: int) -> list[int]:
    sizes, size = [], float(length)
    while size >= _SHORTEST_INTERVAL:
        sizes.append(int(size))
        size /= _SHRINK
    return sizes


def _placed(size: int, length: int) -> list[tuple[int, int]]:
    """Intervals of one size, evenly over the series; the last ends where it ends."""
    room = length - size
    steps = max(1, math.ceil(2 * room / size))
    begins = sorted({round(i * room / steps) for i in range(steps + 1)})
    return [(begin, begin + size) for begin in begins]
