"""LooGLE: questions, clozes and summaries of texts newer than most models."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.benchmarks.rows import DataError
from paceline.evals.interfaces import Sample
from paceline.evals.scorers import loogle

_CLOZE = "shortdep_cloze"


class Loogle(DatasetBenchmark):
    """BLEU and ROUGE of answers and summaries, matches of clozes.

    `extra_metrics` may name `meteor` (needs WordNet) and `bert_score` (needs a model). The primary metric is the exact
    matches of a cloze, and ROUGE-L of everything else.
    """

    name: ClassVar[str] = "loogle"
    hub: ClassVar[str] = "simonjegou/loogle"
    parts: ClassVar[tuple[str, ...]] = ("shortdep_qa", "longdep_qa", _CLOZE, "longdep_summarization")

    def __init__(self, extra_metrics: Sequence[str] = ()) -> None:
        unknown = sorted(set(extra_metrics) - set(loogle.NEEDS_DOWNLOADS))
        if unknown:
            known = ", ".join(loogle.NEEDS_DOWNLOADS)
            raise DataError(f"benchmark loogle: no extra metric {unknown[0]!r}; it has: {known}")
        self._extra_metrics = tuple(extra_metrics)

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        reference = sample.references[0]
        if sample.task == _CLOZE:
            found = loogle.cloze(text, reference)
            return {"score": found["exact_match"], **found}
        found = loogle.free_text(text, reference)
        for name in self._extra_metrics:
            found[name] = getattr(loogle, name)(text, reference)
        return {"score": found["rougeL"], **found}
