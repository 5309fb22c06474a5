"""ROUGE as the `rouge` package on PyPI defines it, which LongBench and LooGLE publish their numbers with.

Sentences end at every full stop; n-grams and common subsequences are compared as sets; F has 1e-8 in its
denominator. The package itself recurses once a word and so fails on long texts; this does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.evals.scorers import ScoreError

_TINY = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rouge:
    """Precision, recall and F of one pair of texts."""

    precision: float
    recall: float

    @property
    def f(self) -> float:
        return 2.0 * (self.precision * self.recall / (self.precision + self.recall + _TINY))


def rouge_n(prediction: str, reference: str, n: int) -> Rouge:
    """Shared n-grams; an answer without a word has none."""
    predicted, wanted = _sentences(prediction), _reference_sentences(reference)
    if not predicted:
        return Rouge(precision=0.0, recall=0.0)
    return _overlap(_ngrams(predicted, n), _ngrams(wanted, n))


def rouge_l(prediction: str, reference: str) -> Rouge:
    """Words on the longest common subsequences of all pairs of sentences."""
    predicted, wanted = _sentences(prediction), _reference_sentences(reference)
    if not predicted:
        return Rouge(precision=0.0, recall=0.0)
    shared: set[str] = set()
    for sentence in wanted:
        for candidate in predicted:
            shared |= common_subsequence(sentence.split(" "), candidate.split(" "))
    predicted_words, wanted_words = (_ngrams(sentences, 1) for sentences in (predicted, wanted))
    return Rouge(precision=len(shared) / len(predicted_words), recall=len(shared) / len(wanted_words))


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> set[str]:
    """The words of a longest common subsequence: of several, the one that the package finds."""
    table = _lengths(first, second)
    row, column = len(first), len(second)
    found = set()
    while row and column:
        if first[row - 1] == second[column - 1]:
            found.add(first[row - 1])
            row, column = row - 1, column - 1
        elif table[row - 1][column] > table[row][column - 1]:
            row -= 1
        else:
            column -= 1
    return found


def _lengths(first: Sequence[str], second: Sequence[str]) -> list[list[int]]:
    table = [[0] * (len(second) + 1)]
    for word in first:
        above, row = table[-1], [0]
        for column, other in enumerate(second):
            row.append(above[column] + 1 if word == other else max(above[column + 1], row[column]))
        table.append(row)
    return table


def _sentences(text: str) -> list[str]:
    return [" ".join(sentence.split()) for sentence in text.split(".") if sentence]


def _reference_sentences(text: str) -> list[str]:
    sentences = _sentences(text)
    if not sentences:
        raise ScoreError(f"ROUGE needs a reference with words in it, not {text!r}")
    return sentences


def _ngrams(sentences: Sequence[str], n: int) -> set[tuple[str, ...]]:
    words = [word for sentence in sentences for word in sentence.split(" ")]
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}


def _overlap(predicted: set[tuple[str, ...]], wanted: set[tuple[str, ...]]) -> Rouge:
    shared = len(predicted & wanted)
    return Rouge(
        precision=shared / len(predicted) if predicted else 0.0,
        recall=shared / len(wanted) if wanted else 0.0,
    )
