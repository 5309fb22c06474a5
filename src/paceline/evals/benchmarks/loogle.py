"""LooGLE: questions, clozes and summaries of texts newer than most models."""

import ast
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from paceline.errors import MissingExtra
from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.benchmarks.rows import DataError, Row
from paceline.evals.benchmarks.scores import ScoreError, rouge_l, rouge_n
from paceline.evals.interfaces import Prediction, Sample, Scores, ScoreValue

_CLOZE = "shortdep_cloze"


def bleu_of(prediction: Sequence[str], reference: Sequence[str], n: int) -> float:
    """Clipped precision of n-grams times the brevity penalty; 0 if they share no word at all."""
    if not prediction or not Counter(prediction) & Counter(reference):
        return 0.0
    predicted, wanted = _counts(prediction, n), _counts(reference, n)
    shared = (predicted & wanted).total()
    return shared / max(1, predicted.total()) * _brevity(len(prediction), len(reference))


def _counts(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))


def _brevity(predicted: int, wanted: int) -> float:
    return 1.0 if predicted > wanted else math.exp(1 - wanted / predicted)


def free_text(prediction: str, reference: str) -> dict[str, float]:
    """BLEU of single words and of four, and the recall of ROUGE-1, -2 and -L."""
    said, wanted = prediction.split(), reference.split()
    return {
        "bleu1": bleu_of(said, wanted, 1),
        "bleu4": bleu_of(said, wanted, 4),
        "rouge1": rouge_n(prediction, reference, 1).recall,
        "rouge2": rouge_n(prediction, reference, 2).recall,
        "rougeL": rouge_l(prediction, reference).recall,
    }


def meteor(prediction: str, reference: str) -> float:
    """METEOR of nltk over the distinct words in alphabetical order.

    The published program hands nltk plain sets, so that its chunks depend on the order in which Python happens to
    walk them; an order of our own makes the number the same every time.
    """
    try:
        from nltk.translate.meteor_score import single_meteor_score
    except ImportError as error:
        raise MissingExtra("METEOR (nltk)", "evals") from error
    try:
        return float(single_meteor_score(sorted(set(reference.split())), sorted(set(prediction.split()))))
    except LookupError as error:
        raise ScoreError("METEOR needs WordNet: python -m nltk.downloader wordnet") from error


def bert_score(prediction: str, reference: str) -> float:
    """The recall of BERTScore with the reference in the candidate's place, as published."""
    try:
        from bert_score import score
    except ImportError as error:
        raise ScoreError("BERTScore needs its package: pip install bert-score") from error
    return float(score([reference], [prediction], lang="EN")[1])


_NEED_DOWNLOADS = {"meteor": meteor, "bert_score": bert_score}
"""Metrics that need a dictionary or a model besides the package."""


def cloze(prediction: str, reference: str) -> dict[str, float]:
    """The shares of masks filled exactly, and with at least one right word; an answer that is no mapping fills none.

    The published program runs the answer as Python; here it is read as JSON or as a literal, never run.
    """
    wanted = _mapping(reference)
    if not wanted:
        raise ScoreError(f"a cloze's answer is a mapping of masks to names, which {reference!r} is not")
    said = _mapping(prediction) or {}
    exact = sum(said.get(mask) == name for mask, name in wanted.items())
    partial = sum(_share_a_word(said.get(mask), str(name)) for mask, name in wanted.items())
    return {"exact_match": exact / len(wanted), "partial_match": partial / len(wanted)}


def _share_a_word(said: object, name: str) -> bool:
    return isinstance(said, str) and bool(set(said.split()) & set(name.split()))


def _mapping(text: str) -> Mapping[Any, Any] | None:
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return None


class Loogle(DatasetBenchmark):
    """BLEU and ROUGE of answers and summaries, matches of clozes.

    Li et al., LooGLE: Can Long-Context Language Models Understand Long Contexts?, arXiv:2311.04939. `extra_metrics` may
    name `meteor` (needs WordNet) and `bert_score` (needs a model). The primary metric is the exact matches of a cloze,
    pooled over all masks as the authors do, and ROUGE-L of everything else.
    """

    name: ClassVar[str] = "loogle"
    hub: ClassVar[str] = "simonjegou/loogle"
    parts: ClassVar[tuple[str, ...]] = ("shortdep_qa", "longdep_qa", _CLOZE, "longdep_summarization")
    published_by: ClassVar[str] = "qa_pairs"
    authors_prompts: ClassVar[str] = "config/task2prompt.json"
    document: ClassVar[str] = "input"
    budgets: ClassVar[Mapping[str, int]] = {
        "shortdep_qa": 300,
        "longdep_qa": 500,
        "longdep_summarization": 500,
        _CLOZE: 50,
    }

    def __init__(self, extra_metrics: Sequence[str] = (), prompts: str | None = None) -> None:
        super().__init__(prompts)
        unknown = sorted(set(extra_metrics) - set(_NEED_DOWNLOADS))
        if unknown:
            known = ", ".join(_NEED_DOWNLOADS)
            raise DataError(f"benchmark loogle: no extra metric {unknown[0]!r}; it has: {known}")
        self._extra_metrics = tuple(extra_metrics)

    def published(self, row: Row, part: str) -> list[Sample]:
        text = {"input": row.text("input")}
        stored = row.values["qa_pairs"]
        if stored == "none":
            return [self.asked(row, part, text, [row.text("output")])]
        try:
            pairs = ast.literal_eval(stored) if isinstance(stored, str) else stored
            asked = [(str(pair["Q"]), pair["A"]) for pair in pairs]
        except (ValueError, SyntaxError, KeyError, TypeError) as error:
            raise DataError(
                f"{row.where}: 'qa_pairs' is to be a list of questions Q and answers A"
            ) from error
        return [
            self.asked(
                row,
                part,
                {**text, "Q": question},
                [answer if isinstance(answer, str) else json.dumps(answer)],
            )
            for question, answer in asked
        ]

    def score(self, samples: Sequence[Sample], predictions: Mapping[str, Prediction]) -> Scores:
        scores = super().score(samples, predictions)
        if {sample.task for sample in samples} != {_CLOZE}:
            return scores
        # Every mask counts the same, however many its question has.
        masks = {sample.id: len(_mapping(sample.references[0]) or ()) for sample in samples}
        pooled = {
            name: ScoreValue(
                value=sum(scores.per_sample[one][name] * count for one, count in masks.items())
                / sum(masks.values()),
                n=len(samples),
            )
            for name in scores.metrics
        }
        return Scores(metrics=pooled, primary=scores.primary, per_sample=scores.per_sample, weights=masks)

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        reference = sample.references[0]
        if sample.task == _CLOZE:
            found = cloze(text, reference)
            return {"score": found["exact_match"], **found}
        found = free_text(text, reference)
        for name in self._extra_metrics:
            found[name] = _NEED_DOWNLOADS[name](text, reference)
        return {"score": found["rougeL"], **found}
