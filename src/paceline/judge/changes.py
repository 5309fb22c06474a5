"""Where a series changed its level, robust to spikes, autocorrelation, two modes, weekdays and drift.

1. Spikes are clipped to the neighbourhood of a running median, and a weekly pattern is taken out.
2. Splits of intervals of all lengths are scored; the best ones are candidates (`intervals`).
3. Each candidate is tested again between its neighbours, against the noise that is left then (`level_shifts`);
   what is not significant, or is better explained by a steady drift, goes.

A p-value is that of the largest of all scores of a series without changes: it accounts for the search. The
derivation and measured error rates are in docs/statistics.md.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from paceline.judge.confirmation import confirm
from paceline.judge.intervals import LONGEST_SERIES, SHORTEST_SEGMENT, Floats, Integers, cumulated, intervals
from paceline.record.capacity import whole_cpus

_SHORTEST_SERIES = 2 * SHORTEST_SEGMENT + 2
_HOP = LONGEST_SERIES * 3 // 4
_INSIDE = (LONGEST_SERIES - _HOP) // 2
_SAME_PLACE = 5
_SCREEN = 0.75  # The first look lets pass what the second, sharper one decides.
_ALARMS_PER_POINT = 4e-4
_LARGEST = 1e300
_LARGEST_EXPONENT = math.log(_LARGEST)
_WINDOW = 11
_CLIP = 2.5  # In robust standard deviations; 2 % less efficient than no clipping on gaussian noise.
_WEEK = 7
_TINY = 1e-12
_LARGEST_DIFFERENCE = 5.0
_PAYS_FROM = 500_000  # Points; with fewer, starting processes takes longer than they save.
_CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """The first point of a new level; `effect` is after/before − 1."""

    index: int
    effect: float
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A change of level within one window, with how sure it is."""

    index: int
    effect: float
    score: float


def change_points(values: Iterable[float]) -> tuple[ChangePoint, ...]:
    """The points at which a series of finite numbers changes its level, in order."""
    series = np.asarray(tuple(values) if not isinstance(values, np.ndarray) else values, dtype=float)
    return _joined([_shifts_within(series, begin, end) for begin, end in _windows(len(series))], len(series))


class Detector:
    """A series that grows; `change_points` is at every length what the function of that name says of it.

    Of a long series only the last window is judged anew: one more point costs the same at any length.
    """

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._values = np.array(tuple(values), dtype=float)
        self._length = len(self._values)
        self._complete: list[list[Shift]] = []
        self._found: tuple[ChangePoint, ...] | None = None

    def append(self, value: float) -> None:
        """Take in the next value."""
        if self._length == len(self._values):
            self._values = np.concatenate((self._values, np.empty(max(self._length, 16))))
        self._values[self._length] = value
        self._length += 1
        self._found = None

    @property
    def change_points(self) -> tuple[ChangePoint, ...]:
        """Where the level changed so far."""
        if self._found is None:
            *complete, last = _windows(self._length)
            for begin, end in complete[len(self._complete) :]:
                self._complete.append(_shifts_within(self._values, begin, end))
            newest = _shifts_within(self._values, *last)
            self._found = _joined([*self._complete, newest], self._length)
        return self._found


def change_points_of_many(
    series: Iterable[Sequence[float] | Floats], jobs: int | None = None
) -> list[tuple[ChangePoint, ...]]:
    """The change points of each series, in order; on several processes where that is faster, or on `jobs`."""
    every = [np.asarray(values, dtype=float) for values in series]
    pays = sum(map(len, every)) >= _PAYS_FROM
    wanted = jobs or (whole_cpus() if pays else 1)
    if wanted <= 1 or len(every) <= 1:
        return [change_points(values) for values in every]
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(min(wanted, len(every))) as pool:
        return list(pool.map(change_points, every, chunksize=_CHUNK))


def _windows(length: int) -> list[tuple[int, int]]:
    """The parts of a series that are judged by themselves: the whole of one that is not very long.

    They overlap. All but the last are the same however much longer the series grows.
    """
    count = max(math.ceil((length - LONGEST_SERIES) / _HOP), 0)
    return [(k * _HOP, min(k * _HOP + LONGEST_SERIES, length)) for k in range(count + 1)]


