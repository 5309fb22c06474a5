"""Which of many commits made a number worse, when every measurement is noisy: a posterior over the culprit.

Commit `i` is good if it lies before the culprit and bad from it on. Both levels and the noise are unknown: each
hypothesis gets the marginal likelihood of all values seen (normal, conjugate priors), and the next commit to measure
is the one whose value says most about the culprit. The derivation is in docs/statistics.md.
"""

import math
from collections.abc import Sequence

import numpy as np

from paceline.errors import PacelineError
from paceline.judge.intervals import Floats

_MEAN_WEIGHT = 0.01  # What is known of a level beforehand is worth this many measurements.
_NOISE_WEIGHT = 0.1
_UNREPRODUCIBLE = 0.1  # How likely it is, beforehand, that good and bad do not differ at all.
_HOPELESS = 0.8  # Small differences can never be ruled out; from here on the search is not worth its runs.
_CLIP = 4.0
_FEW = 10  # With fewer values of the two ends, their noise cannot be told from spikes.
_GRID = np.linspace(-8.0, 8.0, 65)


class Bisection:
    """Finds the first bad one of `count` commits in order, from noisy values.

    `good` are values measured before the first of them (or on it, when it is known to be good), `bad` values of the
    last. Take `next()`, measure it, tell `observe()`, until `done`.
    """

    def __init__(
        self, count: int, *, good: Sequence[float], bad: Sequence[float], confidence: float = 0.95
    ) -> None:
        if count < 1 or not len(good) or not len(bad):
            raise PacelineError("a bisection needs at least one commit, one good value and one bad value")
        self.count = count
        self.runs = 0
        self._wanted = confidence
        self._good, self._bad = [float(v) for v in good], [float(v) for v in bad]
        self._values: list[tuple[int, float]] = []
        self._unbuildable: set[int] = set()
        self._learn()

    @property
    def culprit(self) -> int | None:
        """The most likely first bad commit; None when good and bad do not differ."""
        return None if self.reproduces is False else int(self._posterior.argmax())

    @property
    def confidence(self) -> float:
        """How likely `culprit` is right."""
        return 1 - float(self._posterior.sum()) if self.reproduces is False else float(self._posterior.max())

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
        if self.reproduces is False or not self._buildable():
            return True
        return float(self._posterior[list(self.suspects)].sum()) >= self._wanted

    def next(self) -> int:
        """The commit whose value is expected to say most about the culprit."""
        information = self._information()
        information[list(self._unbuildable)] = -math.inf
        return int(information.argmax())

    def observe(self, commit: int, value: float | None) -> None:
        """Take in a value of a commit, or None if it cannot be built."""
        if not 0 <= commit < self.count:
            raise PacelineError(f"there is no commit {commit}: they are 0 to {self.count - 1}")
        self.runs += 1
        if value is None:
            self._unbuildable.add(commit)
        else:
            self._values.append((commit, float(value)))
            self._learn()

    def _buildable(self) -> bool:
        return len(self._unbuildable) < self.count

    def _group(self, commit: int) -> tuple[int, ...]:
        first = last = commit
        while first - 1 in self._unbuildable:
            first -= 1
        while last in self._unbuildable and last < self.count - 1:
            last += 1
        return tuple(range(first, last + 1))

    def _learn(self) -> None:
        good, bad, commits, values = self._standardised()
        counts = np.bincount(commits, minlength=self.count).astype(float)
        sums = np.bincount(commits, weights=values, minlength=self.count).astype(float)
        before, before_sum = _exclusive(counts), _exclusive(sums)
        self._good_count = len(good) + before
        self._bad_count = len(bad) + counts.sum() - before
        good_sum, bad_sum = good.sum() + before_sum, bad.sum() + sums.sum() - before_sum
        self._good_mean = good_sum / (self._good_count + _MEAN_WEIGHT)
        self._bad_mean = bad_sum / (self._bad_count + _MEAN_WEIGHT)
        squares = float(good @ good + bad @ bad + values @ values)
        total = len(good) + len(bad) + len(values)
        scatter = _NOISE_WEIGHT + squares - good_sum * self._good_mean - bad_sum * self._bad_mean
        evidence = -0.5 * (
            np.log1p(self._good_count / _MEAN_WEIGHT) + np.log1p(self._bad_count / _MEAN_WEIGHT)
        ) - (_NOISE_WEIGHT + total / 2) * np.log(scatter)
        everything = float(good.sum() + bad.sum() + values.sum())
        alike_scatter = _NOISE_WEIGHT + squares - everything**2 / (total + _MEAN_WEIGHT)
        alike = -0.5 * math.log1p(total / _MEAN_WEIGHT) - (_NOISE_WEIGHT + total / 2) * math.log(
            alike_scatter
        )
        self._alike_mean = np.array([everything / (total + _MEAN_WEIGHT)])
        self._alike_spread = np.array(
            [math.sqrt(alike_scatter / (2 * _NOISE_WEIGHT + total) * (1 + 1 / total))]
        )
        self._noise_variance = scatter / (2 * _NOISE_WEIGHT + total)
        self._weigh(evidence, alike)

    def _weigh(self, evidence: Floats, alike: float) -> None:
        evidence = evidence + math.log((1 - _UNREPRODUCIBLE) / self.count)
        alike += math.log(_UNREPRODUCIBLE)
        highest = max(float(evidence.max()), alike)
        weights = np.exp(evidence - highest)
        self._posterior = weights / (float(weights.sum()) + math.exp(alike - highest))

    def _standardised(self) -> tuple[Floats, Floats, "np.ndarray[tuple[int], np.dtype[np.intp]]", Floats]:
        """All values around 0 in units of their noise, spikes clipped."""
        good, bad = np.array(self._good), np.array(self._bad)
        commits = np.array([commit for commit, _ in self._values], dtype=np.intp)
        values = np.array([value for _, value in self._values], dtype=float)
        ends = (float(np.median(good)), float(np.median(bad)))
        scale = _deviation(good - ends[0], bad - ends[1], abs(ends[1] - ends[0]))
        reach = _CLIP * scale if len(good) + len(bad) >= _FEW else math.inf
        low, high = min(ends) - reach, max(ends) + reach
        middle = sum(ends) / 2
        good, bad, values = ((np.clip(part, low, high) - middle) / scale for part in (good, bad, values))
        return good, bad, commits, values

    def _information(self) -> Floats:
        """For each commit, the entropy of its predicted value less the entropy it keeps when the culprit is known."""
        spread = np.sqrt(self._noise_variance)
        good_spread = spread * np.sqrt(1 + 1 / (self._good_count + _MEAN_WEIGHT))
        bad_spread = spread * np.sqrt(1 + 1 / (self._bad_count + _MEAN_WEIGHT))
        grid = _GRID * float(spread.max()) + float(self._good_mean.mean() + self._bad_mean.mean()) / 2
        weights = self._posterior
        alike = (1 - float(weights.sum())) * _density(grid, self._alike_mean, self._alike_spread)[0]
        if_good = weights[:, None] * _density(grid, self._good_mean, good_spread)
        if_bad = weights[:, None] * _density(grid, self._bad_mean, bad_spread)
        # Commit i is bad under the hypotheses 0…i, and good under the rest.
        mixture = np.cumsum(if_bad, axis=0) + if_good.sum(axis=0) - np.cumsum(if_good, axis=0) + alike
        step = float(grid[1] - grid[0])
        entropy: Floats = -(mixture * np.log(np.maximum(mixture, 1e-300))).sum(axis=1) * step
        known_bad, known_good = weights * np.log(bad_spread), weights * np.log(good_spread)
        known: Floats = np.cumsum(known_bad) + known_good.sum() - np.cumsum(known_good)
        return entropy - known


def _exclusive(values: Floats) -> Floats:
    """For each place, the sum of what lies before it."""
    return np.concatenate(([0.0], np.cumsum(values)[:-1]))


def _density(grid: Floats, mean: Floats, spread: Floats) -> Floats:
    distance = (grid[None, :] - mean[:, None]) / spread[:, None]
    return np.exp(-0.5 * distance * distance) / (spread[:, None] * math.sqrt(2 * math.pi))


def _deviation(good: Floats, bad: Floats, difference: float) -> float:
    """A robust standard deviation of the ends' values; where there are too few, a third of their difference."""
    rest = np.abs(np.concatenate((good, bad)))
    robust = 1.4826 * float(np.median(rest)) if len(rest) >= _FEW else 0.0
    return robust or difference / 3 or float(rest.max()) or 1.0
