"""A series made fit for looking for steps: spikes clipped, a weekly pattern taken out."""

import math
from functools import cache

import numpy as np

from paceline.judge.intervals import LONGEST_SERIES, Floats, Integers

_WINDOW = 11
_CLIP = 2.5  # In robust standard deviations; 2 % less efficient than no clipping on gaussian noise.
_WEEK = 7
_TINY = 1e-12
_LARGEST_DIFFERENCE = 5.0


def calmed(series: Floats) -> tuple[Floats, float]:
    """The series without spikes and weekdays, around 0 in units of its robust standard deviation, and the latter."""
    clipped, scale = _clip(series)
    if scale == 0:
        return clipped, scale
    clipped -= clipped[len(clipped) // 2]
    clipped /= scale
    return _without_weekdays(clipped), scale


def long_run_deviation(series: Floats) -> float:
    """Standard deviation of many points' sum, per root of their number; from differences, which steps hardly touch."""
    neighbours = _difference_variance(series, 1)
    if neighbours <= 0:
        return 1.0
    correlation = min(max(_difference_variance(series, 2) / neighbours - 1, 0.0), 0.9)
    return math.sqrt(neighbours * (1 + correlation) / 2) / (1 - correlation)


def _clip(series: Floats) -> tuple[Floats, float]:
    """The series with spikes cut to the neighbourhood of its running median, and its robust standard deviation."""
    length = len(series)
    half = min(_WINDOW, length - 1 if length % 2 == 0 else length - 2) // 2
    # At the ends the series is mirrored.
    mirrored = np.concatenate((series[half:0:-1], series, series[-2 : -2 - half : -1]))
    windows = mirrored[_window_indices(half)[:length]]
    windows.sort(axis=1)
    medians = windows[:, half]
    distances = np.abs(series - medians)
    distances.sort()
    # 1.4826 for the median of a normal distribution, and 6 % for being close to a median of its own window.
    scale = 1.57 * float(distances[length // 2]) or 2 * float(distances.mean())
    if scale <= _TINY * max(1.0, float(np.abs(series).max())):
        return _step_like(medians)
    reach = _CLIP * scale
    return np.minimum(np.maximum(series, medians - reach), medians + reach), scale


def _step_like(medians: Floats) -> tuple[Floats, float]:
    """A series without noise: its running medians, with a noise so small that every lasting step counts."""
    spread = float(medians.max() - medians.min())
    return medians.copy(), spread * 1e-6


@cache
def _window_indices(half: int) -> Integers:
    """For each point of a mirrored series its neighbours."""
    return np.arange(LONGEST_SERIES)[:, None] + np.arange(2 * half + 1)[None, :]


def _difference_variance(series: Floats, lag: int) -> float:
    differences = series[lag:] - series[:-lag]
    np.multiply(differences, differences, out=differences)
    np.minimum(differences, _LARGEST_DIFFERENCE**2, out=differences)
    return float(np.add.reduce(differences)) / len(differences)


def _without_weekdays(series: Floats) -> Floats:
    """The series less its weekly pattern, if points a week apart are clearly more alike than neighbours."""
    length = len(series)
    if length < 5 * _WEEK:
        return series
    near = min(_difference_variance(series, 1), _difference_variance(series, 2))
    if _difference_variance(series, _WEEK) > 0.75 * near:
        return series
    sums = np.concatenate(([0.0], np.cumsum(series)))
    rest = series[3 : length - 3] - (sums[_WEEK:] - sums[:-_WEEK]) / _WEEK
    pattern = np.array([np.median(rest[(day - 3) % _WEEK :: _WEEK]) for day in range(_WEEK)])
    return series - np.resize(pattern - pattern.mean(), length)
