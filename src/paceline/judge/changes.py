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

from paceline.judge.calming import calmed, difference_variance, in_a_week
from paceline.judge.confirmation import Steps, confirm
from paceline.judge.intervals import LONGEST_SERIES, SHORTEST_SEGMENT, Floats, Integers, cumulated, intervals
from paceline.record.capacity import whole_cpus

_SHORTEST_SERIES = 2 * SHORTEST_SEGMENT + 2
_HOP = LONGEST_SERIES * 3 // 4
_INSIDE = (LONGEST_SERIES - _HOP) // 2
_SAME_PLACE = 5
_GLANCE = 3.7  # Of 1,322 series with a change below one in 300, all had a best score beyond 4.
_SCREEN = 0.78  # The first look lets pass what the second, sharper one decides.
_ALARMS_PER_POINT = 2e-4
_LARGEST = 1e300
_LARGEST_EXPONENT = math.log(_LARGEST)
_PAYS_FROM = 500_000  # Points; with fewer, starting processes takes longer than they save.
_CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """The first point of a new level; `effect` is after/before − 1.

    Where noise leaves the place open it lies in `first..last`, in about 95 of 100 cases (docs/statistics.md).
    """

    index: int
    effect: float
    p_value: float
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """From the point `begin` to the point `end` the level grows by `slope`, a share, a point: by `effect` in all."""

    begin: int
    end: int
    slope: float
    effect: float
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What a series does: its changes, whether it drifts at its end, and how restless its level is there.

    `unrest` is by how much, as a share, the level moves by itself within a week; 0 if it does not.
    """

    changes: tuple[ChangePoint, ...]
    drift: Drift | None = None
    unrest: float = 0.0
    score: float = math.inf
    """How far the sides of the split that stands out most lie apart, in units of the noise between neighbours."""
    noise: float = 0.0
    """That noise, as a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A change of level within one window, with how sure it is."""

    index: int
    effect: float
    score: float
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What one part of a series does."""

    shifts: list[Shift]
    drift: Drift | None = None
    unrest: float = 0.0
    score: float = math.inf
    noise: float = 0.0


def analyse(
    values: Iterable[float], days: Iterable[int] | None = None, *, only_sure: bool = False
) -> Analysis:
    """Where a series of finite numbers changes its level, in order, and what else it does.

    With the number of the day of each value, in ascending order, a week is seven days, else seven values. With
    `only_sure`, a series of which nothing stands out is not looked at closely: what has a p-value above one in 300 may
    be left out.
    """
    series = np.asarray(tuple(values) if not isinstance(values, np.ndarray) else values, dtype=float)
    if days is not None and not isinstance(days, np.ndarray):
        days = np.array(tuple(days), dtype=np.intp)
    known: Integers | None = days
    windows = [_judged(series, known, begin, end, only_sure) for begin, end in _windows(len(series))]
    return _joined(windows, len(series))


def change_points(values: Iterable[float], days: Iterable[int] | None = None) -> tuple[ChangePoint, ...]:
    """The points at which a series of finite numbers changes its level, in order."""
    return analyse(values, days).changes


class Detector:
    """A series that grows; `change_points` is at every length what the function of that name says of it.

    Of a long series only the windows from the newest value on are judged anew: one more at its end costs the same at
    any length.
    """

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._values = np.array(tuple(values), dtype=float)
        self._length = len(self._values)
        self._complete: list[Window] = []
        self._found: Analysis | None = None

    def append(self, value: float) -> None:
        """Take in the next value."""
        self.insert(self._length, value)

    def insert(self, place: int, value: float) -> None:
        """Take in a value that belongs before those from this place on."""
        if self._length == len(self._values):
            self._values = np.concatenate((self._values, np.empty(max(self._length, 16))))
        self._values[place + 1 : self._length + 1] = self._values[place : self._length].copy()
        self._values[place] = value
        self._length += 1
        self._found = None
        del self._complete[max(math.ceil((place - LONGEST_SERIES + 1) / _HOP), 0) :]

    @property
    def change_points(self) -> tuple[ChangePoint, ...]:
        """Where the level changed so far."""
        return self.analysis.changes

    @property
    def analysis(self) -> Analysis:
        """What the series does so far."""
        if self._found is None:
            *complete, last = _windows(self._length)
            for begin, end in complete[len(self._complete) :]:
                self._complete.append(_judged(self._values, None, begin, end))
            newest = _judged(self._values, None, *last)
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


def _joined(windows: Sequence[Window], length: int) -> Analysis:
    """The changes of all windows: where two overlap, each speaks for the half that lies deeper inside of it."""
    shifts: list[Shift] = []
    begin = -1
    for number, part in enumerate(windows):
        border = (number + 1) * _HOP + _INSIDE if number < len(windows) - 1 else length + _SAME_PLACE
        shifts += [shift for shift in part.shifts if begin < shift.index < border - _SAME_PLACE]
        # Where the halves meet, a change may be seen on either side: the one that saw more speaks.
        begin = border + _SAME_PLACE
        both = (part, windows[number + 1]) if number < len(windows) - 1 else ()
        seen = [[shift for shift in side.shifts if abs(shift.index - border) <= _SAME_PLACE] for side in both]
        shifts += sorted(seen, key=len)[-1] if seen else []
    changes = tuple(
        ChangePoint(
            index=shift.index,
            effect=shift.effect,
            p_value=p_value(shift.score, length),
            first=shift.first,
            last=shift.last,
        )
        for shift in shifts
    )
    last = windows[-1]
    score = max(part.score for part in windows)
    return Analysis(changes=changes, drift=last.drift, unrest=last.unrest, score=score, noise=last.noise)


