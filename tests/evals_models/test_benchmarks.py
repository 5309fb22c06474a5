"""Benchmarks' data: what ships, what is read, what is made; and whether right answers score full marks."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paceline import plugins
from paceline.errors import PacelineError
from paceline.evals.benchmarks.aime import Aime2025
from paceline.evals.benchmarks.infinite_bench import InfiniteBench
from paceline.evals.benchmarks.longbench import LongBench, LongBenchV2
from paceline.evals.benchmarks.loogle import Loogle
from paceline.evals.benchmarks.rows import DataError
from paceline.evals.benchmarks.ruler import Ruler, estimate_tokens
from paceline.evals.benchmarks.ruler_tasks import TASKS
from paceline.evals.benchmarks.zero_scrolls import ZeroScrolls
from paceline.evals.interfaces import EvalBenchmark, Prediction, Sample, Scores
from paceline.evals.scoring import score

NAMES = "aime2024 aime2025 infinite_bench longbench longbenchv2 loogle ruler zero_scrolls"
PARTS = [
    (name, subset) for name in NAMES.split() for subset in plugins.find("eval_benchmarks", name)().subsets()
]


def right_answer(name: str, sample: Sample) -> str:
    if name == "longbenchv2":
        return f"The correct answer is ({sample.references[0]})"
    joined = name == "ruler" or sample.task == "math_calc"
    return ", ".join(sample.references) if joined else sample.references[0]


def scored(benchmark: EvalBenchmark, samples: Sequence[Sample], texts: Sequence[str]) -> Scores:
    pairs = zip(samples, texts, strict=True)
    return score(
        benchmark, samples, {sample.id: Prediction(sample_id=sample.id, text=text) for sample, text in pairs}
    )


@pytest.mark.parametrize(("name", "subset"), PARTS, ids=["-".join(part) for part in PARTS])
def test_right_answers_to_the_shipped_sample_get_full_marks(name: str, subset: str) -> None:
    params: dict[str, Any] = {"length": 2048, "samples": 2} if name == "ruler" else {}
    benchmark: EvalBenchmark = plugins.find("eval_benchmarks", name)(**params)
    samples = benchmark.load(subset, data_dir=None, revision=None)
    scores = scored(benchmark, samples, [right_answer(name, sample) for sample in samples])
    primary = scores.metrics[scores.primary]
    assert primary.value == pytest.approx(primary.high)
    wrong = scored(benchmark, samples, ["?"] * len(samples))
    assert wrong.metrics[wrong.primary].value == 0
    assert benchmark.source(None, None) == ("generated" if name == "ruler" else "toy")
    assert benchmark.source(Path(), None) == benchmark.source(None, "main") == "real"


SAME = {"answer_prefix": "A:", "max_new_tokens": 9}
ROWS: list[dict[str, Any]] = [
    {"context": "c,\n1", "question": "q", "answers": ["x y", "z"], "length": 100, **SAME},
    {"context": "c2", "question": "q2", "answers": ["w"], "length": 9000, **SAME},
]


def write(directory: Path, form: str, name: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif form == "json":
        path.write_text(json.dumps(ROWS))
    elif form == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(ROWS[0]))
            writer.writeheader()
            writer.writerows({**row, "answers": json.dumps(row["answers"])} for row in ROWS)
    else:
        arrow = pytest.importorskip("pyarrow", reason="parquet files are read with pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet", reason="parquet files are read with pyarrow")
        parquet.write_table(arrow.Table.from_pylist(ROWS), path)


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "parquet"])
def test_every_form_of_local_files_gives_the_same_samples(tmp_path: Path, form: str) -> None:
    write(tmp_path / "flat", form, "qasper_e")
    write(tmp_path / "snapshot" / "qasper_e", form, "test-00000-of-00001")
    benchmark = LongBench()
    flat = benchmark.load("qasper_e", data_dir=tmp_path / "flat", revision=None)
    assert benchmark.load("qasper_e", data_dir=tmp_path / "snapshot", revision=None) == flat
    first = flat[0]
    assert (first.id, first.context, first.references) == ("qasper_e-0", "c,\n1", ("x y", "z"))
    assert (first.max_new_tokens, first.answer_prefix) == (9, "A:")
    scores = scored(benchmark, flat, ["z", "?"])
    assert scores.metrics["score"].value == 50 and scores.metrics["score.0-4k"].value == 100
    assert scores.metrics["score.8k+"].value == 0 and "score.4-8k" not in scores.metrics


def test_what_cannot_be_used_is_said_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "qasper.jsonl").write_text(
        json.dumps({"context": "c", "question": "q", "answers": ["a"]}) + '\n{"context": 3}\n'
    )
    with pytest.raises(DataError, match=r"qasper\.jsonl:2: 'context'"):
        LongBench().load("qasper", data_dir=tmp_path, revision=None)
    (tmp_path / "trec.jsonl").write_text("{")
    with pytest.raises(DataError, match=r"trec\.jsonl:1: not JSON"):
        LongBench().load("trec", data_dir=tmp_path, revision=None)
    (tmp_path / "vcsum.jsonl").write_text('{"context": "c", "answers": ["a"]}\n')
    with pytest.raises(DataError, match=r"vcsum\.jsonl:1: 'question' is to be a text"):
        LongBench().load("vcsum", data_dir=tmp_path, revision=None)
    (tmp_path / "lcc.jsonl").write_text('{"context": "c", "question": ""}\n')
    with pytest.raises(DataError, match="neither 'answers' nor 'answer'"):
        LongBench().load("lcc", data_dir=tmp_path, revision=None)
    with pytest.raises(DataError, match="no data of musique"):
        LongBench().load("musique", data_dir=tmp_path, revision=None)
    with pytest.raises(PacelineError, match="no extra metric 'bleurt'"):
        Loogle(extra_metrics=["bleurt"])


def test_a_revision_asks_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="the hub is read with datasets")
    asked = []

    def load_dataset(name: str, config: str | None, *, split: str, revision: str) -> list[dict[str, Any]]:
        asked.append((name, config, split, revision))
        return [
            {"context": "c", "question": "q", "answer": "7", "task": task}
            for task in ("quality", "vt", "aime2025")
        ]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    asking: list[tuple[EvalBenchmark, str]] = [
        (InfiniteBench(), "passkey"),
        (Aime2025(), "aime2025"),
        (Ruler(length=8192), "vt"),
        (ZeroScrolls(), "quality"),
    ]
    for benchmark, subset in asking:
        rows = 3 if subset == "aime2025" else 1
        if subset == "passkey":
            with pytest.raises(DataError, match="no rows"):
                benchmark.load(subset, data_dir=None, revision="main")
        else:
            assert len(benchmark.load(subset, data_dir=None, revision="main")) == rows
    assert asked == [
        ("MaxJeblick/InfiniteBench", "passkey", "test", "main"),
        ("xAlg-AI/att-hub-aime2025", None, "test", "main"),
        ("simonjegou/ruler", "8192", "test", "main"),
        ("simonjegou/zero_scrolls", None, "test", "main"),
    ]
    with pytest.raises(DataError, match="not 5000"):
        Ruler(length=5000).load("vt", data_dir=None, revision="main")


@pytest.mark.parametrize("task", TASKS)
def test_ruler_fills_any_length_and_hides_its_answers(task: str) -> None:
    for length in (1700, 6000):
        samples = Ruler(length=length, samples=2, seed=5).load(task, data_dir=None, revision=None)
        assert samples == Ruler(length=length, samples=2, seed=5).load(task, data_dir=None, revision=None)
        assert samples[0].context != samples[1].context
        for sample in samples:
            used = estimate_tokens(sample.context + sample.question + sample.answer_prefix)
            assert length * 0.85 <= used + (sample.max_new_tokens or 0) <= length
            assert all(reference in sample.context for reference in sample.references)
            assert not any(
                reference in sample.question + sample.answer_prefix for reference in sample.references
            )
    other = Ruler(length=1700, samples=2, seed=6).load(task, data_dir=None, revision=None)
    assert {sample.context for sample in other}.isdisjoint({sample.context for sample in samples})


def test_ruler_counts_with_a_models_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the tiny model is built with torch")
    transformers = pytest.importorskip("transformers", reason="tokenizers come from transformers")
    from evals_models.tiny_model import build

    directory = build(tmp_path / "model")
    sample = Ruler(length=3000, samples=1, tokenizer=str(directory)).load(
        "niah_single_2", data_dir=None, revision=None
    )[0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    used = len(tokenizer(sample.context + sample.question + sample.answer_prefix)["input_ids"])
    assert 2700 <= used + 128 <= 3000


def test_ruler_that_does_not_fit_says_so() -> None:
    with pytest.raises(DataError, match="does not fit"):
        Ruler(length=200).load("cwe", data_dir=None, revision=None)
    with pytest.raises(DataError, match="at least 1"):
        Ruler(length=0)


def test_strata_and_means_over_tasks() -> None:
    benchmark = LongBenchV2()
    samples = benchmark.load(None, data_dir=None, revision=None)
    scores = scored(benchmark, samples, ["The correct answer is (C)", "", "The correct answer is (C)", ""])
    assert scores.metrics["accuracy"].value == 50 and scores.metrics["accuracy.easy"].value == 100
    assert scores.metrics["accuracy.hard"].value == 0 and scores.metrics["accuracy.cot"].value == 50


def test_zero_scrolls_takes_official_rows_and_reports_lengths_without_references(tmp_path: Path) -> None:
    row = {"input": "DOC QUERY Answer:", "document_end_index": 4, "query_end_index": 9, "output": None}
    (tmp_path / "qasper.jsonl").write_text(json.dumps(row))
    samples = ZeroScrolls().load("qasper", data_dir=tmp_path, revision=None)
    assert (samples[0].context, samples[0].question, samples[0].answer_prefix) == ("DOC ", "QUERY", "Answer:")
    scores = scored(ZeroScrolls(), samples, ["four"])
    assert scores.primary == "answer_length" and scores.metrics["answer_length"].value == 4
    assert scores.metrics["answer_length"].direction is None


def test_a_zero_scrolls_summary_is_the_geometric_mean_of_means() -> None:
    benchmark = ZeroScrolls()
    sample = benchmark.load("gov_report", data_dir=None, revision=None)[0]
    other = Sample(id="other", context="", question="", references=("one two three",), task="gov_report")
    scores = scored(benchmark, [sample, other], ["a storm took the pier", "one two"])
    means = [scores.metrics[name].value for name in ("rouge1", "rouge2", "rougeL")]
    assert scores.metrics["score"].value == pytest.approx((means[0] * means[1] * means[2]) ** (1 / 3))
