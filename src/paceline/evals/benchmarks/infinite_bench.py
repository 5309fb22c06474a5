"""InfiniteBench: twelve tasks on contexts of 100,000 tokens and more."""

from collections.abc import Mapping
from typing import ClassVar

from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.interfaces import Sample
from paceline.evals.scorers.infinite_bench import METRICS, score


class InfiniteBench(DatasetBenchmark):
    """Each task has its own metric; all give a share between 0 and 1."""

    name: ClassVar[str] = "infinite_bench"
    hub: ClassVar[str] = "MaxJeblick/InfiniteBench"
    parts: ClassVar[tuple[str, ...]] = tuple(METRICS)

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        return {"score": score(sample.task, text, sample.references)}
