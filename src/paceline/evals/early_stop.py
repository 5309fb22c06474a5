"""Asking no more than it takes: an attention is looked at several times, and left when its verdict is certain.

The baseline answers everything first. The documents of every other attention are asked in an order by chance, which is
the same each time; after each part all differences so far are tested by exchanging them, as `evals compare` does. Every
look is a chance to be wrong, and so is every row of the matrix: the level is divided by the number of both
(Bonferroni), so that of all rows together no more are called different by chance than of one that is looked at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.evals.exchange import exchange_test
from paceline.evals.interfaces import EvalBenchmark, Prediction, Sample
from paceline.evals.samples import SampleScores, read_table
from paceline.evals.scoring import sample_group, score
from paceline.evals.stub_files import METRICS, read_marker, read_spec
from paceline.record.codec import load

RATE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStop:
    """The baseline's scores, how often is looked, and what is left of the level for each look."""

    baseline: SampleScores
    metric: str
    looks: int
    level: float

    def p_value(
        self, benchmark: EvalBenchmark, samples: Sequence[Sample], predictions: Mapping[str, Prediction]
    ) -> float | None:
        """How probable differences like those so far are by chance; None if they cannot be held against each other."""
        found = score(benchmark, samples, predictions)
        if found.primary != self.metric or any(sample.id not in self.baseline.scores for sample in samples):
            return None
        differences = {
            sample.id: found.per_sample[sample.id][self.metric] - self.baseline.scores[sample.id]
            for sample in samples
        }
        groups = {sample.id: sample_group(sample) for sample in samples}
        pairs = SampleScores(scores=differences, groups=groups, weights=found.weights)
        return exchange_test(pairs.means().sums)


def find_early_stop(asked: Mapping[str, Any] | None, directory: str | None, rows: int) -> EarlyStop | None:
    """What a stub is held against; None if it is the baseline itself, or that has no result."""
    spec = None if asked is None or directory is None else read_spec(Path(directory))
    if asked is None or directory is None or spec is None:
        return None
    if read_marker(Path(directory), spec["key"]) is None:
        return None
    metric = str(load(Path(directory, METRICS).read_bytes())["primary"])
    looks = int(asked["looks"])
    baseline = read_table(Path(directory), metric)
    return EarlyStop(baseline=baseline, metric=metric, looks=looks, level=RATE / (looks * max(1, rows)))
