"""Attentions against a baseline: on the same samples, pair by pair, and by what they cost.

For each model, benchmark and subset the scores of one sample under both attentions are a pair. The mean of the
differences is the effect; its interval comes from drawing the pairs anew, 10,000 times. Whether there is one is decided
by exchanging the two attentions: if they are the same, each pair might as well be the other way round. Samples of one
document are exchanged and drawn together, and all effects of an execution are corrected for together. Samples, keys and
versions must agree: what was asked under other conditions is not mixed in.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from paceline.evals.interfaces import EvalError
from paceline.evals.keys import content_key
from paceline.evals.results import BenchmarkResult
from paceline.evals.stub_files import RAW
from paceline.model import Verdict

if TYPE_CHECKING:
    from paceline.judge.intervals import Floats

RESAMPLES = 10_000
_MOST_EXACT = 14  # Groups of samples up to which every exchange is tried, else many at random.
_EXCHANGES = 20_000
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
    groups: int = 0
    """Samples that belong together, as those of one document, count as one."""
    p_value: float = 1.0
    p_adjusted: float = 1.0
    """After correction for all effects of the comparison."""
    reason: str = ""
    """Why nothing can be said, whatever the scores are: there are too few samples."""


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
    gone: tuple[str, ...] = ()
    """What the baseline has a result of, and an attention that has others of that model has not."""

    @property
    def has_worse(self) -> bool:
        return any(effect.verdict == "worse" for effect in self.effects)


def compare(
    results: Iterable[BenchmarkResult],
    *,
    baseline: str = "dense",
    confidence: float = 0.95,
    seed: int = 0,
    failed: Iterable[str] = (),
) -> Comparison:
    """Hold every attention against the baseline; raises if the baseline is nowhere among the results.

    `failed` are the names of stubs that have no result because they failed.
    """
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
    return Comparison(
        effects=tuple(_corrected(effects, 1 - confidence)),
        pareto=pareto,
        missing=tuple(missing),
        gone=tuple(dict.fromkeys((*_gone(cells, baseline), *failed))),
    )


def _gone(cells: Mapping[tuple[str, ...], Mapping[str, BenchmarkResult]], baseline: str) -> Iterator[str]:
    attentions = _attentions(cells)
    for (model, *_), cell in cells.items():
        if baseline in cell:
            task = cell[baseline].stub.task
            yield from (f"{model}/{name}/{task}" for name in sorted(attentions[model] - cell.keys()))


def _attentions(cells: Mapping[tuple[str, ...], Mapping[str, Any]]) -> dict[str, set[str]]:
    """The attentions that each model has a result of."""
    found: dict[str, set[str]] = defaultdict(set)
    for (model, *_), cell in cells.items():
        found[model] |= cell.keys()
    return found


def _shared(cells: Mapping[tuple[str, ...], Mapping[str, BenchmarkResult]]) -> Iterator[BenchmarkResult]:
    """The results of those cells that all attentions of their model have."""
    attentions = _attentions(cells)
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
    groups = _grouped(sample_groups(result) or sample_groups(baseline), sorted(ours))
    differences = [[ours[name] - theirs[name] for name in names] for names in groups]
    found = result.metrics["metrics"][metric]
    low, high = _interval(differences, found["high"] - found["low"], confidence, seed)
    count = len(ours)
    difference = math.fsum(map(math.fsum, differences)) / count
    return PairedEffect(
        model=result.stub.model_name,
        benchmark=result.stub.benchmark_name,
        subset=result.stub.subset,
        attention=result.stub.sparse_config_name,
        baseline=baseline.stub.sparse_config_name,
        metric=metric,
        score=result.score,
        baseline_score=baseline.score,
        difference=difference,
        low=min(low, difference),
        high=max(high, difference),
        n=count,
        density=result.density,
        verdict=_verdict(difference, found["direction"]),
        groups=len(groups),
        p_value=exchange_test([math.fsum(one) for one in differences], seed=seed),
    )


def _verdict(difference: float, direction: str | None) -> Verdict:
    """What the effect is, if it is one."""
    if not difference:
        return "same"
    if direction is None:
        return "inconclusive"
    return "better" if (difference > 0) == (direction == "higher") else "worse"


def _corrected(effects: Sequence[PairedEffect], rate: float) -> Iterator[PairedEffect]:
    """The effects with verdicts that hold for all of them together."""
    from paceline.judge.discoveries import holm

    fewest = fewest_groups(len(effects), rate)
    adjusted = holm([one.p_value for one in effects])
    for one, p_value in zip(effects, adjusted, strict=True):
        verdict, reason = one.verdict, ""
        if one.groups < fewest:
            of = "samples" if one.groups == one.n else f"documents ({one.n} samples)"
            reason = f"too few: {one.groups} {of}, {fewest} can decide"
            verdict = "inconclusive"
        elif p_value > rate and not (one.low == one.high == 0):
            verdict = "inconclusive"
        yield replace(one, verdict=verdict, p_adjusted=p_value, reason=reason)


def fewest_groups(effects: int, rate: float) -> int:
    """How many pairs it takes to decide among so many effects, if all of them say the same."""
    return math.ceil(math.log2(2 * max(effects, 1) / rate))


def _grouped(groups: Mapping[str, str], names: Sequence[str]) -> list[list[str]]:
    """The samples that belong together; what is the same for all of them is a part of the question."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        found[groups.get(name) or f"sample {name}"].append(name)
    return list(found.values()) if len(found) > 1 else [[name] for name in names]


