"""Which candidates for a change of level hold, once the noise between them is known.

The weakest goes first. A score is how far the levels on both sides lie apart in units of the error of that difference;
it is lowered where few values of a lopsided noise make extremes likely, and where it is noisier than elsewhere.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from paceline.judge.brackets import brackets
from paceline.judge.intervals import SHORTEST_SEGMENT, Floats
from paceline.judge.level_shifts import SHORTEST_DRIFT, LevelShifts, Line
from paceline.judge.wandering import Wandering, mixed

_SAME_CORRELATION = 0.03
_MOST_MOVES = 3
_TINY = 1e-12
_CHOSEN = 6.0  # Squared errors that a step at the best of many places explains by chance.
# An excursion that comes back has two ends that were searched for: some 30 lengths for each place.
_EXCURSION = 2 * math.log(30)
# A level that changes more often than this, and than once in so many points, does so by itself.
_OFTEN, _APART = 4, 60
_LIKE_A_LINE = 0.8
_YOUNG = 15
_ABRUPT = 6.0  # How much better than a drift a step must explain a series, in squared errors.


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Places with their scores, and the series that they were found in: the one given, or that less its drift."""

    scores: dict[int, float]
    shifts: LevelShifts
    drift: Line | None = None
    is_slow: bool = True
    moves: Floats | None = None
    """How the level moves by itself besides, if it does so all the time."""

    @property
    def edges(self) -> list[int]:
        return [0, *self.scores, self.shifts.length]

    @property
    def levels(self) -> list[float]:
        return [self.shifts.mean(begin, end) for begin, end in itertools.pairwise(self.edges)]

    @property
    def jumps(self) -> list[float]:
        """By how much the level changes at each step."""
        return _jumps(self.levels)

    def places(self, with_spikes: Floats) -> list[tuple[int, int, int]]:
        """For each step the first and the last place that it may have, and the likeliest between them."""
        if self.drift is not None:
            with_spikes = with_spikes - self.drift.values
        return brackets(with_spikes, self.edges, self.levels, *self.shifts.noise(self.edges))

    @property
    def drift_score(self) -> float:
        """How sure the drift is."""
        assert self.drift is not None
        return _slow_score(self.shifts, self.edges, self.drift.explained)

    def cost(self, threshold: float) -> float:
        """Twice the logarithm of how unlikely the series is, and for each step and the drift what it must be worth."""
        variance, _ = self.shifts.noise(self.edges)
        fit = self.shifts.length * math.log(max(variance, _TINY**2))
        return fit + threshold**2 * (len(self.scores) + (self.drift is not None))


def confirm(
    series: Floats, candidates: list[int], find: Callable[[Floats], list[int]], threshold: float
) -> Steps:
    """The steps among the candidates that reach the threshold; the series is in units of its noise.

    `find` proposes others for the series less a drift.
    """
    shifts = LevelShifts(series)
    if not candidates:
        return Steps(scores={}, shifts=shifts)
    steps = _steps_of(shifts, candidates, threshold)
    if shifts.length >= SHORTEST_DRIFT:
        edges = [0, *(steps.scores or candidates), shifts.length]
        drifting = [_on_a_line(shifts, line, find, threshold) for line in _lines(shifts, edges)]
        if drifting:
            slow = min(drifting, key=lambda each: each.cost(threshold))
            better = steps.cost(threshold) - slow.cost(threshold)
            age = shifts.length - max(steps.scores, default=0)
            doubt = _ABRUPT * min(max(age / _YOUNG - 1, 0.0), 1.0) if not slow.scores else 0.0
            if better > -doubt:
                steps = replace(slow, is_slow=better > 0)
    steps = replace(steps, scores=_abrupt(steps, threshold))
    if len(steps.scores) <= max(_OFTEN, shifts.length / _APART):
        return steps
    lasting = replace(steps, scores=_lasting(steps.shifts, list(steps.scores), threshold))
    return replace(lasting, moves=steps.shifts.levels(steps.edges) - steps.shifts.levels(lasting.edges))


def _steps_of(
    shifts: LevelShifts, candidates: list[int], threshold: float, drift: Line | None = None
) -> Steps:
    scores = _held(shifts, candidates, shifts.length, threshold)
    return Steps(scores=scores, shifts=shifts, drift=drift)


