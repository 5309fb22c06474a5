"""One series with steps at given places: how noisy it is between them, and how sure each step is.

The noise is autoregressive of first order; steps are fitted by generalised least squares, so that the point at which
the series jumps counts for more than the slow swings on both sides.
"""

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from paceline.judge.intervals import LONGEST_SERIES, SHORTEST_SEGMENT, Floats, cumulated

_HIGHEST_CORRELATION = 0.9
_CAUTION = 0.3  # Added to the estimated correlation, in units of its standard error: being too sure is worse.
SHORTEST_DRIFT = 40
_ENDED = 80  # Points of a drift that is over: a shorter one might be a step that few points tell from it.
_PARTS = 12  # A drift is looked for from the beginning of each twelfth of a series to the end of each.
_LATER = 3.0  # Squared errors that a drift must explain more if it begins later than the series, or ends before it.
_NEAR = 20
_TINY = 1e-12
_ASCENDING = np.arange(LONGEST_SERIES, dtype=float)
_DESCENDING = _ASCENDING[::-1].copy()
_TRUSTED_ELSEWHERE = 10.0  # The noise of the whole series counts as much as this many points near a step.


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A level that is flat up to `begin`, rises by `slope` with every point up to `end`, and is flat from there on."""

    begin: int
    end: int
    slope: float
    values: Floats
    explained: float
    """The sum of squares that it explains within segments."""


class LevelShifts:
    """Cumulated sums of a series, from which every question about its segments is answered quickly."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.length = len(values)
        self._items: list[float] = values.tolist()
        self._sums: list[float] = cumulated(values).tolist()
        self._squares: list[float] = cumulated(values * values).tolist()
        self._products: list[float] = [0.0, *cumulated(values[1:] * values[:-1]).tolist()]
        self._correlation = -1.0
        self._innovation_sums = self._projected = values

    @cached_property
    def _moments(self) -> list[float]:
        moments: list[float] = cumulated(self.values * _ASCENDING[: self.length]).tolist()
        return moments

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
        """The drift that all segments share, from where on and up to where it explains most."""
        drifts = _drifts(self.length)
        # What is left of a ramp within segments is its norm less that of its means.
        of_segments = np.diff(drifts.sums[:, edges], axis=1)
        norm = drifts.norms - np.einsum("ij,ij,j->i", of_segments, of_segments, 1 / np.diff(edges))
        norm = np.maximum(norm, _TINY)
        along = drifts.ramps @ (self.values - self.levels(edges))
        explained = along * along / norm
        best = int((explained - drifts.doubts * self.noise(edges)[0]).argmax())
        slope = float(along[best] / norm[best])
        begin, end = drifts.bounds[best]
        return Line(
            begin=begin,
            end=end,
            slope=slope,
            values=slope * drifts.ramps[best],
            explained=float(explained[best]),
        )

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

    def left(self, edges: Sequence[int]) -> float:
        """The sum of squares that is left when the mean of each segment is taken out."""
        return sum(self._scatter(*each)[0] for each in itertools.pairwise(edges))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drifts:
    """Where drifts of a series may begin and end: each as a ramp of slope 1, with its sums up to each point, and how
    much more than others it must explain."""

    bounds: list[tuple[int, int]]
    ramps: Floats
    sums: Floats
    norms: Floats
    doubts: Floats


@lru_cache(maxsize=16)
def _drifts(length: int) -> _Drifts:
    places = sorted({length * part // _PARTS for part in range(_PARTS)} | {length - 1})
    bounds = [
        (begin, end)
        for begin, end in itertools.combinations(places, 2)
        if end - begin + 1 >= (SHORTEST_DRIFT if end == length - 1 else _ENDED)
    ]
    # Most drifts are as old as the series, and go on.
    doubts = [_LATER * ((begin > 0) + (end < length - 1)) for begin, end in bounds]
    begins, ends = np.array(bounds, dtype=float).T[:, :, None]
    ramps = np.minimum(np.maximum(_ASCENDING[:length] - begins, 0.0), ends - begins)
    sums = np.zeros((len(bounds), length + 1))
    np.cumsum(ramps, axis=1, out=sums[:, 1:])
    norms = np.einsum("ij,ij->i", ramps, ramps)
    return _Drifts(bounds=bounds, ramps=ramps, sums=sums, norms=norms, doubts=np.array(doubts))


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