def _judged(values: Floats, days: Integers | None, begin: int, end: int, only_sure: bool = False) -> Window:
    """What a part of a series does."""
    series = values[begin:end]
    if len(series) < _SHORTEST_SERIES:
        return Window(shifts=[])
    ratios = bool(series.min() > 0)
    known = None if days is None else days[begin:end]
    scaled = np.log(series) if ratios else _within_one(series)
    calm = calmed(scaled, known)
    if calm.scale == 0:
        return Window(shifts=[])
    seen = _Look(calm.values)
    score, noise = seen.best_score(), seen.noise * calm.scale
    if only_sure and score < _GLANCE:
        return Window(shifts=[], score=score, noise=noise)
    steps = confirm(calm.values, seen.candidates(), _find, _threshold(len(series)))
    unrest = 0.0
    if steps.moves is not None and len(moves := in_a_week(steps.moves, known)):
        unrest = float(np.sqrt(np.mean(moves * moves))) * calm.scale
    drift = _drift(steps, calm.scale, begin) if ratios and steps.drift is not None and steps.is_slow else None
    if not steps.scores:
        return Window(shifts=[], drift=drift, unrest=unrest, score=score, noise=noise)
    edges = steps.edges
    effects = [
        math.expm1(min(calm.scale * jump, _LARGEST_EXPONENT))
        if ratios
        else _relative(series[a:b], series[b:c])
        for a, b, c, jump in zip(edges, edges[1:], edges[2:], steps.jumps, strict=False)
    ]
    places = steps.places(calm.with_spikes(scaled))
    return Window(
        shifts=[
            Shift(index=begin + index, effect=effect, score=score, first=begin + first, last=begin + last)
            for (first, index, last), effect, score in zip(
                places, effects, steps.scores.values(), strict=True
            )
        ],
        drift=drift,
        unrest=unrest,
        score=score,
        noise=noise,
    )


def _drift(steps: Steps, scale: float, begin: int) -> Drift | None:
    """The drift, if it is beyond chance."""
    assert steps.drift is not None
    score, length = steps.drift_score, steps.shifts.length
    if score < _threshold(length):
        return None
    slope = scale * steps.drift.slope
    return Drift(
        begin=begin + steps.drift.begin,
        end=begin + steps.drift.end,
        slope=math.expm1(slope),
        effect=math.expm1(min(slope * (steps.drift.end - steps.drift.begin), _LARGEST_EXPONENT)),
        p_value=p_value(score, length),
    )


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
    # Chosen on the safe side: of normal series of 30 to 300 points less than 1 % have a p-value of 2 % or less.
    return 5 + 0.025 * length


@lru_cache(maxsize=1024)
def _threshold(length: int) -> float:
    """The score that is reached by chance as often as alarms are allowed."""
    chance = min(max(_ALARMS_PER_POINT * length, 0.025), 0.05)
    return math.sqrt(2 * math.log(_searched(length) / -math.log1p(-chance)))


class _Look:
    """A series split everywhere: how far both sides lie apart."""

    def __init__(self, series: Floats) -> None:
        self._length = len(series)
        self._sums = cumulated(series)
        self._scores, self._best = intervals().scores(self._sums[::-1])
        self._neighbours = difference_variance(series, 1)
        self._next = difference_variance(series, 2)

    @property
    def noise(self) -> float:
        """Standard deviation of a point, if neighbours are not alike."""
        return math.sqrt(self._neighbours / 2)

    def best_score(self) -> float:
        """That of the split that stands out most, also among splits of the whole series: intervals are laid from the
        end on, and the longest do not reach its beginning."""
        if not self._neighbours:
            return math.inf
        first, last = SHORTEST_SEGMENT, self._length - SHORTEST_SEGMENT + 1
        before = np.arange(first, last, dtype=float)
        apart = self._sums[first:last] - before * (self._sums[-1] / self._length)
        apart *= apart
        apart /= before * (self._length - before)
        whole = math.sqrt(float(apart.max()) * self._length)
        return max(float(self._best.max()), whole) / self.noise

    def candidates(self) -> list[int]:
        """Splits that stand out, no two in one interval."""
        looked_at, best = intervals(), self._best
        (outstanding,) = (best >= _SCREEN * _threshold(self._length) * self._long_run_deviation()).nonzero()
        begin, end = looked_at.reaches[outstanding], looked_at.ends[outstanding]
        chosen = []
        while len(outstanding):
            split = looked_at.split_of(int(outstanding[best[outstanding].argmax()]), self._scores)
            chosen.append(self._length - split)
            (without,) = ((begin <= split) | (end >= split)).nonzero()
            outstanding, begin, end = outstanding[without], begin[without], end[without]
        return sorted(chosen)

    def _long_run_deviation(self) -> float:
        """Standard deviation of many points' sum, per root of their number; from differences, which steps hardly
        touch."""
        if self._neighbours <= 0:
            return 1.0
        correlation = min(max(self._next / self._neighbours - 1, 0.0), 0.9)
        return math.sqrt(self._neighbours * (1 + correlation) / 2) / (1 - correlation)


def _find(series: Floats) -> list[int]:
    return _Look(series).candidates()


def _relative(before: Floats, after: Floats) -> float:
    """after/before − 1 of the medians; relative to the larger one where the former is nothing."""
    old, new = float(np.median(before)), float(np.median(after))
    effect = new / old - 1 if old else math.copysign(1.0, new) if new else 0.0
    return min(max(effect, -_LARGEST), _LARGEST)
