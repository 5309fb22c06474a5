"""Which candidates for a change of level hold, once the noise between them is known.

The weakest goes first. A score is how far the levels on both sides lie apart in units of the error of that difference;
it is lowered where few values of a lopsided noise make extremes likely, and where it is noisier than elsewhere.
"""

import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from paceline.judge.intervals import SHORTEST_SEGMENT, Floats
from paceline.judge.level_shifts import LevelShifts

_SAME_CORRELATION = 0.03
_MOST_MOVES = 3
_TINY = 1e-12
_CHOSEN = 6.0  # Squared errors that a step at the best of many places explains by chance.
# An excursion that comes back has two ends that were searched for: some 30 lengths for each place.
_EXCURSION = 2 * math.log(30)
# Excursions of at most so many points are states of the machine if there are so many, and one in every so many points.
_SOON, _OFTEN, _APART = 16, 3, 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Places with their scores, and the series that they were found in: the one given, or that less its drift."""

    scores: dict[int, float]
    shifts: LevelShifts
    drifts: bool = False

    @property
    def edges(self) -> list[int]:
        return [0, *self.scores, self.shifts.length]

    @property
    def jumps(self) -> list[float]:
        """By how much the level changes at each step."""
        return _jumps([self.shifts.mean(begin, end) for begin, end in itertools.pairwise(self.edges)])

    def cost(self, threshold: float) -> float:
        """Twice the logarithm of how unlikely the series is, and for each step and the drift what it must be worth."""
        variance, _ = self.shifts.noise(self.edges)
        fit = self.shifts.length * math.log(max(variance, _TINY**2))
        return fit + threshold**2 * (len(self.scores) + self.drifts)


def confirm(series: Floats, find: Callable[[Floats], list[int]], threshold: float) -> Steps:
    """The steps among those that `find` proposes that reach the threshold; the series is in units of its noise."""
    steps = _steps_of(series, find, threshold)
    if not steps.scores:
        return steps
    starts = [[0, len(series)]] if steps.shifts.looks_like_line(steps.edges) else []
    if steps.shifts.still_drifts(steps.edges):
        starts.append(steps.edges)
    drifting = [_on_a_line(series, edges, find, threshold) for edges in starts]
    steps = min([steps, *drifting], key=lambda each: each.cost(threshold))
    return Steps(scores=_abrupt(steps, threshold), shifts=steps.shifts, drifts=steps.drifts)


def _steps_of(
    series: Floats, find: Callable[[Floats], list[int]], threshold: float, *, drifts: bool = False
) -> Steps:
    candidates = find(series)
    shifts = LevelShifts(series)
    scores = _held(shifts, candidates, len(series), threshold)
    return Steps(scores=scores, shifts=shifts, drifts=drifts)


def _on_a_line(
    series: Floats, edges: list[int], find: Callable[[Floats], list[int]], threshold: float
) -> Steps:
    """The steps that are left beside the drift between these; it is fitted again once they are known."""
    whole = LevelShifts(series)
    for _ in range(2):
        flat = series - whole.slope(edges) * np.arange(len(series))
        steps = _steps_of(flat, find, threshold, drifts=True)
        edges = steps.edges
        if not steps.scores:
            break
    return steps


def _held(shifts: LevelShifts, steps: list[int], length: int, threshold: float) -> dict[int, float]:
    """Steps that hold against the noise between the others, with their scores."""
    used, moves, restless = -1.0, 0, False
    fits: dict[tuple[int, int], tuple[int, float]] = {}
    while steps:
        edges = [0, *steps, length]
        variance, correlation = shifts.noise(edges)
        if abs(correlation - used) > _SAME_CORRELATION:
            shifts.whiten(correlation)
            used, fits = correlation, {}
        around = list(zip(edges, edges[2:], strict=False))
        fits |= {place: shifts.best_step(*place) for place in around if place not in fits}
        explained = [fits[place][1] for place in around]
        weak = _weakest(explained, threshold**2 * variance)
        if not weak:
            moved = [fits[place][0] for place in around]
            if moved != steps and moves < _MOST_MOVES and _apart(moved):
                steps, moves = moved, moves + 1
                continue
            passing = _passing(shifts, edges)
            restless = restless or len(passing) >= max(_OFTEN, length / _APART)
            unrest = _unrest(shifts, edges, passing, variance, used) if restless else 1.0
            scores = _scores(shifts, edges, explained, variance, used, unrest)
            weak = _weakest(scores, threshold)
            if not weak:
                return dict(zip(steps, scores, strict=True))
        steps = [step for i, step in enumerate(steps) if i not in weak]
    return {}


def _weakest(scores: list[float], needed: float) -> set[int]:
    """Those below what is needed and below their neighbours, which may be stronger when these are gone."""
    bounded = [math.inf, *scores, math.inf]
    return {
        i
        for i, score in enumerate(scores)
        if score < needed and score < bounded[i] and score <= bounded[i + 2]
    }


def _apart(steps: list[int]) -> bool:
    return all(right - left >= SHORTEST_SEGMENT for left, right in itertools.pairwise(steps))


def _passing(shifts: LevelShifts, edges: list[int]) -> list[tuple[int, int]]:
    """Begin and end of the excursions that are soon over."""
    jumps = _jumps([shifts.mean(begin, end) for begin, end in itertools.pairwise(edges)])
    inner = zip(itertools.pairwise(edges[1:-1]), itertools.pairwise(jumps), strict=True)
    return [
        (begin, end) for (begin, end), (there, back) in inner if end - begin <= _SOON and _undoes(there, back)
    ]


def _unrest(
    shifts: LevelShifts,
    edges: list[int],
    passing: list[tuple[int, int]],
    variance: float,
    correlation: float,
) -> float:
    """How much more sums of many points vary if the states that come and go are noise like the rest; at least 1."""
    lasting = sorted({*edges}.difference(*passing))
    of_all, correlation_of_all = shifts.noise(lasting)
    of_all *= shifts.rest(lasting).persistence(correlation_of_all)
    grown = (of_all / (1 - correlation_of_all) ** 2) / (max(variance, _TINY) / (1 - correlation) ** 2)
    return max(grown, 1.0)


def _scores(
    shifts: LevelShifts,
    edges: list[int],
    explained: list[float],
    variance: float,
    correlation: float,
    unrest: float,
) -> list[float]:
    rest = shifts.rest(edges)
    skewness, variance = rest.skewness, variance * max(rest.persistence(correlation), unrest)
    returns = _returns([shifts.mean(begin, end) for begin, end in itertools.pairwise(edges)])
    scores = []
    for i, (begin, step, end) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        upward = shifts.mean(step, end) > shifts.mean(begin, step)
        lopsided = _lopsided(step - begin, end - step) * skewness * (1 if upward else -1)
        noise = max(variance * rest.loudness(step), _TINY)
        score = _as_if_normal(math.sqrt(explained[i] / noise), lopsided)
        scores.append(math.sqrt(max(score**2 - _EXCURSION, 0.0)) if returns[i] else score)
    return scores


def _returns(levels: list[float]) -> list[bool]:
    """For each step whether it begins or ends an excursion."""
    undone = [_undoes(there, back) for there, back in itertools.pairwise(_jumps(levels))]
    return [left or right for left, right in zip([False, *undone], [*undone, False], strict=True)]


def _jumps(levels: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(levels)]


def _undoes(there: float, back: float) -> bool:
    """Whether the second of two steps undoes more than half of the first, and not more than all of it twice."""
    return there != 0 and -2.0 < back / there < -0.5


def _lopsided(before: int, after: int) -> float:
    """The skewness of the difference of two means of so many values, per skewness of the values."""
    return (1 / after**2 - 1 / before**2) / math.sqrt(1 / after + 1 / before) ** 3


def _as_if_normal(score: float, skewness: float) -> float:
    """The normal score that is as unlikely as this one of a skewed distribution (Cornish and Fisher's first term)."""
    bend = skewness / 6
    if bend <= 1e-6:
        return score
    return (math.sqrt(1 + 4 * bend * (bend + score)) - 1) / (2 * bend)


def _abrupt(steps: Steps, threshold: float) -> dict[int, float]:
    """The steps, unless straight lines explain the series better where they are: it wanders instead of jumping."""
    scores, shifts, edges = steps.scores, steps.shifts, steps.edges
    if not scores:
        return scores
    variance, correlation = shifts.noise(edges)
    around = [
        _around(begin, step, end, alone=len(scores) == 1)
        for begin, step, end in zip(edges, edges[1:], edges[2:], strict=False)
    ]
    usual = -_CHOSEN * variance if len(scores) > 2 else 0.0
    # A look that costs little first.
    if statistics.median(shifts.line_gain(*place) for place in around) <= usual / (1 - correlation) ** 2:
        return scores
    beside = [shifts.against_line(*place, correlation) for place in around]
    if statistics.median(gain for gain, _ in beside) <= usual:
        return scores
    needed = threshold**2 * variance
    return {
        step: score for (step, score), (_, jump) in zip(scores.items(), beside, strict=True) if jump >= needed
    }


def _around(begin: int, step: int, end: int, *, alone: bool) -> tuple[int, int, int]:
    """Where to compare a step with a line: within the nearer halves of its segments, in which a wave is straight."""
    if alone:
        return begin, step, end
    before, after = (max(size // 2, SHORTEST_SEGMENT) for size in (step - begin, end - step))
    return step - before, step, step + after
