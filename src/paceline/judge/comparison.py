"""Two sets of measurements: is one better, how much, and how small a difference could have been seen.

Values are compared as ratios (by their logarithms). What is measured within one start of a process shares that start's
luck, so each start counts once, by its median. A difference is called one if it is sure and if it is large enough to
matter. The derivation and measured error rates are in docs/statistics.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
_NEGLIGIBLE = 1 / 3  # A difference that may be as small as this share of the margin is not called one.
_ASSUMED = 1 / 2  # The noise between sessions that is assumed where none is known, as a share of the margin.
_LOUDER = (
    4.0  # A session whose samples scatter so much more than the history knows has the error of its samples.
)
_NORMAL_FROM = 1e5  # Degrees of freedom from which on Student's t is the normal distribution.
FEWEST_SESSIONS = 3
"""Sessions on each side from which on they tell themselves how sessions differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How the candidate differs from the baseline: `ratio` with its 95 % interval.

    `minimum_detectable` is the relative change that measurements like these show in four of five cases. `p_value` is
    the chance to see a difference like this where there is none that matters. `ratio` is that of the levels
    `candidate` and `baseline`.
    """

    verdict: Verdict
    ratio: float
    low: float
    high: float
    minimum_detectable: float
    p_value: float = 1.0
    baseline: float = math.nan
    candidate: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How sessions differ by themselves: the standard deviation of their levels, with its degrees of freedom."""

    relative: float | None
    """That of the logarithms; None if not all levels are positive."""
    absolute: float
    freedom: float


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

    `paired`: the i-th of each side ran next to each other, so drift of the machine cancels. "better" and "worse" say
    that the difference is at least `margin`, and surely more than a third of it; "same", that it is smaller than
    `margin`. `level` is the confidence of the interval: higher than usual for those who look often, or at many metrics.
    """
    old, new = _starts(baseline, "baseline"), _starts(candidate, "candidate")
    if paired and len(old) != len(new):
        raise PacelineError(
            f"paired measurements come in pairs: {len(old)} of the baseline, {len(new)} of the candidate"
        )
    scale = _Scale(old, new)
    before, after = (_estimate(scale.of(side)) for side in (old, new))
    difference = _estimate(scale.of(new) - scale.of(old)) if paired else _difference(before, after)
    return scale.judged(
        before.mean, difference, higher_is_better=higher_is_better, margin=margin, level=level
    )


def compare_sessions(
    baseline: Sequence[Sequence[float]],
    candidate: Sequence[Sequence[float]],
    *,
    noise: Noise | None = None,
    higher_is_better: bool = False,
    margin: float = 0.03,
    level: float = LEVEL,
) -> Comparison:
    """Compare sessions, each given by its samples, which share that session's luck.

    `noise` is what is known of how sessions differ by themselves. Where it is not known, and a side has less than three
    sessions to tell, the interval holds the noise of the samples alone, and nothing is better or worse unless it would
    be so if sessions differed by half the margin.
    """
    given = [[np.asarray(one, dtype=float) for one in side] for side in (baseline, candidate)]
    for side, name in zip(given, ("baseline", "candidate"), strict=True):
        if not side or not all(one.size and np.isfinite(one).all() for one in side):
            raise PacelineError(f"the {name} has no values to compare, or some that are not finite numbers")
    scale = _Scale(*(np.concatenate(side) for side in given))
    sessions = [[_estimate(scale.of(one)) for one in side] for side in given]
    before, after = (_estimate(np.array([one.mean for one in side])) for side in sessions)
    spread = (noise.relative if scale.is_log else noise.absolute) if noise else None
    doubt = 0.0
    if noise and spread is not None:
        difference = _with_known_noise(sessions, replace(noise, absolute=spread))
    elif min(map(len, sessions)) >= FEWEST_SESSIONS:
        difference = _difference(before, after)
    else:
        unit = 1.0 if scale.is_log else scale.size(before.mean)
        doubt = (_ASSUMED * math.log1p(margin) * unit) ** 2 * sum(1 / len(side) for side in given)
        difference = _difference(*(_estimate(scale.of(np.concatenate(side))) for side in given))
    difference = replace(difference, mean=after.mean - before.mean)
    return scale.judged(
        before.mean, difference, doubt, higher_is_better=higher_is_better, margin=margin, level=level
    )


class _Scale:
    """Values by their logarithms, where all are positive; else as they are, relative to the baseline's size."""

    def __init__(self, old: Floats, new: Floats) -> None:
        self.is_log = bool(min(old.min(), new.min()) > 0)
        self._largest = float(max(np.abs(old).max(), np.abs(new).max())) or 1.0
        # Of values on both sides of zero the mean says nothing about their size.
        self._size = float(np.mean(np.abs(old))) if old.min() < 0 < old.max() else None

    def of(self, values: Floats) -> Floats:
        return np.log(values) if self.is_log else values

    def size(self, baseline: float) -> float:
        """What differences are relative to."""
        return max(abs(baseline) if self._size is None else self._size, _NOTHING * self._largest)

    def judged(
        self,
        baseline: float,
        difference: _Estimate,
        doubt: float = 0.0,
        *,
        higher_is_better: bool,
        margin: float,
        level: float,
    ) -> Comparison:
        """The comparison; `doubt` is a squared error that may be there, which what is better or worse must stand."""
        size = 1.0 if self.is_log else self.size(baseline)
        relevant = math.log1p(margin) if self.is_log else margin * size
        doubtful = _with_doubt(difference, doubt)
        reach, _ = _reach(difference, level, relevant)
        _, detectable = _reach(doubtful, level, relevant)
        if self.is_log:
            low, high = _exp(difference.mean - reach), _exp(difference.mean + reach)
            ratio = min(max(_exp(difference.mean), low), high)
            detectable = math.expm1(min(detectable, 700.0))
            levels = _exp(baseline), _exp(baseline + difference.mean)
        else:
            ratio = 1 + difference.mean / size
            low, high, detectable = ratio - reach / size, ratio + reach / size, detectable / size
            levels = baseline, baseline + difference.mean
        found = judge_interval(ratio, low, high, detectable, higher_is_better=higher_is_better, margin=margin)
        p_value = _p_value(doubtful, _NEGLIGIBLE * relevant)
        verdict = found.verdict
        if verdict in ("better", "worse") and p_value > 1 - level:
            verdict = "inconclusive"
        return replace(found, verdict=verdict, p_value=p_value, baseline=levels[0], candidate=levels[1])


