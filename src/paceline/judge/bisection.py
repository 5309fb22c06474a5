"""Which of many commits made a number worse, when every measurement is noisy: a posterior over the culprit.

Commit `i` is good if it lies before the culprit and bad from it on. Both levels and the noise are unknown: each
hypothesis gets the likelihood of all values seen, averaged over the levels and over what the noise may be like: how
large, with what tails, and whether neighbours are alike. So a spike says little, and how little is learned from the
values. The derivation is in docs/statistics.md.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from paceline.errors import PacelineError
from paceline.judge.intervals import Floats, Integers

_UNREPRODUCIBLE = 0.15  # How likely it is, beforehand, that good and bad do not differ at all.
_HOPELESS = 0.8  # Small differences can never be ruled out; from here on the search is not worth its runs.
_WIDE = 25.0  # A level may lie anywhere in so many standard deviations of the noise.
_LEVELS = np.linspace(-2.8, 2.8, 27)  # Around the median of an end, in the same units.
_NUM_SCALES = 12
_CORRELATIONS = ((0.0, 0.7), (0.5, 0.3))  # Of neighbours in time, and how likely that is.
_CLIP = 3.0
_TINY = 1e-9
_UNLIKELY = math.log(1e-4)  # Noise that the values speak so clearly against is left out.
_GRID = np.linspace(-8.0, 8.0, 65)
_GOOD_END = -1
_EARLY = 3

Density = Callable[[Floats], Floats]


class Bisection:
    """Finds the first bad one of `count` commits in order, from noisy values.

    `good` are values measured before the first of them (or on it, when it is known to be good), `bad` values of the
    last, measured in turns with them. Take `next()`, measure it, tell `observe()`, until `done`.

    `known` are commits that did the same to something else: that it is one of them is as likely as that it is not.
    """

    def __init__(
        self,
        count: int,
        *,
        good: Sequence[float],
        bad: Sequence[float],
        confidence: float = 0.95,
        known: Sequence[int] = (),
    ) -> None:
        if count < 1 or not len(good) or not len(bad):
            raise PacelineError("a bisection needs at least one commit, one good value and one bad value")
        self.count = count
        self.runs = 0
        self._wanted = confidence
        self._unbuildable: set[int] = set()
        self._prior = np.ones(count)
        others = count - len(known)
        self._prior[list(known)] = max(others, 1) / max(len(known), 1)
        self._seen = _Seen(count, good, bad)
        for turn in range(max(len(good), len(bad))):
            ends = [(_GOOD_END, value) for value in good[turn : turn + 1]]
            ends += [(count - 1, value) for value in bad[turn : turn + 1]]
            for commit, value in ends if turn % 2 == 0 else reversed(ends):
                self._seen.add(commit, float(value))
            if turn == _EARLY:
                self._seen.weigh()  # Most kinds of noise are out of the question by then.
        self._learn()

    @property
    def culprit(self) -> int | None:
        """The most likely first bad commit; None when good and bad do not differ."""
        return None if self.reproduces is False else int(self._posterior.argmax())

    @property
    def confidence(self) -> float:
        """How likely `culprit` is right; 0 when there is none."""
        return 0.0 if self.reproduces is False else float(self._posterior.max())

    @property
    def reproduces(self) -> bool | None:
        """Whether good and bad differ; None while neither is sure enough."""
        differs = float(self._posterior.sum())
        return True if differs >= self._wanted else False if 1 - differs >= _HOPELESS else None

    @property
    def suspects(self) -> tuple[int, ...]:
        """The commits that cannot be told from the culprit, because those between cannot be built."""
        return self._group(int(self._posterior.argmax()))

    @property
    def posterior(self) -> tuple[float, ...]:
        """How likely each commit is the culprit; what is missing to 1 is that none is."""
        return tuple(self._posterior.tolist())

    @property
    def done(self) -> bool:
        if self.reproduces is False or len(self._unbuildable) >= self.count:
            return True
        return float(self._posterior[list(self.suspects)].sum()) >= self._wanted

    def next(self) -> int:
        """The commit whose value is expected to say most: whose prediction depends most on who the culprit is."""
        if_good, if_bad = (
            self._posterior[:, None] * _normal(_GRID - levels[:, None]) for levels in self._levels
        )
        # Commit i is bad under the hypotheses 0…i, and good under the rest.
        mixture = np.cumsum(if_bad, axis=0) + if_good.sum(axis=0) - np.cumsum(if_good, axis=0)
        entropy: Floats = -(mixture * np.log(np.maximum(mixture, 1e-300))).sum(axis=1)
        entropy[list(self._unbuildable)] = -math.inf
        return int(entropy.argmax())

    def observe(self, commit: int, value: float | None) -> None:
        """Take in a value of a commit, or None if it cannot be built."""
        if not 0 <= commit < self.count:
            raise PacelineError(f"there is no commit {commit}: they are 0 to {self.count - 1}")
        self.runs += 1
        if value is None:
            self._unbuildable.add(commit)
        else:
            self._seen.add(commit, float(value))
            self._learn()

    def _group(self, commit: int) -> tuple[int, ...]:
        first = last = commit
        while first - 1 in self._unbuildable:
            first -= 1
        while last in self._unbuildable and last < self.count - 1:
            last += 1
        return tuple(range(first, last + 1))

    def _learn(self) -> None:
        differ, alike, levels = self._seen.weigh()
        rows = self._seen.row_of(np.arange(self.count))
        self._levels = levels[:, rows]
        evidence = differ[rows]
        highest = float(evidence.max())
        some = highest + math.log(float(np.average(np.exp(evidence - highest), weights=self._prior)))
        odds = math.log(_UNREPRODUCIBLE / (1 - _UNREPRODUCIBLE)) + alike - some
        # Two values' worth of evidence is left out: the noise is none of those that are thought of here.
        shares = self._prior * np.exp((evidence - highest) * (1 - 2 / self._seen.values))
        self._posterior: Floats = shares / shares.sum() / (1 + math.exp(min(odds, 700.0)))


class _Seen:
    """How likely all values are, for each culprit, each kind of noise and each level.

    A kind of noise is a shape, a scale and a correlation of neighbours in time. Culprits with nothing tried between
    them are equally likely, so they share a row.
    """

    def __init__(self, count: int, good: Sequence[float], bad: Sequence[float]) -> None:
        sides = [np.asarray(side, dtype=float) for side in (good, bad)]
        both = np.concatenate(sides)
        ends = [float(np.median(side)) for side in sides]
        self._centres = (*ends, float(np.median(both)))
        rest = np.concatenate([side - end for side, end in zip(sides, ends, strict=True)])
        few = math.sqrt(len(rest) / max(len(rest) - 2, 1))
        robust, usual = float(np.median(np.abs(rest))), math.sqrt(float(rest @ rest / len(rest)))
        # Where the ends have no noise, a third of their difference is taken for it.
        sizes = [few * size for size in (1.4826 * robust, usual) if size > 0]
        sizes = sizes or [abs(ends[1] - ends[0]) / 3]
        smallest = _TINY * float(np.abs(both).max()) or 1.0
        least, most = max(0.4 * min(sizes), smallest), max(2.2 * max(sizes), 2 * smallest)
        self._clip = _CLIP * max(sizes[0], smallest)
        kinds = [
            (shape, scale, correlation, math.log(weight * likely))
            for shape, (weight, _) in enumerate(_SHAPES)
            for scale in np.geomspace(least, most, _NUM_SCALES)
            for correlation, likely in _CORRELATIONS
        ]
        self._shapes, self._scales, self._correlations, self._prior = np.array(kinds).T
        self._tried = np.array([_GOOD_END, count - 1])
        self._good = np.zeros((1, len(kinds), len(_LEVELS)))
        self._bad = np.zeros_like(self._good)
        self._alike = np.zeros_like(self._good[0])
        self._before: tuple[int, float] | None = None
        self.values = 0

    def row_of(self, culprit: Integers) -> Integers:
        return np.searchsorted(self._tried, culprit) - 1

    def add(self, commit: int, value: float) -> None:
        """Take in a value."""
        place = int(np.searchsorted(self._tried, commit))
        if self._tried[place] != commit:
            self._tried = np.insert(self._tried, place, commit)
            self._good, self._bad = (
                np.insert(side, place, side[place - 1], axis=0) for side in (self._good, self._bad)
            )
        logs = self._logs(value)
        before = commit if self._before is None else self._before[0]
        is_bad, was_bad = commit >= self._tried[1:], (before >= self._tried[1:]).astype(np.intp)
        self._good[~is_bad] += logs[was_bad[~is_bad]]
        self._bad[is_bad] += logs[2 + was_bad[is_bad]]
        self._alike += logs[4]
        self._before = commit, value
        self.values += 1

    def _logs(self, value: float) -> Floats:
        """How likely a value is, for each of `_PAIRS`, each kind of noise and each level."""
        away = np.empty((len(_PAIRS), len(self._scales)))
        for row, (here, previous) in enumerate(_PAIRS):
            rest = 0.0 if self._before is None else self._before[1] - self._centres[previous]
            expected = self._centres[here] + self._correlations * min(max(rest, -self._clip), self._clip)
            away[row] = (value - expected) / self._scales
        logs = np.empty((*away.shape, len(_LEVELS)))
        for number, (_, density) in enumerate(_SHAPES):
            chosen = self._shapes == number
            logs[:, chosen] = np.log(np.maximum(density(away[:, chosen, None] - _LEVELS), 1e-300))
        logs -= np.log(self._scales)[None, :, None]
        return logs

    def weigh(self) -> tuple[Floats, float, Floats]:
        """The log evidence of each row, and that of no difference; the good and the bad level that each row expects.

        The levels are those around their middle, in units of the noise.
        """
        width = math.log((_LEVELS[1] - _LEVELS[0]) / _WIDE)
        sides = self._good, self._bad
        differ = _total(sides[0]) + _total(sides[1]) + 2 * width + self._prior
        alike = _total(self._alike) + width + self._prior
        likely = np.exp(differ - differ.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        levels = []
        for centre, side in zip(self._centres, sides, strict=False):
            where = np.exp(side - side.max(axis=-1, keepdims=True))
            mean = centre + self._scales * (where @ _LEVELS) / where.sum(axis=-1)
            levels.append((likely * mean).sum(axis=1))
        middle = (self._centres[0] + self._centres[1]) / 2
        spread = float((likely @ self._scales).mean())
        self._leave_out(np.maximum(differ.max(axis=0), alike))
        expected = np.clip((np.array(levels) - middle) / spread, -4.0, 4.0)
        return np.logaddexp.reduce(differ, axis=1), float(np.logaddexp.reduce(alike)), expected

    def _leave_out(self, evidence: Floats) -> None:
        """Forget the kinds of noise that are very unlikely by now."""
        kept = evidence >= evidence.max() + _UNLIKELY
        self._shapes, self._scales = self._shapes[kept], self._scales[kept]
        self._correlations, self._prior = self._correlations[kept], self._prior[kept]
        self._good, self._bad, self._alike = self._good[:, kept], self._bad[:, kept], self._alike[kept]


_PAIRS = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 2))
"""Of a value and the one before it: good is 0, bad is 1, and 2 is the only level if they do not differ."""


def _total(logs: Floats) -> Floats:
    """The logarithm of the sum over all levels."""
    highest = logs.max(axis=-1)
    total: Floats = highest + np.log(np.exp(logs - highest[..., None]).sum(axis=-1))
    return total


def _normal(away: Floats) -> Floats:
    density: Floats = np.exp(-0.5 * away * away) / math.sqrt(2 * math.pi)
    return density


def _cauchy(away: Floats, scale: float) -> Floats:
    return scale / math.pi / (scale * scale + away * away)


def _spiked(rate: float) -> Density:
    return lambda away: (1 - rate) * _normal(away) + rate * _cauchy(away, 8.0)


def _student(away: Floats) -> Floats:
    """Student's t with three degrees of freedom."""
    return 2 / (math.pi * math.sqrt(3)) / (1 + away * away / 3) ** 2


def _skewed(sign: float) -> Density:
    """Lognormal around its median, with its long tail on one side."""

    def density(away: Floats) -> Floats:
        stretched = np.maximum(1 + 0.7 * sign * away, 1e-6)
        return 0.98 * _normal(np.log(stretched) / 0.7) / stretched + 0.02 * _cauchy(away, 4.0)

    return density


_SHAPES: tuple[tuple[float, Density], ...] = (
    (0.35, _spiked(0.01)),
    (0.2, _spiked(0.07)),
    (0.1, _spiked(0.2)),
    (0.15, _student),
    (0.1, _skewed(1.0)),
    (0.1, _skewed(-1.0)),
)
"""How likely each shape is beforehand, and its density."""
