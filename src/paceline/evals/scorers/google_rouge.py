"""ROUGE as the `rouge-score` package defines it, which SCROLLS and InfiniteBench use."""

from functools import lru_cache
from typing import Any

from paceline.errors import MissingExtra


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
