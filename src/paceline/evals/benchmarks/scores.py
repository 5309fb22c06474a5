"""Answers → numbers: metrics that several benchmarks use, as pure functions of texts.

What a published program turns into a zero by catching every exception is an error here, unless a zero is what its
definition gives (an empty answer). Nothing is ever evaluated as code.

ROUGE is as the `rouge` package on PyPI defines it, which LongBench and LooGLE publish their numbers with: sentences end
at every full stop; n-grams and common subsequences are compared as sets; F has 1e-8 in its denominator. The package
itself recurses once a word and so fails on long texts; this does not. SCROLLS and InfiniteBench use `rouge-score`.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from paceline.errors import MissingExtra, PacelineError

_TINY = 1e-8

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CHINESE_PUNCTUATION = (
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～"
    "｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏."
)
_NO_CHINESE_PUNCTUATION = str.maketrans("", "", string.punctuation + _CHINESE_PUNCTUATION)


class ScoreError(PacelineError):
    """A reference that its metric cannot be computed with."""


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


@lru_cache(maxsize=4)
def _scorer(kinds: tuple[str, ...], stem: bool) -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise MissingExtra("scoring summaries (rouge-score)", "evals") from error
    return RougeScorer(list(kinds), use_stemmer=stem)


def rouge_lsum(prediction: str, reference: str) -> float:
    """F of ROUGE-Lsum without stemming."""
    return float(_scorer(("rougeLsum",), False).score(reference, prediction)["rougeLsum"].fmeasure)


def stemmed_rouge(prediction: str, reference: str) -> dict[str, float]:
    """F of ROUGE-1, -2 and -L over stemmed words."""
    found = _scorer(("rouge1", "rouge2", "rougeL"), True).score(reference, prediction)
    return {name: float(score.fmeasure) for name, score in found.items()}


def normalize(text: str) -> str:
    """Lower case, without punctuation and English articles, single spaces: as SQuAD compares answers."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def normalize_chinese(text: str) -> str:
    """Lower case, without punctuation of either script and without spaces."""
    return "".join(text.lower().translate(_NO_CHINESE_PUNCTUATION).split())


def token_f1(predicted: Sequence[str], reference: Sequence[str]) -> float:
    """The harmonic mean of precision and recall over bags of tokens; 0 if they share none."""
    shared = (Counter(predicted) & Counter(reference)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(reference)
    return 2 * precision * recall / (precision + recall)


def qa_f1(prediction: str, reference: str) -> float:
    """F1 over normalised English words."""
    return token_f1(normalize(prediction).split(), normalize(reference).split())


def qa_f1_characters(prediction: str, reference: str) -> float:
    """F1 over characters, as InfiniteBench counts Chinese."""
    return token_f1(list(normalize_chinese(prediction)), list(normalize_chinese(reference)))


def qa_f1_chinese(prediction: str, reference: str) -> float:
    """F1 over the words that jieba finds, as LongBench counts Chinese."""
    return token_f1(_chinese_words(prediction), _chinese_words(reference))


def _chinese_words(text: str) -> list[str]:
    words = (normalize_chinese(word) for word in cut_chinese(text))
    return [word for word in words if word]


def cut_chinese(text: str) -> list[str]:
    """Chinese text as words."""
    try:
        import jieba
    except ImportError as error:
        raise MissingExtra("scoring Chinese answers (jieba)", "evals") from error
    jieba.setLogLevel(60)  # it reports the loading of its dictionary on stderr
    return list(jieba.cut(text, cut_all=False))
