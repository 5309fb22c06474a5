"""A benchmark of rows that each have a context, a question and references; what most benchmarks here are."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from paceline.evals.benchmarks.rows import DataError, Row, read_directory, read_hub, read_sample, select
from paceline.evals.interfaces import Prediction, Sample, Scores, ScoreValue


class DatasetBenchmark(ABC):
    """Loads rows, makes samples of them, and averages the scores of single answers.

    Where rows come from: local files with a `data_dir`; the Hugging Face hub with a `revision` ("main" for the newest);
    else the few that ship with this package, which show that things work and say nothing about a model. Which of them
    it was is a part of the stub's key, and the metric `shipped_sample` tells it in the results.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    hub: ClassVar[str] = ""
    parts: ClassVar[tuple[str, ...]] = ()
    primary: ClassVar[str] = "score"
    high: ClassVar[float] = 1.0
    """What the published numbers call a perfect answer."""

    def subsets(self) -> tuple[str, ...]:
        return self.parts

    def load(self, subset: str | None, *, data_dir: Path | None, revision: str | None) -> Sequence[Sample]:
        wanted = [subset] if subset is not None else list(self.parts)
        return [sample for part in wanted for sample in self._load_part(part, data_dir, revision)]

    def _load_part(self, part: str, data_dir: Path | None, revision: str | None) -> list[Sample]:
        if data_dir is not None:
            rows, shipped = read_directory(data_dir, part), False
        elif revision is not None:
            rows, shipped = self.read_hub(part, revision), False
        else:
            rows, shipped = read_sample(self.name, part), True
        if not rows:
            raise DataError(f"benchmark {self.name}: {part} has no rows")
        return [self.sample(row, part, index, shipped) for index, row in enumerate(rows)]

    def read_hub(self, part: str, revision: str) -> list[Row]:
        """A subset's rows from the hub; by default each is a configuration with a split `test`."""
        return select(read_hub(self.hub, part, "test", revision), "task", part)

    def sample(self, row: Row, part: str, index: int, shipped: bool) -> Sample:
        """The question of one row."""
        return Sample(
            id=f"{part}-{index}",
            context=row.text("context"),
            question=row.text("question", ""),
            answer_prefix=row.text("answer_prefix", ""),
            references=self.references(row, part),
            max_new_tokens=row.count("max_new_tokens"),
            task=part,
            extra={"shipped_sample": shipped, **self.facts(row)},
        )

    def references(self, row: Row, part: str) -> tuple[str, ...]:
        """The right answers of a row; a row without any is unusable."""
        found = row.texts("answers", "answer")
        if not found:
            raise DataError(f"{row.where}: neither 'answers' nor 'answer'")
        return found

    def facts(self, row: Row) -> Mapping[str, Any]:
        """What scoring needs besides the references."""
        return {}

    @abstractmethod
    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        """The scores of one answer, between 0 and 1."""

    def strata(self, sample: Sample) -> Iterable[str]:
        """The groups for which the primary metric is given apart."""
        return ()

    def score(self, samples: Sequence[Sample], predictions: Mapping[str, Prediction]) -> Scores:
        found = {sample.id: self.score_sample(sample, predictions[sample.id].text) for sample in samples}
        scaled = {
            name: {key: self.high * one for key, one in scores.items()} for name, scores in found.items()
        }
        metrics = {
            name: self._mean([scaled[sample.id][name] for sample in samples if name in scaled[sample.id]])
            for name in dict.fromkeys(name for scores in scaled.values() for name in scores)
        }
        metrics |= {
            f"{self.primary}.{stratum}": self._mean([scaled[member][self.primary] for member in members])
            for stratum, members in self._groups(samples).items()
        }
        if any(sample.extra.get("shipped_sample") for sample in samples):
            metrics["shipped_sample"] = ScoreValue(value=1.0, direction=None, n=len(samples))
        return Scores(metrics=metrics, primary=self.primary, per_sample=scaled)

    def _groups(self, samples: Sequence[Sample]) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        several = len({sample.task for sample in samples}) > 1
        for sample in samples:
            for stratum in [*([sample.task] if several else []), *self.strata(sample)]:
                groups.setdefault(stratum, []).append(sample.id)
        return groups

    def _mean(self, values: Sequence[float]) -> ScoreValue:
        return ScoreValue(value=sum(values) / len(values), high=self.high, n=len(values))
