"""RULER: needles, variables, words and documents in contexts of any length, made here or read as published."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import ClassVar

from paceline.errors import MissingExtra
from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.benchmarks.rows import DataError, Row, read_hub
from paceline.evals.benchmarks.ruler_tasks import BUDGETS, TASKS, Puzzle, make
from paceline.evals.benchmarks.scores import ScoreError
from paceline.evals.interfaces import Sample, Source, sample_seed

_CONTROL = re.compile(r"[\x00-\x1f]")

_PIECE = re.compile(r"\d+|[^\W\d]+|[^\w\s]")
_PUBLISHED_LENGTHS = (4096, 8192, 16384, 32768)


def score(task: str, prediction: str, references: Sequence[str]) -> float:
    """Questions about documents need any one reference, all other tasks each of them."""
    if not references:
        raise ScoreError(f"RULER {task}: a sample without answers")
    said = _CONTROL.sub("\n", prediction).strip().lower()
    found = [reference.lower() in said for reference in references]
    return float(any(found)) if task.startswith("qa") else sum(found) / len(found)


class Ruler(DatasetBenchmark):
    """Thirteen tasks with the published recipe and metric; filler, words and documents are ours.

    Hsieh et al., RULER: What's the Real Context Size of Your Long-Context Language Models?, arXiv:2404.06654. `length`
    is how many tokens prompt and answer may have together, `samples` how many puzzles a task has. Tokens are those of
    `tokenizer`, a model's name or directory; without one they are estimated from the letters. With a `data_dir` or a
    `revision` the puzzles are read instead: from the hub, or as the authors' scripts write them
    (`<task>/validation.jsonl`).
    """

    name: ClassVar[str] = "ruler"
    hub: ClassVar[str] = "simonjegou/ruler"
    parts: ClassVar[tuple[str, ...]] = TASKS
    high: ClassVar[float] = 100.0
    own_length: ClassVar[int] = 4096

    def __init__(
        self, length: int | None = None, samples: int = 10, seed: int = 0, tokenizer: str | None = None
    ) -> None:
        super().__init__()
        length = self.own_length if length is None else length
        if length < 1 or samples < 1:
            raise DataError("benchmark ruler: length and samples are at least 1")
        self._length, self._samples, self._seed, self._tokenizer = length, samples, seed, tokenizer

    def load(self, subset: str | None, *, data_dir: Path | None, revision: str | None) -> Sequence[Sample]:
        if data_dir is not None or revision is not None:
            return super().load(subset, data_dir=data_dir, revision=revision)
        count = _counter(self._tokenizer)
        tasks = TASKS if subset is None else (subset,)
        return [self._make(task, index, count) for task in tasks for index in range(self._samples)]

    def read_hub(self, part: str, revision: str) -> list[Row]:
        if self._length not in _PUBLISHED_LENGTHS:
            known = ", ".join(map(str, _PUBLISHED_LENGTHS))
            raise DataError(f"benchmark ruler: {self.hub} has the lengths {known}, not {self._length}")
        rows = read_hub(self.hub, str(self._length), "test", revision)
        return [row for row in rows if row.values.get("task") == part]

    def source(self, data_dir: Path | None, revision: str | None) -> Source:
        return "generated" if data_dir is None and revision is None else "real"

    def is_published(self, row: Row) -> bool:
        return "outputs" in row.values

    def published(self, row: Row, part: str) -> list[Sample]:
        """The authors' scripts write whole prompts; the question is their last line."""
        context, line, question = row.text("input").rpartition("\n")
        return [
            Sample(
                id="",
                context=context + line,
                question=question,
                answer_prefix=row.text("answer_prefix", ""),
                references=row.texts("outputs"),
                max_new_tokens=BUDGETS[part],
            )
        ]

    def _make(self, task: str, index: int, count: Callable[[str], int]) -> Sample:
        name = f"{task}-{index}"
        seed = sample_seed(self._seed, f"ruler {name}")
        puzzle = _largest(task, seed, self._length - BUDGETS[task], count)
        return Sample(
            id=name,
            context=puzzle.context,
            question=puzzle.question,
            answer_prefix=puzzle.answer_prefix,
            references=puzzle.answers,
            max_new_tokens=BUDGETS[task],
            task=task,
        )

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        return {"score": score(sample.task, text, sample.references)}


class Ruler16k(Ruler):
    """The same at 16,384 tokens; on the hub each task is a split."""

    name: ClassVar[str] = "ruler16k"
    hub: ClassVar[str] = "xAlg-AI/att-hub-ruler-16k"
    own_length: ClassVar[int] = 16_384

    def read_hub(self, part: str, revision: str) -> list[Row]:
        return read_hub(self.hub, part, part, revision)


class Ruler32k(Ruler16k):
    """The same at 32,768 tokens."""

    name: ClassVar[str] = "ruler32k"
    hub: ClassVar[str] = "xAlg-AI/att-hub-ruler-32k"
    own_length: ClassVar[int] = 32_768


def _largest(task: str, seed: int, limit: int, count: Callable[[str], int]) -> Puzzle:
    """The puzzle with the most filler that still fits."""

    def build(amount: int) -> Puzzle:
        return make(task, Random(seed), amount)  # noqa: S311 - puzzles, not secrets

    def fits(amount: int) -> bool:
        puzzle = build(amount)
        return count(f"{puzzle.context}{puzzle.question}{puzzle.answer_prefix}") <= limit

    if not fits(0):
        raise DataError(f"benchmark ruler: {task} does not fit into its length; make it longer")
    high = 1
    while fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return build(low)


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has for a common tokenizer: 6 letters or 3 digits a token."""
    pieces = _PIECE.findall(text)
    return sum(math.ceil(len(piece) / (3 if piece[0].isdigit() else 6)) for piece in pieces)


def _counter(tokenizer: str | None) -> Callable[[str], int]:
    if tokenizer is None:
        return estimate_tokens
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise MissingExtra("counting tokens for ruler", "evals") from error
    loaded = AutoTokenizer.from_pretrained(tokenizer)
    return lambda text: len(loaded(text)["input_ids"])