def judge_interval(
    ratio: float, low: float, high: float, detectable: float, *, higher_is_better: bool, margin: float
) -> Comparison:
    """What an interval says: beyond the margin and surely not nothing, within the margin, or neither."""
    verdict: Verdict = "inconclusive"
    least = 1 + _NEGLIGIBLE * margin
    if is_beyond(ratio, margin) and (low > least or high < 1 / least):
        verdict = "better" if (ratio > 1) == higher_is_better else "worse"
    elif low > 1 / (1 + margin) and high < 1 + margin:
        verdict = "same"
    return Comparison(verdict=verdict, ratio=ratio, low=low, high=high, minimum_detectable=detectable)


def is_beyond(ratio: float, margin: float) -> bool:
    """Whether a change is as large as the margin, in either direction."""
    return ratio != 1 and (ratio >= 1 + margin or ratio <= 1 / (1 + margin))


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


def _difference(before: _Estimate, after: _Estimate) -> _Estimate:
    error2 = before.error2 + after.error2
    # Welch and Satterthwaite: the two sides may be differently noisy.
    parts = before.error2**2 / before.freedom + after.error2**2 / after.freedom if error2 else 0.0
    freedom = error2**2 / parts if parts else before.freedom + after.freedom
    freedom = 1.0 if math.isnan(freedom) else max(freedom, 1.0)
    return _Estimate(mean=after.mean - before.mean, error2=error2, freedom=freedom)


def _with_doubt(difference: _Estimate, doubt: float) -> _Estimate:
    """The same with an error that is known for sure beside the one that was measured."""
    error2 = difference.error2
    if not doubt or not math.isfinite(error2):
        return difference
    freedom = difference.freedom * (1 + doubt / error2) ** 2 if error2 else _NORMAL_FROM
    return replace(difference, error2=error2 + doubt, freedom=min(freedom, _NORMAL_FROM))


def _with_known_noise(sessions: Sequence[Sequence[_Estimate]], noise: Noise) -> _Estimate:
    """The error of a difference of sessions that vary by the noise, as far as those compared say nothing else."""
    means = [np.array([one.mean for one in side]) for side in sessions]
    scatter = sum(float(((side - side.mean()) ** 2).sum()) for side in means)
    freedom = noise.freedom + sum(len(side) - 1 for side in means)
    variance = (noise.absolute**2 * noise.freedom + scatter) / freedom
    total = 0.0
    for side in sessions:
        within = sum(one.error2 for one in side) / len(side)
        is_louder = math.isfinite(within) and within > _LOUDER * variance
        total += (within if is_louder else variance) / len(side)
        freedom = min(freedom, sum(one.freedom for one in side)) if is_louder else freedom
    return _Estimate(mean=0.0, error2=total, freedom=freedom)


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


def _reach(difference: _Estimate, level: float, margin: float) -> tuple[float, float]:
    """Half the width of the interval, and the difference that is called one with the usual power."""
    if math.isinf(difference.error2):
        return math.inf, math.inf
    error = math.sqrt(difference.error2)
    half = student_quantile((1 + level) / 2, difference.freedom) * error
    seen = max(margin, _NEGLIGIBLE * margin + half)
    return half, seen + student_quantile(_POWER, difference.freedom) * error


def _p_value(difference: _Estimate, least: float) -> float:
    """The chance of a difference so far beyond the least that matters, on either side."""
    beyond = abs(difference.mean) - least
    if beyond <= 0 or math.isinf(difference.error2):
        return 1.0
    error = math.sqrt(difference.error2)
    return min(1.0, 2 * student_tail(beyond / error, difference.freedom)) if error else 0.0


def _exp(value: float) -> float:
    return math.inf if value == math.inf else math.exp(min(max(value, -700.0), 700.0))


def student_tail(t: float, freedom: float) -> float:
    """The chance of Student's t above a positive value."""
    if freedom > _NORMAL_FROM:
        return math.erfc(t / math.sqrt(2)) / 2
    x, a, b = freedom / (freedom + t * t), freedom / 2, 0.5
    if x <= 0:
        return 0.0
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x)
    front = math.exp(front + b * math.log(t * t / (freedom + t * t))) if t else 0.0
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(x, a, b) / a / 2
    return (1 - front * _beta_fraction(1 - x, b, a) / b) / 2


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or 1e-300)
    found = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / (1 + step * d or 1e-300)
            c = 1 + step / c or 1e-300
            found *= d * c
        if abs(d * c - 1) < 1e-13:
            break
    return found


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
