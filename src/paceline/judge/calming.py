"""A series without what says nothing of its level: spikes and the pattern of the week."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from paceline.judge.intervals import LONGEST_SERIES, SHORTEST_SEGMENT, Floats, Integers

_WINDOW = 11
# In robust standard deviations; half a percent less efficient than no clipping on gaussian noise.
_CLIP = 3.0
_ROW = 3e-5  # How likely a row of spikes at the end must be to be taken for one.
_WEEK = 7
_TINY = 1e-12
_LARGEST_DIFFERENCE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm:
    """A series around 0 in units of its robust standard deviation `scale`, with its spikes clipped."""

    values: Floats
    scale: float
    middle: float
    weekdays: Floats | None

    def with_spikes(self, series: Floats) -> Floats:
        """The series as it was, in the same units."""
        with np.errstate(over="ignore"):  # Infinite where there is no other noise than spikes.
            same: Floats = (series - self.middle) / self.scale
        return same if self.weekdays is None else same - self.weekdays


def calmed(series: Floats, days: Integers | None) -> Calm:
    """The series without spikes and weekdays; a scale of 0 if it never changes."""
    clipped, scale = _clip(series)
    middle = float(clipped[len(clipped) // 2])
    if scale == 0:
        return Calm(values=clipped, scale=scale, middle=middle, weekdays=None)
    clipped -= middle
    clipped /= scale
    weekdays = _weekdays(clipped, days)
    if weekdays is not None:
        clipped -= weekdays
    return Calm(values=clipped, scale=scale, middle=middle, weekdays=weekdays)


def difference_variance(series: Floats, lag: int) -> float:
    """The mean square of differences between points so far apart, those across a step cut."""
    return _mean_square(series[lag:] - series[:-lag])


def in_a_week(series: Floats, days: Integers | None) -> Floats:
    """The differences between points a week apart: seven days, or seven points where days are not known."""
    if days is None:
        return series[_WEEK:] - series[:-_WEEK]
    later = np.minimum(np.searchsorted(days, days + _WEEK), len(days) - 1)
    (pairs,) = (days[later] == days + _WEEK).nonzero()
    differences: Floats = series[later[pairs]] - series[pairs]
    return differences


def _mean_square(differences: Floats) -> float:
    np.multiply(differences, differences, out=differences)
    np.minimum(differences, _LARGEST_DIFFERENCE**2, out=differences)
    return float(np.add.reduce(differences)) / len(differences)


def _clip(series: Floats) -> tuple[Floats, float]:
    """The series with spikes cut to the neighbourhood of its running median, and its robust standard deviation."""
    length = len(series)
    half = min(_WINDOW, length - 1 if length % 2 == 0 else length - 2) // 2
    windows = series[_window_indices(half)[: length - 2 * half]]
    windows.sort(axis=1)
    # At both ends the last whole window speaks: what lasts for some points only may be a row of spikes.
    medians = np.empty(length)
    medians[half : length - half] = windows[:, half]
    medians[:half], medians[length - half :] = windows[0, half], windows[-1, half]
    distances = np.sort(np.abs(series - medians))
    # 1.4826 for the median of a normal distribution, and 6 % for being close to a median of its own window.
    scale = 1.57 * float(distances[length // 2])
    row = _row_beyond(series - medians, _CLIP * scale, half)
    if row:
        medians[length - row :] = np.median(series[length - row :])
    if scale == 0:  # Most points lie on a level.
        scale = 2 * float(np.abs(series - medians).mean())
    if scale <= _TINY * max(1.0, float(np.abs(series).max())):
        # A series without noise: its running medians, with a noise so small that every lasting step counts.
        return medians, float(medians.max() - medians.min()) * 1e-6
    reach = _CLIP * scale
    return np.minimum(np.maximum(series, medians - reach), medians + reach), scale


def _row_beyond(away: Floats, reach: float, longest: int) -> int:
    """How many points at the end lie beyond the reach together, if they are too many to be spikes of this series."""
    beyond = (away if away[-1] > 0 else -away) > reach
    row = 0
    while row < longest and beyond[-1 - row]:
        row += 1
    before = len(away) - row
    spikes = (int(np.count_nonzero(beyond)) - row + 0.5) / (before + 1)
    is_level = row >= SHORTEST_SEGMENT and (spikes**row <= _ROW or (reach == 0 and spikes * before < 1))
    return row if is_level else 0


@cache
def _window_indices(half: int) -> Integers:
    """Every window of a series."""
    return np.arange(LONGEST_SERIES)[:, None] + np.arange(2 * half + 1)[None, :]


def _weekdays(series: Floats, days: Integers | None) -> Floats | None:
    """The weekly pattern, if points a week apart are clearly more alike than neighbours."""
    length = len(series)
    if length < 5 * _WEEK:
        return None
    near = min(difference_variance(series, 1), difference_variance(series, 2))
    a_week_apart = in_a_week(series, days)
    if len(a_week_apart) < 4 * _WEEK or _mean_square(a_week_apart) > 0.75 * near:
        return None
    weekdays = (np.arange(length) if days is None else days) % _WEEK
    sums = np.concatenate(([0.0], np.cumsum(series)))
    rest = series[3 : length - 3] - (sums[_WEEK:] - sums[:-_WEEK]) / _WEEK
    of_rest = weekdays[3 : length - 3]
    pattern = np.array([np.median(rest[of_rest == day]) if day in of_rest else 0.0 for day in range(_WEEK)])
    shifted: Floats = (pattern - pattern.mean())[weekdays]
    return shifted
