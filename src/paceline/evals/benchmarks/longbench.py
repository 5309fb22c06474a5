"""LongBench, LongBench-E and LongBench v2."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from paceline.evals.benchmarks.dataset import DatasetBenchmark
from paceline.evals.benchmarks.rows import DataError, Row, read_hub
from paceline.evals.benchmarks.scores import ScoreError, cut_chinese, qa_f1, qa_f1_chinese, rouge_l
from paceline.evals.interfaces import Sample

FIRST_LINE_ONLY = frozenset({"trec", "triviaqa", "samsum", "lsht"})
WITHOUT_CHAT = FIRST_LINE_ONLY | {"lcc", "repobench-p"}
"""Tasks with examples or code, which the authors ask without a chat template."""
_NUMBER = re.compile(r"\d+")

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


def score(task: str, prediction: str, references: Sequence[str], classes: Sequence[str] = ()) -> float:
    """The best score over all references; `_e` at the end of a task's name makes no difference."""
    plain = task.removesuffix("_e")
    if plain not in METRICS:
        raise ScoreError(f"LongBench has no task {task!r}")
    if not references:
        raise ScoreError(f"LongBench {task}: a sample without answers")
    if plain in FIRST_LINE_ONLY:
        prediction = prediction.lstrip("\n").split("\n")[0]
    return max(METRICS[plain](prediction, reference, classes) for reference in references)


def classification(prediction: str, reference: str, classes: Sequence[str]) -> float:
    """One over the number of classes that the answer names, if the right one is among them.

    Names that are a part of the right one do not count, except one that follows directly on another such: the
    published program removes from the list that it walks along, and its numbers are what ours are compared with.
    """
    if not classes:
        raise ScoreError("a classification needs all_classes")
    named = [name for name in classes if name in prediction]
    position = 0
    while position < len(named):
        name = named[position]
        if name in reference and name != reference:
            named.remove(name)
        position += 1
    return 1.0 / len(named) if reference in named else 0.0


def _share_of_numbers(prediction: str, wanted: str) -> float:
    numbers = _NUMBER.findall(prediction)
    return numbers.count(wanted) / len(numbers) if numbers else 0.0


def count(prediction: str, reference: str) -> float:
    """The share of the answer's numbers that are the right one."""
    return _share_of_numbers(prediction, reference)


def retrieval(prediction: str, reference: str, pattern: str = r"Paragraph (\d+)") -> float:
    """The share of the answer's numbers that are the right paragraph's."""
    found = re.search(pattern, reference)
    if found is None:
        raise ScoreError(f"a retrieval's answer names a paragraph, which {reference!r} does not")
    return _share_of_numbers(prediction, found.group(1))


def code_similarity(prediction: str, reference: str) -> float:
    """How alike the first line of code is, in whole hundredths as fuzzywuzzy gives it without an accelerator."""
    lines = prediction.lstrip("\n").split("\n")
    line = next((line for line in lines if not any(mark in line for mark in ("`", "#", "//"))), "")
    if line == reference:
        return 1.0
    if not line or not reference:
        return 0.0
    return round(100 * difflib.SequenceMatcher(None, line, reference).ratio()) / 100


def _rouge(prediction: str, reference: str) -> float:
    return rouge_l(prediction, reference).f


def _rouge_chinese(prediction: str, reference: str) -> float:
    return _rouge(" ".join(cut_chinese(prediction)), " ".join(cut_chinese(reference)))


def _retrieval_chinese(prediction: str, reference: str) -> float:
    return retrieval(prediction, reference, r"段落(\d+)")


_Metric = Callable[[str, str, Sequence[str]], float]


def _without_classes(metric: Callable[[str, str], float]) -> _Metric:
    return lambda prediction, reference, _: metric(prediction, reference)


