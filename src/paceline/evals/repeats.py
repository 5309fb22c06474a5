"""The same question several times: how often a model flips by itself, and how often it is right every time."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb, fsum

from paceline.evals.interfaces import EvalBenchmark, Prediction, Sample, Scores, ScoreValue

REPEAT_OF = "repeat_of"
FLIP_RATE = "flip_rate"


def repeated(samples: Sequence[Sample], count: int) -> list[Sample]:
    """Every sample so many times; each has an id, and so a seed, of its own, and belongs to its first."""
    return [
        replace(
            sample,
            id=sample.id if turn == 1 else f"{sample.id}~{turn}",
            extra={**sample.extra, REPEAT_OF: sample.id, **_group(sample)},
        )
        for sample in samples
        for turn in range(1, count + 1)
    ]


def _group(sample: Sample) -> dict[str, str]:
    """What repeats of a question without a document have in common."""
    return {} if sample.context or "group" in sample.extra else {"group": sample.id}


def score_repeats(
    benchmark: EvalBenchmark, samples: Sequence[Sample], predictions: Mapping[str, Prediction]
) -> Scores:
    """The mean of all turns, each scored as if it were the only one; with it the flip rate and pass^k.

    pass^k is the probability that k answers to one sample all get full marks (Yao et al., tau-bench,
    arXiv:2406.12045), estimated from all answers that there are.
    """
    turns: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        turns[str(sample.extra[REPEAT_OF])].append(sample)
    count = min(map(len, turns.values()))
    found = [_score_turn(benchmark, turns, turn, predictions) for turn in range(count)]
    first = found[0]
    metrics = {
        name: replace(
            value,
            value=fsum(one.metrics[name].value for one in found) / count,
            n=sum(one.metrics[name].n for one in found),
        )
        for name, value in first.metrics.items()
    }
    per_sample: dict[str, Mapping[str, float]] = {}
    weights: dict[str, float] = {}
    for turn, one in enumerate(found):
        names = {origin: members[turn].id for origin, members in turns.items()}
        per_sample |= {names[origin]: scores for origin, scores in one.per_sample.items()}
        weights |= {names[origin]: weight for origin, weight in one.weights.items()}
    scores = [
        [per_sample[member.id][first.primary] for member in members[:count]] for members in turns.values()
    ]
    return Scores(
        metrics={**metrics, **_steadiness(scores, first.metrics[first.primary])},
        primary=first.primary,
        per_sample=per_sample,
        weights=weights,
    )


def _score_turn(
    benchmark: EvalBenchmark,
    turns: Mapping[str, Sequence[Sample]],
    turn: int,
    predictions: Mapping[str, Prediction],
) -> Scores:
    """One answer to each sample, under the names that the benchmark gave them."""
    asked = [replace(members[turn], id=origin) for origin, members in turns.items()]
    said = {
        origin: replace(predictions[members[turn].id], sample_id=origin) for origin, members in turns.items()
    }
    return benchmark.score(asked, said)


def _steadiness(scores: Sequence[Sequence[float]], primary: ScoreValue) -> dict[str, ScoreValue]:
    """How many samples are not answered alike each time, and how many are right every time out of k."""
    samples, count = len(scores), len(scores[0])
    flips = sum(len(set(own)) > 1 for own in scores) / samples
    found = {FLIP_RATE: ScoreValue(value=flips, direction="lower", n=samples)}
    if primary.direction is None:
        return found
    best = primary.high if primary.direction == "higher" else primary.low
    right = [sum(score == best for score in own) for own in scores]
    for k in range(1, count + 1):
        value = fsum(comb(hits, k) for hits in right) / (samples * comb(count, k))
        found[f"pass^{k}"] = ScoreValue(value=value, n=samples)
    return found
