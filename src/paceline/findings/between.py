"""How much the sessions of a series differ by themselves, as its history knows it."""

import itertools
import math
import statistics
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from paceline.finding import SeriesKey
from paceline.findings.order import read_order
from paceline.history import Store
from paceline.judge import change_points
from paceline.judge.comparison import Noise

_Key = TypeVar("_Key", bound=Hashable)
_LOOKED_AT = 45
_COUNTED = 30
"""Points that the noise is taken from; changes are looked for among some more."""
_FEWEST = 5
"""Degrees of freedom below which nothing is known."""
_FEWEST_ALIKE = 10
"""Series from which on it can be said what they have in common."""
_MOST_COMMON = 100.0
"""Degrees of freedom that what they have in common counts for at most."""
_FARTHEST = 4.0
"""Robust standard deviations that a single night counts for at most."""
_WANDER = 2.3
"""How much farther from their level than from each other nights may lie: those of a level that wanders, with a
correlation of 0.8, do; beyond that, the level changed."""


def read_noise(
    store: Store, cases: Collection[str], *, but: Collection[str], until: str = ""
) -> Mapping[SeriesKey, Noise]:
    """The noise between sessions of each judged metric of these cases, without the sessions named in `but`.

    The points until a time count, if they are enough: later ones may have become louder.
    """
    found = {}
    order = read_order(store)
    for series in store.iter_columns(cases=cases, judged_only=True) if cases else ():
        points = [point for point in order.points(series) if point.session not in but]
        before = [point.value for point in points if not until or point.time <= until]
        noise = noise_of(before) or noise_of([point.value for point in points])
        if noise is not None:
            found[series.key] = noise
    return moderated(found)


def noise_of(values: Sequence[float]) -> Noise | None:
    """The noise around the levels of a series, as its last points show it; None if they are too few."""
    values = values[-_LOOKED_AT:]
    if len(values) <= _FEWEST:
        return None
    edges = [0, *(one.index for one in change_points(values)), len(values)]
    rest, freedom = _residuals(values, edges)
    if freedom < _FEWEST:
        return None
    absolute = _deviation(rest, freedom, values)
    relative = None
    if min(values) > 0:
        logs = [math.log(value) for value in values]
        relative = _deviation(_residuals(logs, edges)[0], freedom, logs)
    return Noise(relative=relative, absolute=absolute, freedom=freedom)


def _deviation(rest: Sequence[float], freedom: int, values: Sequence[float]) -> float:
    """The standard deviation around the levels; a level that changed unnoticed does not count as noise."""
    seen = math.sqrt(sum(one * one for one in rest) / freedom)
    steps = sorted(abs(after - before) for before, after in itertools.pairwise(values[-_COUNTED:]))
    usual = steps[: -max(1, len(steps) // 8)]
    # Of normal values, the smaller seven eighths of the differences are 0.95 standard deviations on average.
    between = statistics.fmean(usual) / 0.95 if usual else 0.0
    return min(seen, _WANDER * between) if between else seen


def moderated(noises: Mapping[_Key, Noise]) -> Mapping[_Key, Noise]:
    """The noises drawn towards what they have in common, by as much as they have (Smyth, 2004).

    Few nights tell little of how loud a series is; that many series are about as loud tells as much as more nights.
    """
    told = {key: one for key, one in noises.items() if one.relative}
    if len(told) < _FEWEST_ALIKE:
        return noises
    # The logarithm of a variance of so many degrees of freedom is known up to this bias and this error.
    logs = [
        2 * math.log(one.relative or 1) + 1 / one.freedom + 1 / (3 * one.freedom**2) for one in told.values()
    ]
    by_chance = statistics.fmean(_trigamma(one.freedom / 2) for one in told.values())
    freedom = 2 * _inverse_trigamma(statistics.variance(logs) - by_chance)
    common = statistics.fmean(logs) - (1 / freedom + 1 / (3 * freedom**2) if freedom else 0)
    return {
        **noises,
        **{key: _drawn(one, math.exp(common), freedom) for key, one in told.items() if freedom >= 1},
    }


def _drawn(one: Noise, variance: float, freedom: float) -> Noise:
    assert one.relative
    total = one.freedom + freedom
    factor = math.sqrt((one.freedom + freedom * variance / one.relative**2) / total)
    return Noise(relative=one.relative * factor, absolute=one.absolute * factor, freedom=total)


def _trigamma(x: float) -> float:
    return 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3)


def _inverse_trigamma(value: float) -> float:
    """Half as many degrees of freedom as what the series have in common is worth; none where they are all unlike."""
    low, high = 0.5, _MOST_COMMON / 2
    if value >= _trigamma(low):
        return 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _trigamma(middle) > value else (low, middle)
    return high


def _residuals(values: Sequence[float], edges: Iterable[int]) -> tuple[list[float], int]:
    """The distances of the last points from the levels between changes, and how many of them are free."""
    rest: list[float] = []
    levels = 0
    first = max(len(values) - _COUNTED, 0)
    for begin, end in itertools.pairwise(edges):
        part = values[max(begin, first) : end]
        if len(part) > 1:
            middle = statistics.median(part)
            clipped = _clipped([value - middle for value in part])
            centre = math.fsum(clipped) / len(clipped)
            rest += (one - centre for one in clipped)
            levels += 1
    return rest, len(rest) - levels


def _clipped(residuals: list[float]) -> list[float]:
    """One night that went wrong must not hide a change of all nights that follow."""
    most = _FARTHEST * 1.4826 * statistics.median(map(abs, residuals))
    return [min(max(one, -most), most) for one in residuals] if most else residuals
