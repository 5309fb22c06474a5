"""What the attentions of a model are worth over all benchmarks, and what each costs: the points of a plot."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from paceline.evals.keys import content_key
from paceline.evals.results import BenchmarkResult
from paceline.evals.samples import Means, SampleScores, mean_interval, read_samples, strata_interval

_CLOSE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoPoint:
    """Quality and cost of an attention of a model; `on_front` if none has as much quality at less density.

    All are means over those subsets that every attention of the model has a result for: one that failed where it is
    hard must not look the better for it.
    """

    model: str
    attention: str
    quality: float
    """The mean over subsets of the score's place within its range, from 0 to 1."""
    low: float | None
    high: float | None
    """Its interval (95 %); None where a subset has a single document, or a score that is not a mean over samples."""
    density: float | None
    seconds: float | None
    """Of generating, a sample."""
    on_front: bool = False
    on_time_front: bool = False
    """The same with seconds for density."""
    source: str = "real"
    """Whether its rows are the benchmarks' own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """One result, as a point is made of several: where its score lies in its range, and what it cost."""

    place: float
    means: Means | None
    """The places of its samples; None if its score is not their mean."""
    density: float | None
    generate_s: float | None
    samples: int
    source: str


def subset_of(
    metrics: Mapping[str, Any], scores: SampleScores, generate_s: float | None, source: str
) -> Subset:
    """The same from what `metrics.json` and the table of samples hold."""
    found = metrics["metrics"][metrics["primary"]]
    low, high = float(found["low"]), float(found["high"])
    width = high - low
    # 1 is best; of a score without a range nothing can be said but that it is there.
    sign, start = (-1.0, high) if found["direction"] == "lower" else (1.0, low)

    def place(value: float) -> float:
        return sign * (value - start) / width if width else 0.0

    placed = {name: place(score) for name, score in scores.scores.items()}
    means = replace(replace(scores, scores=placed).means(), bounds=(0.0, 1.0) if width else None)
    value = place(float(found["value"]))
    return Subset(
        place=value,
        means=means if abs(means.mean - value) <= _CLOSE else None,
        density=metrics.get("density"),
        generate_s=generate_s,
        samples=len(scores.scores),
        source=source,
    )


def score_interval(metrics: Mapping[str, Any], scores: SampleScores) -> tuple[float, float] | None:
    """The interval (95 %) of a result's score; None if it is not the mean of its samples', or there is one only."""
    found = metrics["metrics"][metrics["primary"]]
    means = scores.means()
    if abs(means.mean - found["value"]) > _CLOSE * max(1.0, abs(found["high"] - found["low"])):
        return None
    low, high = float(found["low"]), float(found["high"])
    interval = mean_interval(replace(means, bounds=(low, high)))
    return None if interval is None else (max(low, interval[0]), min(high, interval[1]))


Cells = Mapping[tuple[str, ...], Mapping[str, BenchmarkResult]]
"""(model, task, what decides its questions) → attention → result."""


def cells_of(results: Iterable[BenchmarkResult]) -> Cells:
    """Results of the same questions to the same model together."""
    cells: dict[tuple[str, ...], dict[str, BenchmarkResult]] = defaultdict(dict)
    for result in results:
        stub = result.stub
        # Two benchmarks of one name with other parameters are two.
        asked = content_key(stub.content["benchmark"])
        cells[stub.model_name, stub.task, asked][stub.sparse_config_name] = result
    return cells


def attentions_of(cells: Mapping[tuple[str, ...], Mapping[str, Any]]) -> dict[str, set[str]]:
    """The attentions that each model has a result of."""
    found: dict[str, set[str]] = defaultdict(set)
    for (model, *_), cell in cells.items():
        found[model] |= cell.keys()
    return found


def quality(results: Iterable[BenchmarkResult]) -> tuple[list[ParetoPoint], list[str]]:
    """A point for each attention of each model, and why a model has none."""
    return points_of(
        {
            key: {name: _subset(result) for name, result in cell.items()}
            for key, cell in cells_of(results).items()
        }
    )


def _subset(result: BenchmarkResult) -> Subset:
    scores = read_samples(result, result.metrics["primary"])
    return subset_of(result.metrics, scores, result.facts.get("generate_s"), result.stub.source)


def points_of(
    cells: Mapping[tuple[str, ...], Mapping[str, Subset]],
) -> tuple[list[ParetoPoint], list[str]]:
    """The same of (model, …) → attention → subset: over those subsets that all attentions of the model have."""
    attentions = attentions_of(cells)
    members: dict[tuple[str, str], list[Subset]] = defaultdict(list)
    kinds: dict[str, set[str]] = defaultdict(set)
    for (model, *_), cell in cells.items():
        if cell.keys() == attentions[model]:
            for name, subset in cell.items():
                members[model, name].append(subset)
                kinds[model].add(subset.source)
    mixed = [model for model, found in kinds.items() if len(found) > 1]
    refused = [
        f"no mean for {model}: its results are of {' and '.join(sorted(kinds[model]))} rows; run them apart"
        for model in mixed
    ]
    points = [_point(*name, found) for name, found in members.items() if name[0] not in mixed]
    cheap = front(points, lambda point: point.density)
    fast = front(points, lambda point: point.seconds)
    return [replace(point, on_front=point in cheap, on_time_front=point in fast) for point in points], refused


def _point(model: str, attention: str, members: Sequence[Subset]) -> ParetoPoint:
    strata = [member.means for member in members if member.means is not None]
    interval = strata_interval(strata) if len(strata) == len(members) else None
    low, high = (None, None) if interval is None else (max(0.0, interval[0]), min(1.0, interval[1]))
    densities = [member.density for member in members if member.density is not None]
    seconds = [member.generate_s for member in members if member.generate_s is not None]
    samples = sum(member.samples for member in members)
    return ParetoPoint(
        model=model,
        attention=attention,
        quality=sum(member.place for member in members) / len(members),
        low=low,
        high=high,
        density=sum(densities) / len(members) if len(densities) == len(members) else None,
        seconds=sum(seconds) / samples if len(seconds) == len(members) and samples else None,
        source=members[0].source,
    )


def front(points: Iterable[ParetoPoint], cost: Callable[[ParetoPoint], float | None]) -> list[ParetoPoint]:
    """Those points that none of their model beats in both: no less quality at no more cost."""
    known = [(point, price) for point in points if (price := cost(point)) is not None]

    def is_beaten(point: ParetoPoint, price: float) -> bool:
        return any(
            other.model == point.model
            and (other.quality, at) != (point.quality, price)
            and other.quality >= point.quality
            and at <= price
            for other, at in known
        )

    return [point for point, price in known if not is_beaten(point, price)]
