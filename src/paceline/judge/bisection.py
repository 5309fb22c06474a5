"""Which of many commits made a number worse, when every measurement is noisy: a posterior over the culprit.

Commit `i` is good if it lies before the culprit and bad from it on. Both levels and the noise are unknown: each
hypothesis gets the marginal likelihood of all values seen (normal, conjugate priors), and the next commit to measure
is the one whose value says most about the culprit. The derivation is in docs/statistics.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.errors import PacelineError
from paceline.judge.intervals import Floats, Integers

# What is known of a level beforehand, in measurements: to say whether there is a difference, and then where it begins.
_UNKNOWN, _KNOWN = 0.01, 0.3
_NOISE_WEIGHT = 0.1
_UNREPRODUCIBLE = 0.15  # How likely it is, beforehand, that good and bad do not differ at all.
_HOPELESS = 0.8  # Small differences can never be ruled out; from here on the search is not worth its runs.
_CLIP = 4.0
_FEW = 10  # With fewer values of the two ends, their noise cannot be told from spikes.
_TINY = 1e-9
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
        self._seen = _Seen.of(good, bad, commits, values, self.count)
        apart = abs(float(np.median(bad)) - float(np.median(good)))
        # The prior of a level is as wide as they lie apart: what is huge in units of the noise is no surprise.
        self._fit = self._seen.fit(min(_KNOWN, 1.2 / max(apart * apart, 1.0)))
        # One value's worth of evidence is left out, as the scale to clip by was learned from the same values.
        told = 1 - 1 / (len(good) + len(bad) + len(values))
        self._posterior = self._chance_to_differ() * _shares(told * self._fit.evidence)

    def _chance_to_differ(self) -> float:
        """How likely good and bad differ; before anything is known about their size, small differences are rare."""
        self._alike = self._seen.fit_alike(_UNKNOWN)
        evidence = self._seen.fit(_UNKNOWN).evidence
        highest = float(evidence.max())
        differ = highest + math.log(float(np.exp(evidence - highest).mean()))
        odds = math.log(_UNREPRODUCIBLE / (1 - _UNREPRODUCIBLE)) + float(self._alike.evidence[0]) - differ
        return 1 / (1 + math.exp(min(odds, 700.0)))

    def _standardised(self) -> tuple[Floats, Floats, Integers, Floats]:
        """All values around 0 in units of their noise, spikes clipped."""
        good, bad = np.array(self._good), np.array(self._bad)
        commits = np.array([commit for commit, _ in self._values], dtype=np.intp)
        values = np.array([value for _, value in self._values], dtype=float)
        ends = (float(np.median(good)), float(np.median(bad)))
        largest = max(float(np.abs(part).max(initial=0.0)) for part in (good, bad, values))
        scale = max(_deviation(good - ends[0], bad - ends[1], abs(ends[1] - ends[0])), _TINY * largest)
        reach = _CLIP * scale if len(good) + len(bad) >= _FEW else math.inf
        low, high = min(ends) - reach, max(ends) + reach
        middle = sum(ends) / 2
        good, bad, values = ((np.clip(part, low, high) - middle) / scale for part in (good, bad, values))
        return good, bad, commits, values

    def _information(self) -> Floats:
        """For each commit, the entropy of its predicted value less the entropy it keeps when the culprit is known."""
        fit, weights = self._fit, self._posterior
        grid = _GRID * float(fit.spread.max()) + float(fit.good_mean.mean() + fit.bad_mean.mean()) / 2
        alike = (1 - float(weights.sum())) * _density(grid, self._alike.good_mean, self._alike.good_spread)[0]
        if_good = weights[:, None] * _density(grid, fit.good_mean, fit.good_spread)
        if_bad = weights[:, None] * _density(grid, fit.bad_mean, fit.bad_spread)
        # Commit i is bad under the hypotheses 0…i, and good under the rest.
        mixture = np.cumsum(if_bad, axis=0) + if_good.sum(axis=0) - np.cumsum(if_good, axis=0) + alike
        step = float(grid[1] - grid[0])
        entropy: Floats = -(mixture * np.log(np.maximum(mixture, 1e-300))).sum(axis=1) * step
        known_bad, known_good = weights * np.log(fit.bad_spread), weights * np.log(fit.good_spread)
        known: Floats = np.cumsum(known_bad) + known_good.sum() - np.cumsum(known_good)
        return entropy - known


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """What is known of the levels and the noise under each hypothesis, and its log evidence."""

    evidence: Floats
    good_mean: Floats
    bad_mean: Floats
    good_spread: Floats
    bad_spread: Floats
    spread: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Numbers and sums of the values that are good and bad, for each possible culprit."""

    good_count: Floats
    bad_count: Floats
    good_sum: Floats
    bad_sum: Floats
    squares: float

    @classmethod
    def of(cls, good: Floats, bad: Floats, commits: Integers, values: Floats, count: int) -> "_Seen":
        counts = np.bincount(commits, minlength=count).astype(float)
        sums = np.bincount(commits, weights=values, minlength=count).astype(float)
        before, before_sum = _exclusive(counts), _exclusive(sums)
        return cls(
            good_count=len(good) + before,
            bad_count=len(bad) + counts.sum() - before,
            good_sum=good.sum() + before_sum,
            bad_sum=bad.sum() + sums.sum() - before_sum,
            squares=float(good @ good + bad @ bad + values @ values),
        )

    def fit(self, weight: float) -> _Fit:
        """Normal values with conjugate priors: a level is known beforehand as well as from `weight` measurements."""
        good_mean = self.good_sum / (self.good_count + weight)
        bad_mean = self.bad_sum / (self.bad_count + weight)
        scatter = _NOISE_WEIGHT + self.squares - self.good_sum * good_mean - self.bad_sum * bad_mean
        total = self.good_count + self.bad_count
        occam = np.log1p(self.good_count / weight) + np.log1p(self.bad_count / weight)
        spread = np.sqrt(scatter / (2 * _NOISE_WEIGHT + total))
        return _Fit(
            evidence=-0.5 * occam - (_NOISE_WEIGHT + total / 2) * np.log(scatter),
            good_mean=good_mean,
            bad_mean=bad_mean,
            good_spread=spread * np.sqrt(1 + 1 / (self.good_count + weight)),
            bad_spread=spread * np.sqrt(1 + 1 / (self.bad_count + weight)),
            spread=spread,
        )

    def fit_alike(self, weight: float) -> _Fit:
        """The same if there is one level only: nothing is bad."""
        nothing = np.zeros(1)
        total, everything = self.good_count[:1] + self.bad_count[:1], self.good_sum[:1] + self.bad_sum[:1]
        alike = _Seen(
            good_count=total, bad_count=nothing, good_sum=everything, bad_sum=nothing, squares=self.squares
        )
        return alike.fit(weight)


def _shares(evidence: Floats) -> Floats:
    weights: Floats = np.exp(evidence - evidence.max())
    shares: Floats = weights / weights.sum()
    return shares


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
