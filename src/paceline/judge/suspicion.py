"""Whether the newest values of a series look worse than those before: a suspicion that is worth running them again.

A change point needs many values to be sure of. This asks for less, and is wrong in one to five of a hundred nights for
a series that did not change: whoever acts upon it first measures again. Its rates are in docs/nightly.md.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_TAIL = 8
"""What has lasted longer is the business of change points."""

_BASELINE = 30
_FEWEST = 6
_SCORE = 3.0
_SMALLEST_EFFECT = 0.01
_CLIP = 3.0
_MEDIAN_FROM = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """The values from `index` on look worse: by `effect`, `score` standard errors above those before."""

    index: int
    effect: float
    score: float


def suspect_tail(values: Sequence[float], *, higher_is_better: bool = False) -> Suspicion | None:
    """The strongest suspicion about the newest values, one or several; None if they look like the others."""
    sign = -1.0 if higher_is_better else 1.0
    positive = all(value > 0 for value in values)
    series = [sign * (math.log(value) if positive else value) for value in values]
    found = [
        one
        for length in range(1, LONGEST_TAIL + 1)
        if (one := _suspect(series, len(series) - length)) is not None
    ]
    strongest = max(found, key=lambda one: one.score, default=None)
    if strongest is None:
        return None
    return _described(strongest, values)


def _suspect(series: Sequence[float], index: int) -> Suspicion | None:
    baseline, tail = series[max(0, index - _BASELINE) : max(0, index)], series[index:]
    if len(baseline) < _FEWEST:
        return None
    middle = statistics.median(baseline)
    noise = spread(baseline)
    above = _level(tail) - middle
    if above <= 0 or not _is_sustained(tail, middle, noise):
        return None
    # A median of n values is as exact as a mean of n / 1.57; few values know their own noise badly.
    error = noise * math.sqrt(_variance(len(tail)) + 1.57 / len(baseline))
    doubt = math.sqrt((len(baseline) - 3) / (len(baseline) - 1))
    score = above / error * doubt if error else math.inf
    return Suspicion(index=index, effect=0.0, score=score) if score >= _SCORE else None


def _level(tail: Sequence[float]) -> float:
    return statistics.fmean(tail) if len(tail) < _MEDIAN_FROM else statistics.median(tail)


def _variance(count: int) -> float:
    return 1 / count if count < _MEDIAN_FROM else 1.44 / count


def _is_sustained(tail: Sequence[float], middle: float, noise: float) -> bool:
    """Whether tonight's value, and most of the others, are higher: a spike of some nights ago proves nothing."""
    higher = sum(value > middle + noise / 2 for value in tail)
    return tail[-1] > middle and higher >= 0.6 * len(tail)


def spread(baseline: Sequence[float]) -> float:
    """Their standard deviation, spikes clipped."""
    middle = statistics.median(baseline)
    reach = _CLIP * 1.4826 * statistics.median(abs(value - middle) for value in baseline)
    clipped = [min(max(value, middle - reach), middle + reach) for value in baseline]
    mean = statistics.fmean(clipped)
    # The module's own works with exact fractions, which takes much longer.
    return math.sqrt(math.fsum((value - mean) ** 2 for value in clipped) / (len(clipped) - 1))


def _described(found: Suspicion, values: Sequence[float]) -> Suspicion | None:
    """With its relative size; None if that is too small to matter."""
    old = statistics.median(values[max(0, found.index - _BASELINE) : found.index])
    new = statistics.median(values[found.index :])
    effect = new / old - 1 if old else math.copysign(1.0, new)
    if abs(effect) < _SMALLEST_EFFECT or not math.isfinite(effect):
        return None
    # Values at the beginning that are nearer to the old level are not what makes the rest look odd.
    index = next(i for i in range(found.index, len(values)) if abs(values[i] - new) <= abs(values[i] - old))
    return Suspicion(index=index, effect=effect, score=found.score)
