"""What is left of a step if the level may wander by itself: some kinds of wandering, each weighed by how well it fits.

A short series does not tell noise that is new every night from a level that goes its own way for some days: then a step
counts for little. Each night without such a mood makes it less likely, until only the noise seen counts.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from paceline.judge.intervals import LONGEST_SERIES, Floats

# How alike the moods of two nights are, and their variance in that of a night's own noise.
_KINDS = ((0.8, 1.0), (0.8, 3.0), (0.93, 2.0))
_LIKELY = math.log(0.2)  # Each kind before anything is known, beside noise without moods.
_TAPS = 24
_TINY = 1e-12
_SEEN = 64  # Points on each side of a step that say something of it.


class Wandering:
    """A series of residuals under each kind of wandering."""

    def __init__(self, residuals: Floats, freedom: int) -> None:
        taps, self._levels, self._squares, self._sums = _filters()
        padded = np.zeros(len(residuals) + _TAPS - 1)
        padded[_TAPS - 1 :] = residuals
        step = padded.itemsize
        windows: Floats = np.ndarray((_TAPS, len(residuals)), buffer=padded, strides=(step, step))
        self._innovations = taps @ np.ascontiguousarray(windows)
        squares = np.einsum("ij,ij->i", self._innovations, self._innovations)
        self._variances = np.maximum(squares, _TINY) / freedom
        self._freedom = freedom
        self._residuals = residuals

    def weights(self, correlation: float) -> Floats:
        """How likely each kind is, beside noise of which neighbours are alike by so much."""
        innovations = self._residuals[1:] - correlation * self._residuals[:-1]
        variance = max(float(innovations @ innovations), _TINY) / (self._freedom - 1)
        weights: Floats = np.exp(
            np.minimum(_LIKELY - self._freedom / 2 * np.log(self._variances / variance), 300)
        )
        return weights

    def squared_scores(self, begin: int, step: int, end: int, jump: float) -> Floats:
        """The squared score of a step under each kind, by generalised least squares."""
        begin, end = max(begin, step - _SEEN), min(end, step + _SEEN)
        before, size = step - begin, end - begin
        level, after = self._levels[:, :size], self._levels[:, : end - step]
        of_level, of_step = self._squares[size - 1], self._squares[end - step - 1]
        if before >= _TAPS:
            common = level[:, -1] * self._sums[end - step - 1]
        else:
            common = np.einsum("ij,ij->i", level[:, before:], after)
        seen = self._innovations[:, begin:end]
        by_level = np.einsum("ij,ij->i", level, seen) + jump * common
        by_step = np.einsum("ij,ij->i", after, seen[:, before:]) + jump * of_step
        share = common / of_level
        explained = (by_step - share * by_level) ** 2 / (of_step - share * common)
        scores: Floats = explained / self._variances
        return scores

    def squared_slow_scores(self, explained: float) -> Floats:
        """The squared score under each kind of what explains so much, and is slow beside all moods."""
        scores: Floats = explained * self._levels[:, -1] ** 2 / self._variances
        return scores


def mixed(own: float, others: Floats, weights: Floats, freedom: int) -> float:
    """The squared normal score as unlikely as the weighted mean of these of Student's t; the first weighs 1.

    Of t with ν degrees of freedom it is (8ν + 1)² / (8ν + 3)² · ν ln(1 + t² / ν) (Wallace).
    """
    scale = ((8 * freedom + 1) / (8 * freedom + 3)) ** 2 * freedom
    own = scale * math.log1p(own / freedom)
    chance, total = 1.0, 1.0
    for other, weight in zip(others.tolist(), weights.tolist(), strict=True):
        chance += weight * math.exp(min((own - scale * math.log1p(other / freedom)) / 2, 600.0))
        total += weight
    return own - 2 * math.log(chance / total)


@cache
def _filters() -> tuple[Floats, Floats, Floats, Floats]:
    """For each kind the filter that leaves what is new every night, newest last, and what it makes of a level.

    Of the latter also, for each number of points, the sums of squares and the sums.
    """
    taps = np.array([_taps(likeness, share) for likeness, share in _KINDS])
    levels = np.repeat(taps.sum(axis=1)[:, None], LONGEST_SERIES, axis=1)
    levels[:, :_TAPS] = np.cumsum(taps, axis=1)
    return (
        taps[:, ::-1].copy(),
        levels,
        np.cumsum(levels**2, axis=1).T.copy(),
        np.cumsum(levels, axis=1).T.copy(),
    )


def _taps(likeness: float, share: float) -> Sequence[float]:
    """A mood and a night's own noise together are a process of one autoregressive and one moving term."""
    at_once = share * (1 - likeness**2) + 1 + likeness**2
    half = at_once / (2 * likeness)
    moving = half - math.sqrt(half**2 - 1)
    return [1.0, *((moving - likeness) * moving**lag for lag in range(_TAPS - 1))]