def exchange_test(differences: Sequence[float], *, seed: int = 0) -> float:
    """How probable so large a sum of differences is if each might as well have the other sign."""
    import numpy as np

    data = np.asarray([one for one in differences if one], dtype=float)
    if not data.size:
        return 1.0
    least = abs(data.sum()) - 1e-9 * np.abs(data).sum()
    if data.size <= _MOST_EXACT:
        bits = np.arange(2**data.size)[:, None] >> np.arange(data.size) & 1
        return float((np.abs((1 - 2 * bits) @ data) >= least).mean())
    random = np.random.default_rng(seed)
    batch = max(1, 4_000_000 // data.size)
    hits = sum(
        int(
            (
                np.abs(random.choice((-1.0, 1.0), (min(batch, _EXCHANGES - done), data.size)) @ data) >= least
            ).sum()
        )
        for done in range(0, _EXCHANGES, batch)
    )
    return (hits + 1) / (_EXCHANGES + 1)


def _interval(
    differences: Sequence[Sequence[float]], width: float, confidence: float, seed: int
) -> tuple[float, float]:
    """The interval of the mean by drawing the groups anew, a little wider where they are few (Hesterberg, 2015)."""
    from paceline.judge.comparison import student_quantile

    count = len(differences)
    if count < 2:
        return -abs(width), abs(width)
    normal = NormalDist()
    reach = student_quantile((1 + confidence) / 2, count - 1) * math.sqrt(count / (count - 1))
    confidence = 1 - 2 * normal.cdf(-reach)
    sums, sizes = [math.fsum(one) for one in differences], [len(one) for one in differences]
    return bootstrap_mean(sums, sizes, confidence=confidence, seed=seed)


def bootstrap_mean(
    sums: Sequence[float], sizes: Sequence[int], *, confidence: float, seed: int
) -> tuple[float, float]:
    """The interval of the mean of groups by drawing them anew; the same values give the same interval."""
    import numpy as np

    data, weights = np.asarray(sums, dtype=float), np.asarray(sizes, dtype=float)
    random = np.random.default_rng(seed)
    batch = max(1, 4_000_000 // max(1, data.size))

    def means(count: int) -> "Floats":
        drawn = random.integers(0, data.size, (count, data.size))
        found: Floats = data[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
        return found

    drawn = np.concatenate([means(min(batch, RESAMPLES - done)) for done in range(0, RESAMPLES, batch)])
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def sample_scores(result: BenchmarkResult, metric: str) -> dict[str, float]:
    """The score of each sample, as the stub's table has it."""
    column = f"score.{metric}"
    try:
        return {row["sample_id"]: float(row[column]) for row in _rows(result)}
    except (OSError, KeyError, ValueError) as error:
        raise EvalError(
            f"{Path(result.result_dir, RAW)} has no {column} for each sample: score the stub again"
        ) from error


def sample_groups(result: BenchmarkResult) -> dict[str, str]:
    """What each sample belongs to; nothing in a table of before that was kept."""
    return {row["sample_id"]: row["group"] for row in _rows(result) if row.get("group")}


def _rows(result: BenchmarkResult) -> Iterator[dict[str, str]]:
    with Path(result.result_dir, RAW).open(newline="", encoding="utf-8", errors="surrogatepass") as file:
        yield from csv.DictReader(file)


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
