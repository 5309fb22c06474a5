"""LongBench, LongBench-E and LongBench v2."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.benchmarks.rows import DataError, Row, read_hub
from paceline.evals.interfaces import Sample
from paceline.evals.scorers.longbench import METRICS, chosen_letter, score

_IN_E = (
    "qasper",
    "multifieldqa_en",
    "hotpotqa",
    "2wikimqa",
    "gov_report",
    "multi_news",
    "trec",
    "triviaqa",
    "samsum",
    "passage_count",
    "passage_retrieval_en",
    "lcc",
    "repobench-p",
)
_BINS = (("0-4k", 4000), ("4-8k", 8000))


class LongBench(DatasetBenchmark):
    """21 tasks, and the 13 of LongBench-E, which end in `_e` and are given for three ranges of length too."""

    name: ClassVar[str] = "longbench"
    hub: ClassVar[str] = "Xnhyacinth/LongBench"
    parts: ClassVar[tuple[str, ...]] = (*METRICS, *(f"{task}_e" for task in _IN_E))
    high: ClassVar[float] = 100.0

    def read_hub(self, part: str, revision: str) -> list[Row]:
        return read_hub(self.hub, part, "test", revision)

    def facts(self, row: Row) -> Mapping[str, Any]:
        return {"all_classes": row.texts("all_classes"), "length": row.count("length")}

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        return {"score": score(sample.task, text, sample.references, sample.extra["all_classes"])}

    def strata(self, sample: Sample) -> Iterable[str]:
        if not sample.task.endswith("_e"):
            return ()
        length = sample.extra["length"]
        if length is None:
            raise DataError(f"longbench {sample.task}: {sample.id} has no length, which LongBench-E goes by")
        return [next((name for name, limit in _BINS if length < limit), "8k+")]


class LongBenchV2(DatasetBenchmark):
    """Multiple choice over long texts, with an answer at once (`0shot`) or after thinking (`cot`)."""

    name: ClassVar[str] = "longbenchv2"
    hub: ClassVar[str] = "Xnhyacinth/LongBench-v2"
    parts: ClassVar[tuple[str, ...]] = ("0shot", "cot")
    primary: ClassVar[str] = "accuracy"
    high: ClassVar[float] = 100.0

    def facts(self, row: Row) -> Mapping[str, Any]:
        return {"difficulty": row.text("difficulty"), "length": row.text("length")}

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        return {"accuracy": float(chosen_letter(text) == sample.references[0])}

    def strata(self, sample: Sample) -> Iterable[str]:
        return (sample.extra["difficulty"], sample.extra["length"])
