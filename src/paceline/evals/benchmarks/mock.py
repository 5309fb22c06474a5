"""Five questions on three short texts, for trying things out: no download, no model needed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from paceline.errors import PacelineError
from paceline.evals.interfaces import Prediction, Sample, Scores, ScoreValue, Source

SUBSET = "reading_comprehension"
FILE = "mock_benchmark.jsonl"

_HARBOUR = (
    "The harbour of Tarn was built by Ilse Brandt in 1874. Its lighthouse shows a green light every nine seconds. "
    "Fishing boats leave before dawn and return with herring. The market on the quay opens on Thursdays."
)
_GARDEN = (
    "The glass house holds four hundred orchids from Borneo. Water comes from a cistern under the old chapel. "
    "The head gardener is called Tomas Wren."
)
_RAILWAY = (
    "The night train to Olmen has eleven carriages. It crosses the Sava bridge at midnight. "
    "Breakfast is served after the tunnel of Kranj."
)
_ROWS = (
    ("harbour-builder", _HARBOUR, "Who built the harbour of Tarn?", "Ilse Brandt"),
    ("harbour-light", _HARBOUR, "What colour is the light its lighthouse shows?", "green"),
    ("garden-orchids", _GARDEN, "How many orchids does the glass house hold?", "four hundred"),
    ("garden-gardener", _GARDEN, "What is the head gardener called?", "Tomas Wren"),
    ("train-bridge", _RAILWAY, "When does it cross the Sava bridge?", "midnight"),
)


class MockBenchmark:
    """Reading comprehension; an answer is right if it holds the reference.

    `repeat` asks everything that many times, which makes longer stubs. A `data_dir` has its own questions in
    mock_benchmark.jsonl: id, context, question, answer in each line.
    """

    name: ClassVar[str] = "mock_benchmark"
    version: ClassVar[str] = "1"

    def __init__(self, repeat: int = 1) -> None:
        self._repeat = repeat

    def subsets(self) -> tuple[str, ...]:
        return (SUBSET,)

    def source(self, data_dir: Path | None, revision: str | None) -> Source:
        return "toy" if data_dir is None else "real"

    def files(self, subset: str | None, data_dir: Path | None) -> list[Path]:
        return [] if data_dir is None else [data_dir / FILE]

    def load(self, subset: str | None, *, data_dir: Path | None, revision: str | None) -> Sequence[Sample]:
        rows = _ROWS if data_dir is None else _read_rows(data_dir / FILE)
        return [
            _sample(f"{name}-{turn}" if turn else name, context, question, answer)
            for turn in range(self._repeat)
            for name, context, question, answer in rows
        ]

    def score(self, samples: Sequence[Sample], predictions: Mapping[str, Prediction]) -> Scores:
        right = {sample.id: {"accuracy": _is_right(sample, predictions[sample.id])} for sample in samples}
        mean = sum(scores["accuracy"] for scores in right.values()) / len(right) if right else 0.0
        return Scores(
            metrics={"accuracy": ScoreValue(value=mean, n=len(right))}, primary="accuracy", per_sample=right
        )


def _sample(name: str, context: str, question: str, answer: str) -> Sample:
    return Sample(
        id=name,
        context=context,
        question=question,
        references=(answer,),
        answer_prefix="Answer:",
        max_new_tokens=32,
        task=SUBSET,
    )


def _is_right(sample: Sample, prediction: Prediction) -> float:
    said = prediction.text.casefold()
    return float(any(reference.casefold() in said for reference in sample.references))


def _read_rows(path: Path) -> list[tuple[str, str, str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise PacelineError(f"mock_benchmark: cannot read {path}: {error.strerror or error}") from error
    return [_row(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _row(path: Path, number: int, line: str) -> tuple[str, str, str, str]:
    try:
        data = json.loads(line)
        return str(data["id"]), str(data["context"]), str(data["question"]), str(data["answer"])
    except (ValueError, KeyError, TypeError) as error:
        raise PacelineError(f"{path}:{number}: not a row with id, context, question and answer") from error
