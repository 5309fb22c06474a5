"""Two sets of measurements: is one better, how much, and how small a difference could have been seen.

Values are compared as ratios (by their logarithms). What is measured within one start of a process shares that start's
luck, so each start counts once, by its median. The derivation and measured error rates are in docs/statistics.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from paceline.errors import PacelineError
from paceline.judge.intervals import Floats
from paceline.model import Verdict

Samples = Sequence[float] | Sequence[Sequence[float]]

LEVEL = 0.96  # 95 % are promised; the rest is spare for noise that is not normal.
_POWER = 0.8
_TRIM = 0.1
_TRIMMED_FROM = 10  # With fewer values, none is left out.
_CORRELATED_FROM = 10
_NOTHING = 1e-9  # A baseline this much smaller than what it is compared with is as good as zero.


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How the candidate differs from the baseline: `ratio` with its 95 % interval.

    `minimum_detectable` is the relative change that measurements like these show in four of five cases.
    """

    verdict: Verdict
    ratio: float
    low: float
    high: float
    minimum_detectable: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Estimate:
    """A mean with its squared standard error and the degrees of freedom that this has."""

    mean: float
    error2: float
    freedom: float


def compare(
    baseline: Samples,
    candidate: Samples,
    *,
    paired: bool = False,
    higher_is_better: bool = False,
    margin: float = 0.03,
    level: float = LEVEL,
) -> Comparison:
    """Compare measurements; each side holds values, or the values of each of several starts.

    `paired`: the i-th of each side ran next to each other, so drift of the machine cancels. "same" says that no
    difference was shown and that it is smaller than `margin`. `level` is the confidence of the interval: higher than
    usual for those who look often, or at many metrics.
    """
    old, new = _starts(baseline, "baseline"), _starts(candidate, "candidate")
    if paired and len(old) != len(new):
        raise PacelineError(
            f"paired measurements come in pairs: {len(old)} of the baseline, {len(new)} of the candidate"
        )
    if min(old.min(), new.min()) <= 0:
        return _compare_differences(
            old, new, paired=paired, higher_is_better=higher_is_better, margin=margin, level=level
        )
    difference = _difference(np.log(old), np.log(new), paired=paired)
    reach, detectable = _reach(difference, level)
    low, high = _exp(difference.mean - reach), _exp(difference.mean + reach)
    ratio = min(max(_exp(difference.mean), low), high)
    detectable = math.expm1(min(detectable, 700.0))
    return judge_interval(ratio, low, high, detectable, higher_is_better=higher_is_better, margin=margin)


def _compare_differences(
    old: Floats, new: Floats, *, paired: bool, higher_is_better: bool, margin: float, level: float
) -> Comparison:
    """Values that are not all positive have no logarithms: their difference, relative to the baseline's size."""
    largest = float(max(np.abs(old).max(), np.abs(new).max())) or 1.0
    size = max(float(np.mean(np.abs(old))), _NOTHING * largest)
    difference = _difference(old / size, new / size, paired=paired)
    reach, detectable = _reach(difference, level)
    ratio = 1 + difference.mean
    return judge_interval(
        ratio, ratio - reach, ratio + reach, detectable, higher_is_better=higher_is_better, margin=margin
    )


def judge_interval(
    ratio: float, low: float, high: float, detectable: float, *, higher_is_better: bool, margin: float
) -> Comparison:
    """What an interval says: on one side of 1, within the margin around it, or neither."""
    verdict: Verdict = "inconclusive"
    if low > 1 or high < 1:
        verdict = "better" if (ratio > 1) == higher_is_better else "worse"
    elif low > 1 / (1 + margin) and high < 1 + margin:
        verdict = "same"
    return Comparison(verdict=verdict, ratio=ratio, low=low, high=high, minimum_detectable=detectable)


def _starts(samples: Samples, side: str) -> Floats:
    """One number a start."""
    if not len(samples):
        raise PacelineError(f"the {side} has no values to compare")
    starts = np.array([_middle(start) for start in samples])
    if not np.isfinite(starts).all():
        raise PacelineError(f"the {side} has values that are not finite numbers")
    return starts


def _middle(start: float | Sequence[float]) -> float:
    # Single values are by far the most, and numpy's median takes long to see it.
    return float(start if isinstance(start, int | float) else np.median(np.asarray(start, dtype=float)))


def _difference(old: Floats, new: Floats, *, paired: bool) -> _Estimate:
    if paired:
        return _estimate(new - old)
    before, after = _estimate(old), _estimate(new)
    error2 = before.error2 + after.error2
    # Welch and Satterthwaite: the two sides may be differently noisy.
    parts = before.error2**2 / before.freedom + after.error2**2 / after.freedom if error2 else 0.0
    freedom = error2**2 / parts if parts else before.freedom + after.freedom
    return _Estimate(mean=after.mean - before.mean, error2=error2, freedom=max(freedom, 1.0))


def _estimate(values: Floats) -> _Estimate:
    """A trimmed mean and its error by Yuen's method; correlated neighbours make it less sure."""
    count = len(values)
    if count == 1:
        return _Estimate(mean=float(values[0]), error2=math.inf, freedom=1.0)
    cut = int(_TRIM * count) if count >= _TRIMMED_FROM else 0
    ordered = np.sort(values)
    kept = ordered[cut : count - cut]
    low, high = kept[0], kept[-1]
    clipped = np.clip(values, low, high)
    scatter = float(((clipped - clipped.mean()) ** 2).sum())
    error2 = scatter / (len(kept) * (len(kept) - 1))
    return _Estimate(
        mean=float(kept.mean()), error2=error2 * _inflation(clipped), freedom=float(len(kept) - 1)
    )


def _inflation(values: Floats) -> float:
    """How much larger the variance of the mean is when neighbours are alike, as under drift."""
    count = len(values)
    if count < _CORRELATED_FROM:
        return 1.0
    rest = values - values.mean()
    total = float(rest @ rest)
    correlation = float(rest[1:] @ rest[:-1]) / total + 1 / count if total else 0.0
    correlation = min(max(correlation, 0.0), 0.95)
    return (1 + correlation) / (1 - correlation) if correlation > 2 / math.sqrt(count) else 1.0


def _reach(difference: _Estimate, level: float) -> tuple[float, float]:
    """Half the width of the interval, and the difference seen with the usual power."""
    if math.isinf(difference.error2):
        return math.inf, math.inf
    error = math.sqrt(difference.error2)
    half = student_quantile((1 + level) / 2, difference.freedom)
    return half * error, (half + student_quantile(_POWER, difference.freedom)) * error


def _exp(value: float) -> float:
    return math.inf if value == math.inf else math.exp(min(max(value, -700.0), 700.0))


def student_quantile(probability: float, freedom: float) -> float:
    """Student's t for a probability of at least one half (G. W. Hill, 1970; exact for 1 and 2 degrees)."""
    tail = 2 * (1 - probability)
    if freedom <= 1:
        return 1 / math.tan(tail * math.pi / 2)
    if freedom == 2:
        return math.sqrt(2 / (tail * (2 - tail)) - 2)
    a = 1 / (freedom - 0.5)
    b = 48 / (a * a)
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * freedom
    y = (d * tail) ** (2 / freedom)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(tail / 2)
        y = x * x
        if freedom < 5:
            c += 0.3 * (freedom - 4.5) * (x + 0.6)
        c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        slope = 1 / (((freedom + 6) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2) * 3) + 0.5 / (
            freedom + 4
        )
        y = (slope * y - 1) * (freedom + 1) / (freedom + 2) + 1 / y
    return math.sqrt(freedom * y)
