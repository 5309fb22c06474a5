"""One series with steps at given places: how noisy it is between them, and how sure each step is.

The noise is autoregressive of first order; steps are fitted by generalised least squares, so that the point at which
the series jumps counts for more than the slow swings on both sides.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from paceline.judge.intervals import LONGEST_SERIES, SHORTEST_SEGMENT, Floats, cumulated

_HIGHEST_CORRELATION = 0.9
_CAUTION = 0.3  # Added to the estimated correlation, in units of its standard error: being too sure is worse.
_LIKE_A_LINE = 0.8
_NEAR = 20
_LONGEST_LAG = 5
_TINY = 1e-12
_ASCENDING = np.arange(LONGEST_SERIES, dtype=float)
_DESCENDING = _ASCENDING[::-1].copy()
_TRUSTED_ELSEWHERE = 10.0  # The noise of the whole series counts as much as this many points near a step.


class LevelShifts:
    """Cumulated sums of a series, from which every question about its segments is answered quickly."""

    def __init__(self, values: Floats) -> None:
        self._values = values
        self.length = len(values)
        self._items: list[float] = values.tolist()
        self._sums: list[float] = cumulated(values).tolist()
        self._squares: list[float] = cumulated(values * values).tolist()
        self._products: list[float] = [0.0, *cumulated(values[1:] * values[:-1]).tolist()]
        self._moments: list[float] = cumulated(values * _ASCENDING[: self.length]).tolist()
        self._correlation = -1.0
        self._innovation_sums = self._projected = values

    def mean(self, begin: int, end: int) -> float:
        return (self._sums[end] - self._sums[begin]) / (end - begin)

    def noise(self, edges: Sequence[int]) -> tuple[float, float]:
        """Variance of the innovations and correlation of neighbours, with the mean of each segment taken out."""
        squares = products = 0.0
        for begin, end in itertools.pairwise(edges):
            segment_squares, segment_products = self._scatter(begin, end)
            squares += segment_squares
            products += segment_products
        segments = len(edges) - 1
        variance = squares / max(self.length - segments - 1, 1)
        if variance <= 0:
            return 0.0, 0.0
        correlation = _unbiased(products / squares, segments, self.length)
        return variance * (1 - correlation**2), correlation

    def _scatter(self, begin: int, end: int) -> tuple[float, float]:
        """Σ(x−m)² and Σ(x−m)(x'−m) of neighbours x, x' within a segment of mean m."""
        total = self._sums[end] - self._sums[begin]
        size = end - begin
        mean = total / size
        squares = self._squares[end] - self._squares[begin] - mean * total
        products = self._products[end] - self._products[begin + 1]
        ends = self._items[begin] + self._items[end - 1]
        return max(squares, 0.0), products - mean * (2 * total - ends) + mean * mean * (size - 1)

    def rest(self, edges: Sequence[int]) -> "Rest":
        """What is left of the series when the mean of each segment is taken out."""
        means = [self.mean(begin, end) for begin, end in itertools.pairwise(edges)]
        return Rest(self._values - np.repeat(means, _sizes(edges)), len(means))

    def whiten(self, correlation: float) -> None:
        """Take this correlation of neighbours for granted from now on."""
        innovations = np.zeros(self.length)
        np.subtract(self._values[1:], correlation * self._values[:-1], out=innovations[1:])
        sums = cumulated(innovations)
        self._correlation = correlation
        self._innovation_sums = sums
        self._projected = correlation * innovations - (1 - correlation) * sums[:-1]

    def best_step(self, begin: int, end: int) -> tuple[int, float]:
        """Where one step explains [begin, end) best, and the sum of squares that it explains.

        Level and step are turned into innovations: with k = 1 − ρ, the level is √(1 − ρ²) at the first point and k
        after it; the step is 1 at its place and k after it.
        """
        kept, size = 1 - self._correlation, end - begin
        first = 1 - self._correlation**2
        last = float(self._innovation_sums[end])
        level_norm = first + kept**2 * (size - 1)
        level_fit = first * self._items[begin] + kept * (last - float(self._innovation_sums[begin + 1]))
        level_fit /= level_norm
        after = _DESCENDING[-(size - SHORTEST_SEGMENT) : len(_DESCENDING) - SHORTEST_SEGMENT + 1]
        fit = after * (-(kept**2) * level_fit)
        fit += self._projected[begin + SHORTEST_SEGMENT : end - SHORTEST_SEGMENT + 1]
        fit += kept * (last - level_fit)
        # The step's norm less what it has in common with the level: 1 + k² n − (k + k² n)² / level_norm.
        norm = after * (-(kept**4) / level_norm)
        norm += kept**2 - 2 * kept**3 / level_norm
        norm *= after
        norm += 1 - kept**2 / level_norm
        fit *= fit
        fit /= norm
        best = int(fit.argmax())
        return begin + SHORTEST_SEGMENT + best, float(fit[best])

    def line_gain(self, begin: int, step: int, end: int) -> float:
        """What a straight line explains of [begin, end) more than the step, correlation left aside."""
        before, after, size = step - begin, end - step, end - begin
        total = self._sums[end] - self._sums[begin]
        rise = (self._sums[end] - self._sums[step]) - total * after / size
        tilt = self._moments[end] - self._moments[begin] - (begin + end - 1) / 2 * total
        return tilt * tilt * 12 / (size * (size**2 - 1)) - rise * rise * size / (before * after)

    def against_line(self, begin: int, step: int, end: int, correlation: float) -> tuple[float, float]:
        """What a straight line explains of [begin, end) more than the step, and what the step adds to the line."""
        time = np.arange(begin, end, dtype=float)
        rows = np.array([np.ones(end - begin), time, time >= step, self._values[begin:end]])
        level, line, jump, values = _whitened(rows, correlation)
        line = line - level * (float(level @ line) / float(level @ level))
        jump = jump - level * (float(level @ jump) / float(level @ level))
        by_line = float(line @ values) ** 2 / float(line @ line)
        by_step = float(jump @ values) ** 2 / float(jump @ jump)
        jump = jump - line * (float(line @ jump) / float(line @ line))
        return by_line - by_step, float(jump @ values) ** 2 / max(float(jump @ jump), _TINY)

    def slope(self, edges: Sequence[int]) -> float:
        """The drift a point that all segments share."""
        time = _time_within(edges)
        return float(time @ self._values) / float(time @ time)

    def still_drifts(self, edges: Sequence[int]) -> bool:
        """Whether the segments share a drift of more than three standard errors."""
        variance, correlation = self.noise(edges)
        time = _time_within(edges)
        # Of correlated values, each says less about the slope.
        explained = float(time @ self._values) ** 2 / float(time @ time) * (1 - correlation) ** 2
        return explained > 9 * variance

    def looks_like_line(self, edges: Sequence[int]) -> bool:
        """Whether a straight line explains nearly as much as the steps; of one step it explains three quarters."""
        total, _ = self._scatter(0, self.length)
        left = sum(self._scatter(begin, end)[0] for begin, end in itertools.pairwise(edges))
        time = _time_within((0, self.length))
        return float(time @ self._values) ** 2 / float(time @ time) > _LIKE_A_LINE * (total - left)


class Rest:
    """The noise around the levels: whether it is lopsided, lasting, or larger in some places."""

    def __init__(self, values: Floats, segments: int) -> None:
        self._values = values
        self._segments = segments
        self._squares = values * values
        self._variance = max(float(np.add.reduce(self._squares)) / len(values), _TINY)
        self._sums: list[float] = cumulated(self._squares).tolist()

    @property
    def skewness(self) -> float:
        return float(self._squares @ self._values) / (len(self._values) * math.sqrt(self._variance) ** 3)

    def persistence(self, correlation: float) -> float:
        """How much more sums of several neighbours vary than follows from the correlation of two; 1 if by chance."""
        length = len(self._values)
        lags = range(1, min(_LONGEST_LAG, length // 10) + 1)
        products = sum(float(self._values[lag:] @ self._values[:-lag]) for lag in lags)
        seen = 1 + 2 * (products / self._variance + self._segments * len(lags)) / length
        expected = 1 + 2 * sum(correlation**lag for lag in lags)
        return seen / expected if seen > expected + math.sqrt(len(lags) / length) else 1.0

    def loudness(self, place: int) -> float:
        """How much more it varies near a place than elsewhere, at least 1."""
        begin, end = max(place - _NEAR, 0), min(place + _NEAR, len(self._values))
        near = (self._sums[end] - self._sums[begin]) / self._variance
        return max(1.0, (_TRUSTED_ELSEWHERE + near) / (_TRUSTED_ELSEWHERE + end - begin))


def _time_within(edges: Sequence[int]) -> Floats:
    """For each point how far from the middle of its segment it lies."""
    middles = [(begin + end - 1) / 2 for begin, end in itertools.pairwise(edges)]
    time: Floats = _ASCENDING[: edges[-1]] - np.repeat(middles, _sizes(edges))
    return time


def _sizes(edges: Sequence[int]) -> list[int]:
    return [end - begin for begin, end in itertools.pairwise(edges)]


def _unbiased(correlation: float, segments: int, length: int) -> float:
    """Taking out means makes neighbours look less alike, by about (1 + 3ρ) / length a segment."""
    raised = correlation + segments / length + _CAUTION / math.sqrt(length)
    raised += 3 * max(raised, 0.0) * segments / length
    return min(max(raised, 0.0), _HIGHEST_CORRELATION)


def _whitened(rows: Floats, correlation: float) -> Floats:
    """The innovations of each row."""
    whitened = rows.copy()
    whitened[:, 0] *= math.sqrt(1 - correlation**2)
    whitened[:, 1:] -= correlation * rows[:, :-1]
    return whitened
