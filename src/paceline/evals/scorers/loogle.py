"""LooGLE's automatic metrics; each gives a share between 0 and 1."""

import ast
import json
from collections.abc import Mapping
from typing import Any

from paceline.errors import MissingExtra
from paceline.evals.scorers import ScoreError
from paceline.evals.scorers.bleu import bleu_of
from paceline.evals.scorers.rouge import rouge_l, rouge_n

NEEDS_DOWNLOADS = ("meteor", "bert_score")
"""Metrics that need a dictionary or a model besides the package."""


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
