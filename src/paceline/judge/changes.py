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
from functools import lru_cache

import numpy as np

from paceline.judge.calm import calmed, long_run_deviation
from paceline.judge.confirmation import confirm
from paceline.judge.intervals import LONGEST_SERIES, SHORTEST_SEGMENT, Floats, cumulated, intervals

_SHORTEST_SERIES = 2 * SHORTEST_SEGMENT + 2
_HOP = LONGEST_SERIES * 3 // 4
_INSIDE = (LONGEST_SERIES - _HOP) // 2
_SAME_PLACE = 5
_SCREEN = 0.75  # The first look lets pass what the second, sharper one decides.
_ALARMS_PER_POINT = 4e-4
_LARGEST = 1e300
_LARGEST_EXPONENT = math.log(_LARGEST)


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
    return joined([shifts_within(series, begin, end) for begin, end in windows(len(series))], len(series))


def windows(length: int) -> list[tuple[int, int]]:
    """The parts of a series that are judged by themselves: the whole of one that is not very long.

    They overlap. All but the last are the same however much longer the series grows.
    """
    count = max(math.ceil((length - LONGEST_SERIES) / _HOP), 0)
    return [(k * _HOP, min(k * _HOP + LONGEST_SERIES, length)) for k in range(count + 1)]


def joined(found: Sequence[Sequence[Shift]], length: int) -> tuple[ChangePoint, ...]:
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


def shifts_within(values: Floats, begin: int, end: int) -> list[Shift]:
    """The changes of level in a part of a series."""
    series = values[begin:end]
    if len(series) < _SHORTEST_SERIES:
        return []
    ratios = bool(series.min() > 0)
    calm, scale = calmed(np.log(series) if ratios else _within_one(series))
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
    (outstanding,) = (best >= _SCREEN * _threshold(length) * long_run_deviation(series)).nonzero()
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
