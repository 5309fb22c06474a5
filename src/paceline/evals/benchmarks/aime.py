"""The problems of the AIME, two contests a year of fifteen problems each; answers are integers from 0 to 999."""

from collections.abc import Mapping
from typing import ClassVar

from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.benchmarks.rows import Row, read_hub
from paceline.evals.interfaces import Sample
from paceline.evals.scorers.aime import extract, last_box, right


class Aime2024(DatasetBenchmark):
    """Accuracy; beside it, how many answers hold an integer at all, and how many hold a box."""

    name: ClassVar[str] = "aime2024"
    hub: ClassVar[str] = "xAlg-AI/att-hub-aime2024"
    parts: ClassVar[tuple[str, ...]] = ("aime2024",)
    primary: ClassVar[str] = "accuracy"

    def read_hub(self, part: str, revision: str) -> list[Row]:
        return read_hub(self.hub, None, "test", revision)

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        return {
            "accuracy": right(text, sample.references),
            "extraction_rate": float(extract(text) is not None),
            "boxed_rate": float(last_box(text) is not None),
        }


class Aime2025(Aime2024):
    """As for 2024."""

    name: ClassVar[str] = "aime2025"
    hub: ClassVar[str] = "xAlg-AI/att-hub-aime2025"
    parts: ClassVar[tuple[str, ...]] = ("aime2025",)
