"""Attentions against a baseline: on the same samples, pair by pair, and by what they cost.

For each model, benchmark and subset the scores of one sample under both attentions are a pair. The mean of the
differences is the effect; its interval comes from drawing the pairs anew, 10,000 times. Samples, keys and versions must
agree: what was asked under other conditions is not mixed in.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.evals.interfaces import EvalError
from paceline.evals.keys import content_key
from paceline.evals.results import BenchmarkResult
from paceline.evals.stub_files import RAW
from paceline.model import Verdict

RESAMPLES = 10_000
CONDITIONS = ("model", "adapter", "benchmark", "subset", "generation_kwargs", "request_kwargs", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedEffect:
    """One attention against the baseline on one subset of one model; differences are attention less baseline."""

    model: str
    benchmark: str
    subset: str | None
    attention: str
    baseline: str
    metric: str
    score: float
    baseline_score: float
    difference: float
    low: float
    high: float
    n: int
    density: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoPoint:
    """Quality and density of an attention of a model; `on_front` if none is better in both.

    Both are means over those subsets that every attention of the model has a result for: one that failed where it is
    hard must not look the better for it.
    """

    model: str
    attention: str
    quality: float
    """The mean over subsets of the score's place within its range, from 0 to 1."""
    density: float
    on_front: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All effects, the front of each model, and what had no counterpart."""

    effects: tuple[PairedEffect, ...]
    pareto: tuple[ParetoPoint, ...]
    missing: tuple[str, ...]

    @property
    def has_worse(self) -> bool:
        return any(effect.verdict == "worse" for effect in self.effects)


def compare(
    results: Iterable[BenchmarkResult], *, baseline: str = "dense", confidence: float = 0.95, seed: int = 0
) -> Comparison:
    """Hold every attention against the baseline; raises if the baseline is nowhere among the results."""
    cells: dict[tuple[str, ...], dict[str, BenchmarkResult]] = defaultdict(dict)
    for result in results:
        stub = result.stub
        # Two benchmarks of one name with other parameters are two.
        asked = content_key(stub.content["benchmark"])
        cells[stub.model_name, stub.task, asked][stub.sparse_config_name] = result
    if not any(baseline in cell for cell in cells.values()):
        known = sorted({name for cell in cells.values() for name in cell})
        raise EvalError(
            f"no result under the attention {baseline!r}; there are: {', '.join(known) or 'none'}"
        )
    effects: list[PairedEffect] = []
    missing: list[str] = []
    for cell in cells.values():
        for name, result in cell.items():
            if name == baseline:
                continue
            if baseline not in cell or not _is_comparable(result, cell[baseline]):
                missing.append(result.stub.name)
            else:
                effects.append(_effect(result, cell[baseline], confidence, seed))
    pareto = tuple(_pareto(list(_shared(cells))))
    return Comparison(effects=tuple(effects), pareto=pareto, missing=tuple(missing))


def _shared(cells: Mapping[tuple[str, ...], Mapping[str, BenchmarkResult]]) -> Iterator[BenchmarkResult]:
    """The results of those cells that all attentions of their model have."""
    attentions: dict[str, set[str]] = defaultdict(set)
    for (model, *_), cell in cells.items():
        attentions[model] |= cell.keys()
    for (model, *_), cell in cells.items():
        if cell.keys() == attentions[model]:
            yield from cell.values()


def _is_comparable(result: BenchmarkResult, baseline: BenchmarkResult) -> bool:
    ours, theirs = result.stub.content, baseline.stub.content
    same = all(ours.get(name) == theirs.get(name) for name in CONDITIONS)
    return same and result.metrics["primary"] == baseline.metrics["primary"]


def _effect(result: BenchmarkResult, baseline: BenchmarkResult, confidence: float, seed: int) -> PairedEffect:
    metric = result.metrics["primary"]
    ours, theirs = sample_scores(result, metric), sample_scores(baseline, metric)
    if ours.keys() != theirs.keys():
        raise EvalError(
            f"{result.stub.name} and {baseline.stub.name} did not ask the same samples: run both again"
        )
    differences = [ours[name] - theirs[name] for name in sorted(ours)]
    low, high = bootstrap_mean(differences, confidence=confidence, seed=seed)
    direction = result.metrics["metrics"][metric]["direction"]
    return PairedEffect(
        model=result.stub.model_name,
        benchmark=result.stub.benchmark_name,
        subset=result.stub.subset,
        attention=result.stub.sparse_config_name,
        baseline=baseline.stub.sparse_config_name,
        metric=metric,
        score=result.score,
        baseline_score=baseline.score,
        difference=sum(differences) / len(differences),
        low=low,
        high=high,
        n=len(differences),
        density=result.density,
        verdict=_verdict(low, high, direction),
    )


def _verdict(low: float, high: float, direction: str | None) -> Verdict:
    if low == high == 0:
        return "same"
    if direction is None or low <= 0 <= high:
        return "inconclusive"
    return "better" if (low > 0) == (direction == "higher") else "worse"


def bootstrap_mean(values: Sequence[float], *, confidence: float, seed: int) -> tuple[float, float]:
    """The interval of the mean by drawing the values anew; the same values give the same interval."""
    import numpy as np

    data = np.asarray(values, dtype=float)
    random = np.random.default_rng(seed)
    batch = max(1, 4_000_000 // max(1, data.size))
    means = np.concatenate(
        [
            data[random.integers(0, data.size, (min(batch, RESAMPLES - done), data.size))].mean(axis=1)
            for done in range(0, RESAMPLES, batch)
        ]
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def sample_scores(result: BenchmarkResult, metric: str) -> dict[str, float]:
    """The score of each sample, as the stub's table has it."""
    path = Path(result.result_dir, RAW)
    try:
        with path.open(newline="", encoding="utf-8", errors="surrogatepass") as file:
            return {row["sample_id"]: float(row[f"score.{metric}"]) for row in csv.DictReader(file)}
    except (OSError, KeyError, ValueError) as error:
        raise EvalError(f"{path} has no score.{metric} for each sample: score the stub again") from error


def _pareto(results: Sequence[BenchmarkResult]) -> list[ParetoPoint]:
    """Quality and density of each attention of each model, where the density is known."""
    groups: dict[tuple[str, str], list[BenchmarkResult]] = defaultdict(list)
    for result in results:
        groups[result.stub.model_name, result.stub.sparse_config_name].append(result)
    points = {}
    for name, members in groups.items():
        densities = [member.density for member in members if member.density is not None]
        if len(densities) == len(members):
            quality = sum(_place(member.metrics) for member in members) / len(members)
            points[name] = (quality, sum(densities) / len(members))
    return [
        ParetoPoint(
            model=model,
            attention=attention,
            quality=quality,
            density=density,
            on_front=not any(
                other[0] == model and _dominates(point, (quality, density)) for other, point in points.items()
            ),
        )
        for (model, attention), (quality, density) in points.items()
    ]


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] >= other[0] and one[1] <= other[1]


def _place(metrics: Mapping[str, Any]) -> float:
    """Where the score lies in its range, 1 being best."""
    found = metrics["metrics"][metrics["primary"]]
    width = found["high"] - found["low"]
    share = (found["value"] - found["low"]) / width if width else 0.0
    return 1 - share if found["direction"] == "lower" else share
