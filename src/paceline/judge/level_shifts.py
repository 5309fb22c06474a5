"""One series with steps at given places: how noisy it is between them, and how sure each step is.

The noise is autoregressive of first order; steps are fitted by generalised least squares, so that the point at which
the series jumps counts for more than the slow swings on both sides.
"""

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.judge.intervals import LONGEST_SERIES, SHORTEST_SEGMENT, Floats, cumulated

_HIGHEST_CORRELATION = 0.9
_CAUTION = 0.3  # Added to the estimated correlation, in units of its standard error: being too sure is worse.
_LIKE_A_LINE = 0.8
_LATER = 12.0  # Squared errors that a drift must explain more if it begins later than the series.
_NEAR = 20
_TINY = 1e-12
_ASCENDING = np.arange(LONGEST_SERIES, dtype=float)
_DESCENDING = _ASCENDING[::-1].copy()
_TRUSTED_ELSEWHERE = 10.0  # The noise of the whole series counts as much as this many points near a step.


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A level that is flat up to `begin` and then rises by `slope` with every point."""

    begin: int
    slope: float
    values: Floats


class LevelShifts:
    """Cumulated sums of a series, from which every question about its segments is answered quickly."""

    def __init__(self, values: Floats) -> None:
        self.values = values
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
        return Rest(self.values - self.levels(edges))

    def whiten(self, correlation: float) -> None:
        """Take this correlation of neighbours for granted from now on."""
        innovations = np.zeros(self.length)
        np.subtract(self.values[1:], correlation * self.values[:-1], out=innovations[1:])
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
        rows = np.array([np.ones(end - begin), time, time >= step, self.values[begin:end]])
        level, line, jump, values = _whitened(rows, correlation)
        line = line - level * (float(level @ line) / float(level @ level))
        jump = jump - level * (float(level @ jump) / float(level @ level))
        by_line = float(line @ values) ** 2 / float(line @ line)
        by_step = float(jump @ values) ** 2 / float(jump @ jump)
        jump = jump - line * (float(line @ jump) / float(line @ line))
        return by_line - by_step, float(jump @ values) ** 2 / max(float(jump @ jump), _TINY)

    def line(self, edges: Sequence[int]) -> Line:
        """The drift that all segments share, from where on it explains most."""
        lines = []
        for begin in range(0, self.length // 2 + 1, self.length // 4):
            ramp = np.maximum(_ASCENDING[: self.length] - begin, 0.0)
            within = ramp - _means(ramp, edges)
            along, norm = float(within @ self.values), float(within @ within)
            # Most drifts are as old as the series.
            doubt = _LATER * self.noise(edges)[0] if begin else 0.0
            lines.append(
                (along**2 / norm - doubt, Line(begin=begin, slope=along / norm, values=along / norm * ramp))
            )
        return max(lines, key=lambda line: line[0])[1]

    def explained_by_line(self, line: Line, edges: Sequence[int]) -> float:
        """The sum of squares that a line explains within segments."""
        within = line.values - _means(line.values, edges)
        return float(within @ within)

    def levels(self, edges: Sequence[int]) -> Floats:
        """The mean of its segment for each point."""
        return _means(self.values, edges)

    def explained(self, edges: Sequence[int], step: int) -> float:
        """What a step explains between these edges, correlation left aside."""
        number = bisect_right(edges, step)
        begin, end = edges[number - 1], edges[number]
        if step == begin:
            return 0.0
        jump = self.mean(step, end) - self.mean(begin, step)
        return jump * jump * (step - begin) * (end - step) / (end - begin)

    def still_drifts(self, edges: Sequence[int]) -> bool:
        """Whether the segments share a drift of more than three standard errors."""
        variance, correlation = self.noise(edges)
        time = _time_within(edges)
        # Of correlated values, each says less about the slope.
        explained = float(time @ self.values) ** 2 / float(time @ time) * (1 - correlation) ** 2
        return explained > 9 * variance

    def looks_like_line(self, edges: Sequence[int], kept: Sequence[int]) -> bool:
        """Whether a drift beside the steps kept explains nearly as much as all; of one step it explains 3/4."""
        total, left = (
            sum(self._scatter(*each)[0] for each in itertools.pairwise(of)) for of in (kept, edges)
        )
        time = _time_within(kept)
        return float(time @ self.values) ** 2 / float(time @ time) > _LIKE_A_LINE * (total - left)


class Rest:
    """The noise around the levels: whether it is lopsided, lasting, or larger in some places."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self._squares = values * values
        self._variance = max(float(np.add.reduce(self._squares)) / len(values), _TINY)
        self._sums: list[float] = cumulated(self._squares).tolist()

    @property
    def skewness(self) -> float:
        return float(self._squares @ self.values) / (len(self.values) * math.sqrt(self._variance) ** 3)

    def loudness(self, place: int) -> float:
        """How much more it varies near a place than elsewhere, at least 1."""
        begin, end = max(place - _NEAR, 0), min(place + _NEAR, len(self.values))
        near = (self._sums[end] - self._sums[begin]) / self._variance
        return max(1.0, (_TRUSTED_ELSEWHERE + near) / (_TRUSTED_ELSEWHERE + end - begin))


def _time_within(edges: Sequence[int]) -> Floats:
    """For each point how far from the middle of its segment it lies."""
    middles = [(begin + end - 1) / 2 for begin, end in itertools.pairwise(edges)]
    time: Floats = _ASCENDING[: edges[-1]] - np.repeat(middles, _sizes(edges))
    return time


def _means(values: Floats, edges: Sequence[int]) -> Floats:
    sizes = _sizes(edges)
    return np.repeat(np.add.reduceat(values, edges[:-1]) / sizes, sizes)


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