def _joined(found: Sequence[Sequence[Shift]], length: int) -> tuple[ChangePoint, ...]:
    """The changes of all windows: where two overlap, each speaks for the half that lies deeper inside of it."""
    shifts: list[Shift] = []
    begin = -1
    for number, part in enumerate(found):
        border = (number + 1) * _HOP + _INSIDE if number < len(found) - 1 else length + _SAME_PLACE
        shifts += [shift for shift in part if begin < shift.index < border - _SAME_PLACE]
        # Where the halves meet, a change may be seen on either side: the one that saw more speaks.
        begin = border + _SAME_PLACE
        both = (part, found[number + 1]) if number < len(found) - 1 else ()
        seen = [[shift for shift in side if abs(shift.index - border) <= _SAME_PLACE] for side in both]
        shifts += sorted(seen, key=len)[-1] if seen else []
    return tuple(
        ChangePoint(index=shift.index, effect=shift.effect, p_value=p_value(shift.score, length))
        for shift in shifts
    )


def _shifts_within(values: Floats, begin: int, end: int) -> list[Shift]:
    """The changes of level in a part of a series."""
    series = values[begin:end]
    if len(series) < _SHORTEST_SERIES:
        return []
    ratios = bool(series.min() > 0)
    calm, scale = _calmed(np.log(series) if ratios else _within_one(series))
    if scale == 0:
        return []
    steps = confirm(calm, _candidates, _threshold(len(series)))
    growths = [scale * jump for jump in steps.jumps]
    edges = steps.edges
    effects = [
        math.expm1(min(growth, _LARGEST_EXPONENT)) if ratios else _relative(series[a:b], series[b:c])
        for a, b, c, growth in zip(edges, edges[1:], edges[2:], growths, strict=False)
    ]
    return [
        Shift(index=begin + index, effect=effect, score=score)
        for (index, score), effect in zip(steps.scores.items(), effects, strict=True)
    ]


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
    # Fitted to the best scores of simulated series of 20 to 900 points; see docs/statistics.md.
    return 10 + 0.05 * length


@lru_cache(maxsize=1024)
def _threshold(length: int) -> float:
    """The score that is reached by chance as often as alarms are allowed."""
    chance = min(max(_ALARMS_PER_POINT * length, 0.01), 0.1)
    return math.sqrt(2 * math.log(_searched(length) / -math.log1p(-chance)))


def _candidates(series: Floats) -> list[int]:
    """Splits that stand out, best first, no two in one interval."""
    length = len(series)
    looked_at = intervals()
    scores, best = looked_at.scores(cumulated(series)[::-1])
    (outstanding,) = (best >= _SCREEN * _threshold(length) * _long_run_deviation(series)).nonzero()
    begin, end = looked_at.reaches[outstanding], looked_at.ends[outstanding]
    chosen = []
    while len(outstanding):
        split = looked_at.split_of(int(outstanding[best[outstanding].argmax()]), scores)
        chosen.append(length - split)
        (without,) = ((begin <= split) | (end >= split)).nonzero()
        outstanding, begin, end = outstanding[without], begin[without], end[without]
    return sorted(chosen)


def _relative(before: Floats, after: Floats) -> float:
    """after/before − 1 of the medians; relative to the larger one where the former is nothing."""
    old, new = float(np.median(before)), float(np.median(after))
    effect = new / old - 1 if old else math.copysign(1.0, new) if new else 0.0
    return min(max(effect, -_LARGEST), _LARGEST)


def _calmed(series: Floats) -> tuple[Floats, float]:
    """The series without spikes and weekdays, around 0 in units of its robust standard deviation, and the latter."""
    clipped, scale = _clip(series)
    if scale == 0:
        return clipped, scale
    clipped -= clipped[len(clipped) // 2]
    clipped /= scale
    return _without_weekdays(clipped), scale


def _long_run_deviation(series: Floats) -> float:
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
