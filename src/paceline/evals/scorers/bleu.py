"""BLEU of one n-gram length for one pair of texts, as LooGLE takes it from nltk."""

import math
from collections import Counter
from collections.abc import Sequence


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
