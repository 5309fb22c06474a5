"""Heuristic filters: limits for what `text_scores` counts, and the stage that applies them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from paceline.curate.documents import Documents, Mask
from paceline.curate.errors import PipelineError
from paceline.curate.stage import Stage
from paceline.curate.task import Task
from paceline.curate.text_scores import Scores, TextScorer


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Keeps a text whose score lies between two limits, both included."""

    score: str
    low: float = -inf
    high: float = inf


# Filters in the order in which a text that fails several is counted.
HEURISTIC_FILTERS = (
    Filter(score="non_alpha_numeric", high=0.25),
    Filter(score="symbol_to_word", high=0.1),
    Filter(score="numbers", high=0.15),
    Filter(score="urls", high=0.2),
    Filter(score="white_space", high=0.25),
    Filter(score="parentheses", high=0.1),
    Filter(score="boilerplate", high=0.4),
    Filter(score="repeated_lines", low=0.7),
    Filter(score="repeated_paragraphs", low=0.7),
    Filter(score="repeated_lines_char", low=0.8),
    Filter(score="repeated_paragraphs_char", low=0.8),
    Filter(score="word_count", low=50, high=100_000),
    Filter(score="punctuation", high=0.85),
    Filter(score="common_words", low=2),
    Filter(score="mean_word_length", low=3, high=10),
    Filter(score="longest_word", high=1000),
    Filter(score="words_with_letters", low=0.8),
    Filter(score="ellipsis", high=0.3),
    Filter(score="bullets", high=0.9),
    Filter(score="top_2_grams", high=0.2),
    Filter(score="top_3_grams", high=0.18),
    Filter(score="top_4_grams", high=0.16),
    Filter(score="duplicate_5_grams", high=0.15),
    Filter(score="duplicate_6_grams", high=0.14),
    Filter(score="duplicate_7_grams", high=0.13),
    Filter(score="duplicate_8_grams", high=0.12),
    Filter(score="duplicate_9_grams", high=0.11),
    Filter(score="duplicate_10_grams", high=0.10),
)


def judge(scores: Scores, filters: Sequence[Filter]) -> tuple[Mask, dict[str, int]]:
    """Which texts pass all filters, and how many each filter dropped that none before it had."""
    count = len(next(iter(scores.values())))
    kept = np.ones(count, dtype=np.bool_)
    dropped: dict[str, int] = {}
    for one in filters:
        values = scores[one.score]
        fails = kept & ~((values >= one.low) & (values <= one.high))
        dropped[one.score] = int(fails.sum())
        kept &= ~fails
    return kept, dropped


class ScoreFilterStage(Stage):
    """Batches of documents -> those that pass all filters."""

    name = "score_filter"

    def __init__(
        self, *, text_field: str, filters: Sequence[Filter] = HEURISTIC_FILTERS, add_scores: bool = False
    ) -> None:
        known = TextScorer().score([])
        for one in filters:
            if one.score not in known:
                raise PipelineError(f"score_filter: no score {one.score!r}; there are {', '.join(known)}")
        self.text_field = text_field
        self.filters = tuple(filters)
        self.add_scores = add_scores
        self._scorer: TextScorer | None = None

    def setup(self) -> None:
        self._scorer = TextScorer()

    def process(self, task: Task) -> Task:
        if self._scorer is None:
            self._scorer = TextScorer()
        documents: Documents = task.data
        scores = self._scorer.score(documents.values(self.text_field))
        kept, dropped = judge(scores, self.filters)
        self.count(**dropped)
        if self.add_scores:
            documents = documents.with_fields({name: values.tolist() for name, values in scores.items()})
        return task.carrying(documents.keep(kept))
