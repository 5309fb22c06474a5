"""ZeroSCROLLS: summaries, questions and orderings without examples; its references are kept by its makers."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.benchmarks.rows import Row, read_hub
from paceline.evals.interfaces import Prediction, Sample, Scores, ScoreValue
from paceline.evals.scorers import zero_scrolls


class ZeroScrolls(DatasetBenchmark):
    """The official metric where a row has references, else the mean length of answers, which judges nothing.

    A task is a subset. A row has context, question and answer_prefix, or `input` with the indices where its document
    and its query end, as the official files do.
    """

    name: ClassVar[str] = "zero_scrolls"
    hub: ClassVar[str] = "simonjegou/zero_scrolls"
    parts: ClassVar[tuple[str, ...]] = (*sorted(zero_scrolls.SUMMARIES), *zero_scrolls.METRICS)
    high: ClassVar[float] = 100.0

    def read_hub(self, part: str, revision: str) -> list[Row]:
        rows = read_hub(self.hub, None, "test", revision)
        return [row for row in rows if row.values.get("task") == part]

    def references(self, row: Row, part: str) -> tuple[str, ...]:
        return tuple(text for text in row.texts("answers", "answer", "output") if text)

    def sample(self, row: Row, part: str, index: int, shipped: bool) -> Sample:
        return super().sample(_sliced(row), part, index, shipped)

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        if sample.task in zero_scrolls.SUMMARIES:
            parts = zero_scrolls.summary(text, sample.references)
            return {"score": zero_scrolls.geometric_mean(parts), **parts}
        return {"score": zero_scrolls.score(sample.task, text, sample.references)}

    def score(self, samples: Sequence[Sample], predictions: Mapping[str, Prediction]) -> Scores:
        if not all(sample.references for sample in samples):
            return _lengths(samples, predictions)
        scores = super().score(samples, predictions)
        if not {sample.task for sample in samples} <= zero_scrolls.SUMMARIES:
            return scores
        # Published is the geometric mean of the three means, not the mean of geometric means.
        mean = zero_scrolls.geometric_mean({name: value.value for name, value in scores.metrics.items()})
        whole = ScoreValue(value=mean, high=self.high, n=len(samples))
        return Scores(
            metrics={**scores.metrics, "score": whole}, primary="score", per_sample=scores.per_sample
        )


def _lengths(samples: Sequence[Sample], predictions: Mapping[str, Prediction]) -> Scores:
    lengths = {sample.id: float(len(predictions[sample.id].text)) for sample in samples}
    mean = sum(lengths.values()) / len(lengths)
    value = ScoreValue(value=mean, high=max(lengths.values()), direction=None, n=len(lengths))
    per_sample = {name: {"answer_length": length} for name, length in lengths.items()}
    return Scores(metrics={"answer_length": value}, primary="answer_length", per_sample=per_sample)


def _sliced(row: Row) -> Row:
    """A row of the official files in the form of the others."""
    document_end, query_end = row.count("document_end_index"), row.count("query_end_index")
    if "context" in row.values or document_end is None or query_end is None:
        return row
    text = row.text("input")
    slices: dict[str, Any] = {
        "context": text[:document_end],
        "question": text[document_end:query_end],
        "answer_prefix": text[query_end:].strip(),
    }
    return Row(where=row.where, values={**row.values, **slices})
