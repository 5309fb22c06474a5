"""A benchmark of rows that each have a context, a question and references; what most benchmarks here are."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from paceline.evals.benchmarks.prompts import fill, prompts_path, read_templates
from paceline.evals.benchmarks.rows import (
    DataError,
    Row,
    data_files,
    read_file,
    read_hub,
    read_sample,
    select,
)
from paceline.evals.interfaces import Prediction, Sample, Scores, ScoreValue, Source


class DatasetBenchmark(ABC):
    """Loads rows, makes samples of them, and averages the scores of single answers.

    Where rows come from: local files with a `data_dir`; the Hugging Face hub with a `revision` ("main" for the newest);
    else the few that ship with this package, which show that things work and say nothing about a model. A row has its
    prompt (context, question, answer_prefix, max_new_tokens), as the data sets on the hub do; or it is as its authors
    publish it, and `prompts` says where their templates are (see `paceline.evals.benchmarks.prompts`).
    """

    name: ClassVar[str]
    version: ClassVar[str] = "2"
    hub: ClassVar[str] = ""
    parts: ClassVar[tuple[str, ...]] = ()
    primary: ClassVar[str] = "score"
    high: ClassVar[float] = 1.0
    """What the published numbers call a perfect answer."""
    shared_files: ClassVar[tuple[str, ...]] = ()
    """Names of local files that hold all subsets."""
    published_by: ClassVar[str] = ""
    """A column that only the authors' own rows have."""
    authors_prompts: ClassVar[str] = ""
    """Where their repository has the templates."""
    document: ClassVar[str] = "context"
    """The field of a template that the long text goes to."""
    budgets: ClassVar[Mapping[str, int]] = {}
    """How many tokens an answer may have, by task, as published."""

    def __init__(self, prompts: str | None = None) -> None:
        self._prompts = prompts

    def subsets(self) -> tuple[str, ...]:
        return self.parts

    def source(self, data_dir: Path | None, revision: str | None) -> Source:
        """Whether rows are the benchmark's own."""
        return "toy" if data_dir is None and revision is None else "real"

    def files(self, subset: str | None, data_dir: Path | None) -> list[Path]:
        """The local files that its samples are made of, which alone decide them."""
        wanted = () if data_dir is None else (subset,) if subset is not None else self.parts
        found = [path for part in wanted for path in data_files(data_dir or Path(), part, self.shared_files)]
        if self._prompts is not None:
            place = prompts_path(self._prompts)
            found += sorted(place.glob("*.txt")) if place.is_dir() else [place]
        return list(dict.fromkeys(found))

    def load(self, subset: str | None, *, data_dir: Path | None, revision: str | None) -> Sequence[Sample]:
        wanted = [subset] if subset is not None else list(self.parts)
        return [sample for part in wanted for sample in self._load_part(part, data_dir, revision)]

    def _load_part(self, part: str, data_dir: Path | None, revision: str | None) -> list[Sample]:
        if data_dir is not None:
            paths = data_files(data_dir, part, self.shared_files)
            rows = [row for path in paths for row in read_file(path)]
        elif revision is not None:
            rows = self.read_hub(part, revision)
        else:
            rows = read_sample(self.name, part)
        if not rows:
            raise DataError(f"benchmark {self.name}: {part} has no rows")
        samples: list[Sample] = []
        for row in rows:
            samples += self.published(row, part) if self.is_published(row) else [self.prompted(row, part)]
        return [replace(sample, id=f"{part}-{index}", task=part) for index, sample in enumerate(samples)]

    def is_published(self, row: Row) -> bool:
        """Whether a row is as its authors publish it, without a prompt."""
        has_prompt = "answer_prefix" in row.values or "max_new_tokens" in row.values
        return not has_prompt and bool(self.published_by) and self.published_by in row.values

    def read_hub(self, part: str, revision: str) -> list[Row]:
        """A subset's rows from the hub; by default each is a configuration with a split `test`."""
        return select(read_hub(self.hub, part, "test", revision), "task", part)

    def prompted(self, row: Row, part: str) -> Sample:
        """The question of a row that has its prompt with it."""
        return Sample(
            id="",
            context=row.text("context"),
            question=row.text("question"),
            answer_prefix=row.text("answer_prefix", ""),
            references=self.references(row, part),
            max_new_tokens=row.count("max_new_tokens"),
            extra=self.facts(row),
        )

    def published(self, row: Row, part: str) -> list[Sample]:
        """The questions of a row as its authors publish it."""
        return [self.asked(row, part, {name: str(value) for name, value in row.values.items()})]

    def asked(
        self, row: Row, part: str, values: Mapping[str, str], references: Sequence[str] | None = None
    ) -> Sample:
        """One question by the authors' template for the task."""
        template = self._template(row, part)
        try:
            context, question = fill(template, values, self.document)
        except DataError as error:
            raise DataError(f"{row.where}: {error}") from error
        return Sample(
            id="",
            context=context,
            question=question,
            references=tuple(self.references(row, part) if references is None else references),
            max_new_tokens=self.budgets.get(part.removesuffix("_e")),
            extra=self.facts(row),
        )

    def _template(self, row: Row, part: str) -> str:
        if self._prompts is None:
            raise DataError(
                f"{row.where}: rows of {self.name} as published have no prompts: name {self.authors_prompts} of its "
                "repository in params.prompts"
            )
        found = self._templates.get(part.removesuffix("_e"))
        if found is None:
            raise DataError(f"{self._prompts} has no prompt for {part}")
        return found

    @cached_property
    def _templates(self) -> Mapping[str, str]:
        return read_templates(self._prompts or "")

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