_TASKS: Mapping[Callable[[str, str], float], tuple[str, ...]] = {
    qa_f1: ("narrativeqa", "qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "musique", "triviaqa"),
    qa_f1_chinese: ("multifieldqa_zh",),
    _rouge: ("gov_report", "qmsum", "multi_news", "samsum"),
    _rouge_chinese: ("dureader", "vcsum"),
    count: ("passage_count",),
    retrieval: ("passage_retrieval_en",),
    _retrieval_chinese: ("passage_retrieval_zh",),
    code_similarity: ("lcc", "repobench-p"),
}
METRICS: Mapping[str, _Metric] = {
    **{task: _without_classes(metric) for metric, tasks in _TASKS.items() for task in tasks},
    "trec": classification,
    "lsht": classification,
}

_CHOICE = (re.compile(r"The correct answer is \(([A-D])\)"), re.compile(r"The correct answer is ([A-D])"))


def chosen_letter(prediction: str) -> str | None:
    """The letter that a LongBench v2 answer settles on; None if it does not say so in the words it was asked to."""
    plain = prediction.replace("*", "")
    found = next(filter(None, (pattern.search(plain) for pattern in _CHOICE)), None)
    return found.group(1) if found else None


class LongBench(DatasetBenchmark):
    """21 tasks, and the 13 of LongBench-E, which end in `_e` and are given for three ranges of length too.

    Bai et al., LongBench: A Bilingual, Multitask Benchmark for Long Context Understanding, arXiv:2308.14508.
    """

    name: ClassVar[str] = "longbench"
    hub: ClassVar[str] = "Xnhyacinth/LongBench"
    parts: ClassVar[tuple[str, ...]] = (*METRICS, *(f"{task}_e" for task in _IN_E))
    high: ClassVar[float] = 100.0
    published_by: ClassVar[str] = "input"
    authors_prompts: ClassVar[str] = "LongBench/config/dataset2prompt.json"
    budgets: ClassVar[Mapping[str, int]] = {
        **dict.fromkeys(("narrativeqa", "qasper", "dureader", "samsum"), 128),
        **dict.fromkeys(("multifieldqa_en", "multifieldqa_zh", "trec", "lsht", "lcc", "repobench-p"), 64),
        **dict.fromkeys(("hotpotqa", "2wikimqa", "musique", "triviaqa", "passage_count"), 32),
        **dict.fromkeys(("passage_retrieval_en", "passage_retrieval_zh"), 32),
        **dict.fromkeys(("gov_report", "qmsum", "multi_news", "vcsum"), 512),
    }

    def published(self, row: Row, part: str) -> list[Sample]:
        plain = part.removesuffix("_e") in WITHOUT_CHAT
        return [replace(sample, plain=plain) for sample in super().published(row, part)]

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
    """Multiple choice over long texts, with an answer at once (`0shot`) or after thinking (`cot`).

    Bai et al., LongBench v2, arXiv:2412.15204. The authors' rows are those of `data.json`, and their prompts the text
    files of `prompts`. For `cot` their program asks twice, first for thoughts and then, without the text, for the
    letter; that is refused here, and the hub's data set, which asks once, is taken with a `revision`.
    """

    name: ClassVar[str] = "longbenchv2"
    hub: ClassVar[str] = "Xnhyacinth/LongBench-v2"
    parts: ClassVar[tuple[str, ...]] = ("0shot", "cot")
    primary: ClassVar[str] = "accuracy"
    high: ClassVar[float] = 100.0
    shared_files: ClassVar[tuple[str, ...]] = ("data",)
    published_by: ClassVar[str] = "choice_A"
    authors_prompts: ClassVar[str] = "the directory prompts"
    document: ClassVar[str] = "DOC"
    budgets: ClassVar[Mapping[str, int]] = {"0shot": 128}

    def published(self, row: Row, part: str) -> list[Sample]:
        if part != "0shot":
            raise DataError(
                f"{row.where}: rows as published are asked in two steps for {part}, which is not done here"
            )
        named = {
            "DOC": "context",
            "Q": "question",
            **{f"C_{letter}": f"choice_{letter}" for letter in "ABCD"},
        }
        return [self.asked(row, part, {field: row.text(name).strip() for field, name in named.items()})]

    def facts(self, row: Row) -> Mapping[str, Any]:
        return {"difficulty": row.text("difficulty"), "length": row.text("length")}

    def score_sample(self, sample: Sample, text: str) -> Mapping[str, float]:
        return {"accuracy": float(chosen_letter(text) == sample.references[0])}

    def strata(self, sample: Sample) -> Iterable[str]:
        return (sample.extra["difficulty"], sample.extra["length"])
