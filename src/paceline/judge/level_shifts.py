"""One series with steps at given places: how noisy it is between them, and how sure each step is.

The noise is autoregressive of first order; steps are fitted by generalised least squares, so that the point at which
the series jumps counts for more than the slow swings on both sides.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from paceline.judge.intervals import SHORTEST_SEGMENT, Floats

_HIGHEST_CORRELATION = 0.9
_CAUTION = 0.3  # Added to the estimated correlation, in units of its standard error: being too sure is worse.


class LevelShifts:
    """Cumulated sums of a series, from which every question about its segments is answered quickly."""

    def __init__(self, values: Floats) -> None:
        self._values = values
        self._length = len(values)
        self._sums = _cumulated(values)
        self._squares = _cumulated(values * values)
        self._products = np.concatenate(([0.0], _cumulated(values[1:] * values[:-1])))

    def mean(self, begin: int, end: int) -> float:
        return float(self._sums[end] - self._sums[begin]) / (end - begin)

    def noise(self, edges: Sequence[int]) -> tuple[float, float]:
        """Variance of the innovations and correlation of neighbours, with the mean of each segment taken out."""
        squares = products = 0.0
        for begin, end in itertools.pairwise(edges):
            segment_squares, segment_products = self._scatter(begin, end)
            squares += segment_squares
            products += segment_products
        segments = len(edges) - 1
        variance = squares / max(self._length - segments - 1, 1)
        if variance <= 0:
            return 0.0, 0.0
        correlation = _unbiased(products / squares, segments, self._length)
        return variance * (1 - correlation**2), correlation

    def _scatter(self, begin: int, end: int) -> tuple[float, float]:
        """Σ(x−m)² and Σ(x−m)(x'−m) of neighbours x, x' within a segment of mean m."""
        total = float(self._sums[end] - self._sums[begin])
        mean = total / (end - begin)
        squares = float(self._squares[end] - self._squares[begin]) - mean * total
        products = float(self._products[end] - self._products[begin + 1])
        ends = float(self._values[begin] + self._values[end - 1])
        return max(squares, 0.0), products - mean * (2 * total - ends) + mean * mean * (end - begin - 1)

    def best_step(self, begin: int, end: int, correlation: float) -> tuple[int, float]:
        """Where one step explains [begin, end) best, and the sum of squares that it explains."""
        values, size = self._values[begin:end], end - begin
        kept = 1 - correlation
        innovations = values[1:] - correlation * values[:-1]
        tails = innovations[::-1].cumsum()[::-1]
        places = slice(SHORTEST_SEGMENT - 1, size - SHORTEST_SEGMENT)
        after = np.arange(size - 1 - SHORTEST_SEGMENT, SHORTEST_SEGMENT - 2, -1, dtype=float)
        first = 1 - correlation**2
        level_norm = first + kept**2 * (size - 1)
        level_fit = (first * float(values[0]) + kept * float(tails[0])) / level_norm
        overlap = kept + kept**2 * after
        fit = correlation * innovations[places] + kept * tails[places] - overlap * level_fit
        explained = fit * fit / (1 + kept**2 * after - overlap * overlap / level_norm)
        best = int(explained.argmax())
        return begin + SHORTEST_SEGMENT + best, float(explained[best])

    def is_drift(
        self, begin: int, end: int, step: int, correlation: float, explained: float, needed: float
    ) -> bool:
        """Whether a straight line explains [begin, end) better than the step, and the step adds too little to it."""
        values, size = self._values[begin:end], end - begin
        level, line = _whiten(np.ones(size), correlation), _whiten(np.arange(size, dtype=float), correlation)
        innovations = _whiten(values, correlation)
        line -= level * (float(level @ line) / float(level @ level))
        norm = float(line @ line)
        if float(line @ innovations) ** 2 / norm <= explained:
            return False
        jump = np.zeros(size)
        jump[step - begin :] = 1.0
        jump = _whiten(jump, correlation)
        jump -= level * (float(level @ jump) / float(level @ level))
        jump -= line * (float(line @ jump) / norm)
        return float(jump @ innovations) ** 2 < needed * float(jump @ jump)


def _cumulated(values: Floats) -> Floats:
    sums = np.empty(len(values) + 1)
    sums[0] = 0.0
    np.cumsum(values, out=sums[1:])
    return sums


def _unbiased(correlation: float, segments: int, length: int) -> float:
    """Taking out means makes neighbours look less alike, by about (1 + 3ρ) / length a segment."""
    raised = correlation + segments / length + _CAUTION / math.sqrt(length)
    raised += 3 * max(raised, 0.0) * segments / length
    return min(max(raised, 0.0), _HIGHEST_CORRELATION)


def _whiten(values: Floats, correlation: float) -> Floats:
    """The series' innovations."""
    whitened = np.empty(len(values))
    whitened[0] = values[0] * math.sqrt(1 - correlation**2)
    np.subtract(values[1:], correlation * values[:-1], out=whitened[1:])
    return whitened
