"""Attentions against a baseline: on the same samples, pair by pair, and by what they cost.

For each model, benchmark and subset the scores of one sample under both attentions are a pair. The mean of the
differences is the effect; its interval comes from drawing the pairs anew, 10,000 times. Whether there is one is decided
by exchanging the two attentions: if they are the same, each pair might as well be the other way round. Samples of one
document are exchanged and drawn together, and all effects of an execution are corrected for together. Samples, keys and
versions must agree: what was asked under other conditions is not mixed in.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from paceline.evals.exchange import exchange_test
from paceline.evals.interfaces import EvalError
from paceline.evals.quality import Cells, ParetoPoint, attentions_of, cells_of, quality
from paceline.evals.results import BenchmarkResult
from paceline.evals.samples import SampleScores, flip_rate, mean_interval, read_samples
from paceline.model import Verdict

CONDITIONS = ("model", "adapter", "benchmark", "subset", "generation_kwargs", "request_kwargs", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedEffect:
    """One attention against the baseline on one subset of one model; differences are attention less baseline."""

    model: str
    task: str
    """The benchmark and its subset; rows that are not the benchmark's own are in the name."""
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
    flips: float = 0.0
    """The share of samples whose score is another one."""
    own_flips: float | None = None
    """The same between two answers of the baseline itself; None if it answered once."""
    stopped_after: int | None = None
    """Samples after which it was decided, of all that there are (`of`); None if all were asked."""
    of: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All effects, the front of each model, and what had no counterpart."""

    effects: tuple[PairedEffect, ...]
    pareto: tuple[ParetoPoint, ...]
    missing: tuple[str, ...]
    refused: tuple[str, ...] = ()
    """Why a model has no mean over its subsets."""
    own: tuple[PairedEffect, ...] = ()
    """The baseline against itself (A/A), where samples were asked several times."""
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
    results = list(results)
    cells = cells_of(results)
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
    own = (_against_itself(cell[baseline], confidence, seed) for cell in cells.values() if baseline in cell)
    points, refused = quality(results)
    return Comparison(
        effects=tuple(_corrected(effects, 1 - confidence)),
        pareto=tuple(points),
        refused=tuple(refused),
        missing=tuple(missing),
        own=tuple(effect for effect in own if effect is not None),
        gone=tuple(dict.fromkeys((*_gone(cells, baseline), *failed))),
    )


def _gone(cells: Cells, baseline: str) -> Iterator[str]:
    attentions = attentions_of(cells)
    for (model, *_), cell in cells.items():
        if baseline in cell:
            task = cell[baseline].stub.task
            yield from (f"{model}/{name}/{task}" for name in sorted(attentions[model] - cell.keys()))


def _is_comparable(result: BenchmarkResult, baseline: BenchmarkResult) -> bool:
    ours, theirs = result.stub.content, baseline.stub.content
    same = all(ours.get(name) == theirs.get(name) for name in CONDITIONS)
    return same and result.metrics["primary"] == baseline.metrics["primary"]


def _effect(result: BenchmarkResult, baseline: BenchmarkResult, confidence: float, seed: int) -> PairedEffect:
    metric = result.metrics["primary"]
    ours, theirs = read_samples(result, metric), read_samples(baseline, metric)
    stopped = result.metrics.get("stopped")
    if stopped is not None:
        theirs = theirs.only(ours.scores)
    if ours.scores.keys() != theirs.scores.keys():
        raise EvalError(
            f"{result.stub.name} and {baseline.stub.name} did not ask the same samples: run both again"
        )
    effect = _paired(result, ours, theirs, confidence, seed)
    asked = result.stub.content.get("request_kwargs") or {}
    looks = int((asked.get("early_stop") or {}).get("looks", 1))
    return replace(
        effect,
        baseline=baseline.stub.sparse_config_name,
        baseline_score=baseline.score if stopped is None else theirs.means().mean,
        own_flips=flip_rate(theirs),
        p_value=min(1.0, looks * effect.p_value),
        stopped_after=None if stopped is None else int(stopped["after"]),
        of=effect.n if stopped is None else int(stopped["of"]),
    )


def _paired(
    result: BenchmarkResult, ours: SampleScores, theirs: SampleScores, confidence: float, seed: int
) -> PairedEffect:
    """The mean difference over samples that both have, with its interval and its p-value."""
    differences = {name: score - theirs.scores[name] for name, score in ours.scores.items()}
    means = replace(ours, scores=differences, groups=ours.groups or theirs.groups).means()
    found = result.metrics["metrics"][result.metrics["primary"]]
    width = abs(found["high"] - found["low"])
    low, high = mean_interval(means, confidence=confidence, seed=seed) or (-width, width)
    return PairedEffect(
        model=result.stub.model_name,
        task=result.stub.task,
        benchmark=result.stub.benchmark_name,
        subset=result.stub.subset,
        attention=result.stub.sparse_config_name,
        baseline=result.stub.sparse_config_name,
        metric=result.metrics["primary"],
        score=ours.means().mean if result.metrics.get("stopped") else result.score,
        baseline_score=theirs.means().mean,
        difference=means.mean,
        low=min(low, means.mean),
        high=max(high, means.mean),
        n=len(differences),
        of=len(differences),
        density=result.density,
        verdict=_verdict(means.mean, found["direction"]),
        groups=len(means.sums),
        p_value=exchange_test(means.sums, seed=seed),
        flips=sum(map(bool, differences.values())) / len(differences),
    )


def _against_itself(baseline: BenchmarkResult, confidence: float, seed: int) -> PairedEffect | None:
    """The baseline's repeated answers against each other (A/A): a difference there is no attention's doing."""
    table = read_samples(baseline, baseline.metrics["primary"])
    pairs = table.repeated_pairs()
    if not pairs:
        return None
    odd, even = (
        replace(table, scores={one: table.scores[pair[at]] for one, pair in pairs.items()}) for at in (0, 1)
    )
    effect = _paired(baseline, odd, even, confidence, seed)
    verdict: Verdict = effect.verdict if effect.p_value <= 1 - confidence else "same"
    return replace(effect, own_flips=effect.flips, verdict=verdict, p_adjusted=effect.p_value)


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
