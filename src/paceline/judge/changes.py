"""Where a series changed its level, robust to spikes, autocorrelation, two modes, weekdays and drift.

1. Spikes are clipped to the neighbourhood of a running median, and a weekly pattern is taken out.
2. Splits of intervals of all lengths are scored; the best ones are candidates (`intervals`).
3. Each candidate is tested again between its neighbours, against the noise that is left then (`level_shifts`);
   what is not significant, or is better explained by a steady drift, goes.

A p-value is that of the largest of all scores of a series without changes: it accounts for the search. The
derivation and measured error rates are in docs/statistics.md.
"""

import bisect
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from paceline.judge.intervals import SHORTEST_SEGMENT, Floats, Integers, intervals
from paceline.judge.level_shifts import LevelShifts

_WINDOW = 11
_SHORTEST_SERIES = 2 * SHORTEST_SEGMENT + 2
_CLIP = 2.5  # In robust standard deviations; 2 % less efficient than no clipping on gaussian noise.
_SCREEN = 0.85  # The first look lets pass what the second, sharper one decides.
_ALARMS_PER_POINT = 5e-4
_WEEK = 7
_TINY = 1e-12
_LARGEST = 1e300
_LARGEST_EXPONENT = math.log(_LARGEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """The first point of a new level; `effect` is after/before − 1."""

    index: int
    effect: float
    p_value: float


def change_points(values: Iterable[float]) -> tuple[ChangePoint, ...]:
    """The points at which a series of finite numbers changes its level, in order."""
    series = np.asarray(tuple(values) if not isinstance(values, np.ndarray) else values, dtype=float)
    length = len(series)
    if length < _SHORTEST_SERIES:
        return ()
    ratios = bool(series.min() > 0)
    clipped, scale = _clip(np.log(series) if ratios else _within_one(series))
    if scale == 0:
        return ()
    calm = _without_weekdays(clipped, scale)
    calm = calm - calm[length // 2]
    candidates = _candidates(calm, scale)
    if not candidates:
        return ()
    shifts = LevelShifts(calm)
    return _described(_confirmed(shifts, candidates, length), shifts, series, ratios=ratios)


def _within_one(series: Floats) -> Floats:
    """The series in units of its largest value, so that squares of huge and of tiny numbers stay in range."""
    largest = float(np.abs(series).max())
    return series / largest if largest else series


def p_value(score: float, length: int) -> float:
    """How likely the best score of a series of white noise is at least this."""
    if score <= 1:
        return 1.0
    return -math.expm1(-_searched(length) * math.exp(-score * score / 2))


def _searched(length: int) -> float:
    # Fitted to the simulated maximum over all intervals, for 30 to 1,000 points; see docs/statistics.md.
    return 0.16 * length * math.log(length)


@lru_cache(maxsize=1024)
def _threshold(length: int) -> float:
    """The score that is reached by chance as often as alarms are allowed."""
    chance = min(max(_ALARMS_PER_POINT * length, 0.01), 0.1)
    return math.sqrt(2 * math.log(_searched(length) / -math.log1p(-chance)))


def _clip(series: Floats) -> tuple[Floats, float]:
    """The series with spikes cut to the neighbourhood of its running median, and its robust standard deviation."""
    length = len(series)
    windows = series[_window_indices(length)]
    windows.sort(axis=1)
    medians = windows[:, windows.shape[1] // 2]
    distances = np.abs(series - medians)
    distances.sort()
    # 1.4826 for the median of a normal distribution, and 6 % for being close to a median of its own window.
    scale = 1.57 * float(distances[length // 2]) or 2 * float(distances.mean())
    if scale <= _TINY * max(1.0, float(np.abs(series).max())):
        return _step_like(series, medians)
    reach = _CLIP * scale
    return np.minimum(np.maximum(series, medians - reach), medians + reach), scale


def _step_like(series: Floats, medians: Floats) -> tuple[Floats, float]:
    """A series without noise: its running medians, with a noise so small that every lasting step counts."""
    spread = float(medians.max() - medians.min())
    return medians.copy(), spread * 1e-6


@lru_cache(maxsize=64)
def _window_indices(length: int) -> Integers:
    """For each point its neighbours; at the ends the series is mirrored."""
    half = min(_WINDOW, length - 1 if length % 2 == 0 else length - 2) // 2
    indices: Integers = np.abs(np.arange(length)[:, None] + np.arange(-half, half + 1)[None, :])
    beyond = indices >= length
    indices[beyond] = 2 * (length - 1) - indices[beyond]
    return indices


def _difference_variance(series: Floats, lag: int, scale: float) -> float:
    differences = series[lag:] - series[:-lag]
    np.multiply(differences, differences, out=differences)
    return float(np.minimum(differences, (5 * scale) ** 2, out=differences).mean())


def _without_weekdays(series: Floats, scale: float) -> Floats:
    """The series less its weekly pattern, if points a week apart are clearly more alike than neighbours."""
    length = len(series)
    if length < 5 * _WEEK:
        return series
    near = min(_difference_variance(series, 1, scale), _difference_variance(series, 2, scale))
    if _difference_variance(series, _WEEK, scale) > 0.75 * near:
        return series
    sums = np.concatenate(([0.0], np.cumsum(series)))
    rest = series[3 : length - 3] - (sums[_WEEK:] - sums[:-_WEEK]) / _WEEK
    pattern = np.array([np.median(rest[(day - 3) % _WEEK :: _WEEK]) for day in range(_WEEK)])
    return series - np.resize(pattern - pattern.mean(), length)


def _long_run_deviation(series: Floats, scale: float) -> float:
    """Standard deviation of many points' sum, per root of their number; from differences, which steps hardly touch."""
    neighbours = _difference_variance(series, 1, scale)
    if neighbours <= 0:
        return scale
    correlation = min(max(_difference_variance(series, 2, scale) / neighbours - 1, 0.0), 0.9)
    return math.sqrt(neighbours * (1 + correlation) / 2) / (1 - correlation)


def _candidates(series: Floats, scale: float) -> list[int]:
    """Splits that stand out, best first, no two in one interval."""
    length = len(series)
    looked_at = intervals(length)
    scores = looked_at.scores(np.concatenate(([0.0], np.cumsum(series))))
    best = looked_at.best(scores)
    needed = _SCREEN * _threshold(length) * _long_run_deviation(series, scale)
    outstanding = np.flatnonzero(best >= needed)
    chosen: list[int] = []
    for interval in outstanding[np.argsort(-best[outstanding])].tolist():
        begin, end = looked_at.bounds[interval]
        next_chosen = bisect.bisect_right(chosen, begin)
        if next_chosen == len(chosen) or chosen[next_chosen] >= end:
            bisect.insort(chosen, looked_at.split_of(interval, scores))
    return chosen


def _confirmed(shifts: LevelShifts, steps: list[int], length: int) -> dict[int, float]:
    """Steps that hold against the noise between the others, with their scores; the weakest goes first."""
    needed = _threshold(length) ** 2
    moves = 0
    while steps:
        edges = [0, *steps, length]
        variance, correlation = shifts.noise(edges)
        found = [shifts.best_step(edges[i], edges[i + 2], correlation) for i in range(len(steps))]
        weakest = min(range(len(steps)), key=lambda i: found[i][1])
        if found[weakest][1] < needed * variance:
            del steps[weakest]
            continue
        moved = [place for place, _ in found]
        if moved != steps and moves < 3 and _apart(moved):
            steps, moves = moved, moves + 1
            continue
        drifts = [
            i
            for i, step in enumerate(steps)
            if shifts.is_drift(edges[i], edges[i + 2], step, correlation, found[i][1], needed * variance)
        ]
        if not drifts:
            scale = variance or _TINY
            return {step: math.sqrt(found[i][1] / scale) for i, step in enumerate(steps)}
        del steps[min(drifts, key=lambda i: found[i][1])]
    return {}


def _apart(steps: list[int]) -> bool:
    return all(right - left >= SHORTEST_SEGMENT for left, right in itertools.pairwise(steps))


def _described(
    scores: dict[int, float], shifts: LevelShifts, series: Floats, *, ratios: bool
) -> tuple[ChangePoint, ...]:
    edges = [0, *scores, len(series)]
    described = []
    for i, (step, score) in enumerate(scores.items()):
        if ratios:
            growth = shifts.mean(step, edges[i + 2]) - shifts.mean(edges[i], step)
            effect = math.expm1(min(growth, _LARGEST_EXPONENT))
        else:
            effect = _relative(series[edges[i] : step], series[step : edges[i + 2]])
        described.append(ChangePoint(index=step, effect=effect, p_value=p_value(score, len(series))))
    return tuple(described)


def _relative(before: Floats, after: Floats) -> float:
    """after/before − 1 of the medians; relative to the larger one where the former is nothing."""
    old, new = float(np.median(before)), float(np.median(after))
    effect = new / old - 1 if old else math.copysign(1.0, new) if new else 0.0
    return min(max(effect, -_LARGEST), _LARGEST)
