"""What each sample of a result scored, what it belongs to, and how sure a mean over samples is.

The interval of a mean comes from drawing samples anew, 10,000 times; those of one document are drawn together. A mean
over several subsets draws within each of them (a stratified bootstrap), since a subset is chosen, not drawn.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from paceline.evals.interfaces import EvalError
from paceline.evals.results import BenchmarkResult
from paceline.evals.stub_files import RAW

if TYPE_CHECKING:
    from paceline.judge.intervals import Floats

RESAMPLES = 10_000
CONFIDENCE = 0.95
_DRAWN_AT_ONCE = 4_000_000
_MANY = 300
"""Documents from which on their mean is as good as normal, and drawing them anew shows nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleScores:
    """The scores of a result by sample, what each belongs to, and how much it counts where that is not the same."""

    scores: Mapping[str, float]
    groups: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    repeats: Mapping[str, str] = field(default_factory=dict)
    """Which sample each is an answer to, where samples were asked several times."""

    def only(self, names: Iterable[str]) -> "SampleScores":
        """The same of these samples alone."""
        return replace(self, scores={name: self.scores[name] for name in names if name in self.scores})

    def repeated_pairs(self) -> dict[str, tuple[str, str]]:
        """Answers to one sample two by two, by the name of the first of each; nothing if each was asked once."""
        found: dict[str, list[str]] = defaultdict(list)
        for name in self.scores:
            if name in self.repeats:
                found[self.repeats[name]].append(name)
        return {
            one: (one, other)
            for names in found.values()
            for one, other in zip(names[::2], names[1::2], strict=False)
        }

    def means(self) -> "Means":
        """The means that an interval is drawn from."""
        groups = grouped(self.groups, sorted(self.scores))
        return Means(
            sums=[math.fsum(self.weight(name) * self.scores[name] for name in names) for names in groups],
            sizes=[math.fsum(map(self.weight, names)) for names in groups],
        )

    def weight(self, name: str) -> float:
        return self.weights.get(name, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Sums over the samples of each document, and how many samples (or how much weight) it has."""

    sums: Sequence[float]
    sizes: Sequence[float]
    bounds: tuple[float, float] | None = None
    """The least and the most that a sample can score, if that is known."""

    @property
    def mean(self) -> float:
        return math.fsum(self.sums) / math.fsum(self.sizes)

    @property
    def error(self) -> float:
        """The standard error of the mean, of documents of unlike size (that of a ratio)."""
        count, middle = len(self.sums), self.mean
        apart = math.fsum((one - middle * size) ** 2 for one, size in zip(self.sums, self.sizes, strict=True))
        return math.sqrt(apart * count / (count - 1)) / math.fsum(self.sizes)

    @property
    def is_constant(self) -> bool:
        """Whether all documents scored alike."""
        return len({total / count for total, count in zip(self.sums, self.sizes, strict=True)}) == 1


def flip_rate(table: SampleScores) -> float | None:
    """How often two answers to one sample score otherwise; None if each was asked once."""
    pairs = table.repeated_pairs()
    flips = sum(table.scores[one] != table.scores[other] for one, other in pairs.values())
    return flips / len(pairs) if pairs else None


def read_samples(result: BenchmarkResult, metric: str) -> SampleScores:
    """The scores of a result's samples, as its table has them."""
    return read_table(Path(result.result_dir), metric)


def read_table(directory: Path, metric: str) -> SampleScores:
    """The same of the table in a stub's directory."""
    path, column = directory / RAW, f"score.{metric}"
    try:
        with path.open(newline="", encoding="utf-8", errors="surrogatepass") as file:
            return sample_scores(csv.DictReader(file), column)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise EvalError(f"{path} has no {column} for each sample: score the stub again") from error


def sample_scores(rows: Iterable[Mapping[str, str]], column: str) -> SampleScores:
    """The same of the rows of such a table; tables of before that was kept say nothing of groups and weights."""
    scores: dict[str, float] = {}
    groups: dict[str, str] = {}
    weights: dict[str, float] = {}
    repeats: dict[str, str] = {}
    for row in rows:
        name = row["sample_id"]
        scores[name] = float(row[column])
        groups |= {name: row["group"]} if row.get("group") else {}
        weights |= {name: float(row["weight"])} if row.get("weight") else {}
        repeats |= {name: row["repeat_of"]} if row.get("repeat_of") else {}
    return SampleScores(scores=scores, groups=groups, weights=weights, repeats=repeats)


def grouped(groups: Mapping[str, str], names: Sequence[str]) -> list[list[str]]:
    """The samples that belong together; what is the same for all of them is a part of the question."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        found[groups.get(name) or f"sample {name}"].append(name)
    return list(found.values()) if len(found) > 1 else [[name] for name in names]


def mean_interval(
    means: Means, *, confidence: float = CONFIDENCE, seed: int = 0
) -> tuple[float, float] | None:
    """The interval of a mean, a little wider where documents are few (Hesterberg, 2015); None if there is one only."""
    count = len(means.sums)
    if count < 2:
        return None
    if means.is_constant and means.bounds is not None:
        return _ends(_possible_means(means, seed), means.mean, (1 - confidence) / 2)
    return _ends(_drawn_means(means, seed), means.mean, NormalDist().cdf(-_reach(count, confidence)))


def strata_interval(
    strata: Sequence[Means], *, confidence: float = CONFIDENCE, seed: int = 0
) -> tuple[float, float] | None:
    """The interval of the mean over subsets, each drawn anew by itself; None if one of them has a single document."""
    if len(strata) == 1:
        return mean_interval(strata[0], confidence=confidence, seed=seed)
    if not strata or any(len(one.sums) < 2 for one in strata):
        return None
    import numpy as np

    usual = NormalDist().inv_cdf((1 + confidence) / 2)
    drawn: Any = 0.0
    for number, one in enumerate(strata):
        if one.is_constant and one.bounds is not None:
            drawn += _possible_means(one, seed, number)
        elif len(one.sums) > _MANY:
            drawn += one.mean + one.error * np.random.default_rng((seed, number)).standard_normal(RESAMPLES)
        else:
            wider = _reach(len(one.sums), confidence) / usual
            drawn += one.mean + (_drawn_means(one, seed, number) - one.mean) * wider
    middle = math.fsum(one.mean for one in strata) / len(strata)
    return _ends(drawn / len(strata), middle, (1 - confidence) / 2)


def _ends(drawn: "Floats", middle: float, tail: float) -> tuple[float, float]:
    import numpy as np

    low, high = np.quantile(drawn, [tail, 1 - tail])
    return min(float(low), middle), max(float(high), middle)


def _reach(count: int, confidence: float) -> float:
    """How far an interval of so few reaches, in standard errors as drawing anew shows them."""
    from paceline.judge.comparison import student_quantile

    return student_quantile((1 + confidence) / 2, count - 1) * math.sqrt(count / (count - 1))


def _drawn_means(means: Means, *seed: int) -> "Floats":
    """Means of documents drawn anew; the same values give the same draws."""
    import numpy as np

    data, weights = np.asarray(means.sums, dtype=float), np.asarray(means.sizes, dtype=float)
    random = np.random.default_rng(seed if len(seed) > 1 else seed[0])
    batch = max(1, _DRAWN_AT_ONCE // data.size)

    def draw(count: int) -> "Floats":
        places = random.integers(0, data.size, (count, data.size))
        found: Floats = data[places].sum(axis=1) / weights[places].sum(axis=1)
        return found

    return np.concatenate([draw(min(batch, RESAMPLES - done)) for done in range(0, RESAMPLES, batch)])


def _possible_means(means: Means, *seed: int) -> "Floats":
    """Where the mean of all that might be asked can lie if so many documents scored alike.

    Drawing them anew shows nothing. The share of others is what so many equal ones leave possible (as the rule of three
    has it), and those may lie at an end of the range.
    """
    import numpy as np

    random = np.random.default_rng(seed if len(seed) > 1 else seed[0])
    ends = [end for end in means.bounds or () if end != means.mean] or [means.mean]
    others = random.beta(1, len(means.sums), RESAMPLES)
    found: Floats = means.mean + others * (random.choice(ends, RESAMPLES) - means.mean)
    return found
