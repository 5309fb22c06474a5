"""ZeroSCROLLS: summaries, questions and orderings without examples; its references are kept by its makers."""

import itertools
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.benchmarks.rows import Row, read_hub
from paceline.evals.benchmarks.scores import ScoreError, normalize, stemmed_rouge, token_f1
from paceline.evals.interfaces import Prediction, Sample, Scores, ScoreValue

SUMMARIES = frozenset({"gov_report", "summ_screen_fd", "qmsum", "squality"})
_PERCENTAGE = re.compile(r"(\d+\.?\d*)%")
_LETTER = re.compile(r"\b[A-D]\b")
_BUDGET = 1024
_HALVED_EVERY = 10
"""Percentage points of error that halve the score."""


def score(task: str, prediction: str, references: Sequence[str]) -> float:
    """The best score over all references; of a summary, the geometric mean of its ROUGE scores."""
    if task in SUMMARIES:
        parts = summary(prediction, references)
        return geometric_mean(parts)
    if task not in METRICS:
        raise ScoreError(f"ZeroSCROLLS has no task {task!r}")
    return max(METRICS[task](prediction, reference) for reference in references)


def summary(prediction: str, references: Sequence[str]) -> dict[str, float]:
    """ROUGE-1, -2 and -L, each the best over all references."""
    found = [stemmed_rouge(prediction, reference) for reference in references]
    return {name: max(scores[name] for scores in found) for name in found[0]}


def geometric_mean(parts: Mapping[str, float]) -> float:
    """The cube root of ROUGE-1 × ROUGE-2 × ROUGE-L."""
    return float((parts["rouge1"] * parts["rouge2"] * parts["rougeL"]) ** (1 / 3))


def f1(prediction: str, reference: str) -> float:
    """F1 over normalised words without accents."""
    return token_f1(_plain(prediction).split(), _plain(reference).split())


def accuracy(prediction: str, reference: str) -> float:
    """Whether the first lone letter from A to D is the right one."""
    wanted = _LETTER.search(reference)
    if wanted is None:
        raise ScoreError(f"the answer of a choice is a letter, which {reference!r} has not")
    found = _LETTER.search(prediction)
    return float(found is not None and found.group() == wanted.group())


def exponential_similarity(prediction: str, reference: str) -> float:
    """Halved by every ten percentage points between the answer and the truth."""
    wanted, found = _PERCENTAGE.search(reference), _PERCENTAGE.search(prediction)
    if wanted is None:
        raise ScoreError(f"the answer of space_digest is a percentage, which {reference!r} is not")
    if found is None:
        return 0.0
    return float(0.5 ** (abs(float(wanted.group(1)) - float(found.group(1))) / _HALVED_EVERY))


def concordance(prediction: str, reference: str) -> float:
    """The share of pairs in the right order; 0 unless the answer orders the same numbers."""
    said, wanted = _integers(prediction), _integers(reference)
    if len(wanted) < 2 or len(set(wanted)) != len(wanted):
        raise ScoreError(f"the answer of book_sum_sort is an order of different numbers, not {reference!r}")
    if sorted(said) != sorted(wanted):
        return 0.0
    place = {number: index for index, number in enumerate(said)}
    pairs = list(itertools.combinations(wanted, 2))
    return sum(place[first] < place[second] for first, second in pairs) / len(pairs)


def _integers(text: str) -> list[int]:
    return [int(word) for word in re.sub(r"[^0-9\s,]", "", text).replace(",", " ").split()]


def _plain(text: str) -> str:
    """Normalised, and letters without their accents; letters of other scripts stay as they are."""
    split = unicodedata.normalize("NFKD", normalize(text))
    return "".join(letter for letter in split if not unicodedata.combining(letter))


METRICS: Mapping[str, Callable[[str, str], float]] = {
    "qasper": f1,
    "narrative_qa": f1,
    "musique": f1,
    "quality": accuracy,
    "space_digest": exponential_similarity,
    "book_sum_sort": concordance,
}


class ZeroScrolls(DatasetBenchmark):
    """The official metric where a row has references, else the mean length of answers, which judges nothing.

    Shaham et al., ZeroSCROLLS: A Zero-Shot Benchmark for Long Text Understanding, arXiv:2305.14196. A task is a subset.
    The authors' rows have the whole prompt as `input`, with the indices where its document and its query end.
    """

    name: ClassVar[str] = "zero_scrolls"
    hub: ClassVar[str] = "simonjegou/zero_scrolls"
    parts: ClassVar[tuple[str, ...]] = (*sorted(SUMMARIES), *METRICS)
    high: ClassVar[float] = 100.0
    published_by: ClassVar[str] = "document_end_index"

    def read_hub(self, part: str, revision: str) -> list[Row]:
        rows = read_hub(self.hub, None, "test", revision)
        return [row for row in rows if row.values.get("task") == part]

    def references(self, row: Row, part: str) -> tuple[str, ...]:
        return tuple(text for text in row.texts("answers", "answer", "output") if text)

    def published(self, row: Row, part: str) -> list[Sample]:
        return [self.prompted(_sliced(row), part)]

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        if sample.task in SUMMARIES:
            parts = summary(text, sample.references)
            return {"score": geometric_mean(parts), **parts}
        return {"score": score(sample.task, text, sample.references)}

    def score(self, samples: Sequence[Sample], predictions: Mapping[str, Prediction]) -> Scores:
        if not all(sample.references for sample in samples):
            return _lengths(samples, predictions)
        scores = super().score(samples, predictions)
        if not {sample.task for sample in samples} <= SUMMARIES:
            return scores
        # Published is the geometric mean of the three means, not the mean of geometric means.
        mean = geometric_mean({name: value.value for name, value in scores.metrics.items()})
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
    text = row.text("input")
    slices: dict[str, Any] = {
        "context": text[:document_end],
        "question": text[document_end:query_end],
        "answer_prefix": text[query_end:].strip(),
        "max_new_tokens": _BUDGET,
    }
    return Row(where=row.where, values={**row.values, **slices})