def _lasting(shifts: LevelShifts, steps: list[int], threshold: float) -> dict[int, float]:
    """The steps that reach the threshold if all others are noise, the largest first."""
    lasting: dict[int, float] = {}
    while steps:
        edges = [0, *sorted(lasting), shifts.length]
        largest = max(steps, key=lambda step: shifts.explained(edges, step))
        with_it = [0, *sorted([*lasting, largest]), shifts.length]
        score = _slow_score(shifts, with_it, shifts.explained(edges, largest))
        if score < threshold:
            break
        lasting[largest] = score
        steps = [step for step in steps if abs(step - largest) >= SHORTEST_SEGMENT]
    return dict(sorted(lasting.items()))


def _slow_score(shifts: LevelShifts, edges: list[int], explained: float) -> float:
    """The score of what explains so much and is slow beside the moves of the noise between these edges."""
    variance, correlation = shifts.noise(edges)
    freedom = max(shifts.length - len(edges), 2)
    wandering = Wandering(shifts.rest(edges).values, freedom)
    own = explained * (1 - correlation) ** 2 / max(variance, _TINY)
    weights, others = wandering.weights(correlation), wandering.squared_slow_scores(explained)
    squared = mixed(own, others, weights, freedom)
    return math.sqrt(max(squared, 0.0))


def _against_the_trend(shifts: LevelShifts, edges: list[int]) -> list[int]:
    """The steps that a drift cannot explain, as most go the other way."""
    jumps = _jumps([shifts.mean(begin, end) for begin, end in itertools.pairwise(edges)])
    rising = sum(jump > 0 for jump in jumps) * 2 >= len(jumps)
    return [
        0,
        *(step for step, jump in zip(edges[1:-1], jumps, strict=True) if (jump > 0) != rising),
        edges[-1],
    ]


def _lines(shifts: LevelShifts, edges: list[int]) -> Iterator[Line]:
    """The drifts that are worth a try: one that explains nearly as much as the steps that go its way, and one that is
    left beside them all."""
    kept = _against_the_trend(shifts, edges)
    line = shifts.line(kept)
    if line.explained > _LIKE_A_LINE * (shifts.left(kept) - shifts.left(edges)):
        yield line
    variance, correlation = shifts.noise(edges)
    line = shifts.line(edges)
    # Of correlated values, each says less about the slope.
    if line.explained * (1 - correlation) ** 2 > 9 * variance:
        yield line


def _on_a_line(
    whole: LevelShifts, line: Line, find: Callable[[Floats], list[int]], threshold: float
) -> Steps:
    """The steps that are left beside a drift; it is fitted again once they are known."""
    flat = whole.values - line.values
    steps = _steps_of(LevelShifts(flat), find(flat), threshold, line)
    if steps.scores:
        line = whole.line(steps.edges)
        flat = whole.values - line.values
        steps = _steps_of(LevelShifts(flat), find(flat), threshold, line)
    return steps


def _held(shifts: LevelShifts, steps: list[int], length: int, threshold: float) -> dict[int, float]:
    """Steps that hold against the noise between the others, with their scores."""
    used, moves = -1.0, 0
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
            scores = _scores(shifts, edges, explained, variance, used)
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


def _scores(
    shifts: LevelShifts,
    edges: list[int],
    explained: list[float],
    variance: float,
    correlation: float,
) -> list[float]:
    rest = shifts.rest(edges)
    levels = [shifts.mean(begin, end) for begin, end in itertools.pairwise(edges)]
    returns, jumps = _returns(levels), _jumps(levels)
    skewness, variance = rest.skewness, max(variance, _TINY)
    freedom = max(shifts.length - len(levels) - 1, 1)
    wandering = Wandering(rest.values, freedom)
    weights = wandering.weights(correlation)
    scores = []
    for i, (begin, step, end) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        lopsided = _lopsided(step - begin, end - step) * skewness * math.copysign(1, jumps[i])
        louder = rest.loudness(step)
        others = wandering.squared_scores(begin, step, end, jumps[i]) / louder
        squared = mixed(explained[i] / variance / louder, others, weights, freedom)
        score = _as_if_normal(math.sqrt(max(squared, 0.0)), lopsided)
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
