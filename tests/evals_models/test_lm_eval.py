"""Tasks of lm-eval through this package, beside lm-eval's own evaluation of the same answers."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval", reason="tasks come from lm-eval")

from paceline.errors import PacelineError
from paceline.evals.benchmarks.lm_eval import LmEval
from paceline.evals.interfaces import Device, GenerationSpec, ModelSpec, Prediction, group_by_context
from paceline.evals.scoring import score

CHOICE = """
task: mill_choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_target: answer
doc_to_choice: ["red", "green", "blue"]
metric_list:
  - metric: acc
  - metric: acc_norm
"""
FILLED = """
task: mill_filled
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: answer
doc_to_choice: "{{{{['The red mill', 'The green mill', 'A mill']}}}}"
doc_to_target: "stands at the river."
metric_list:
  - metric: acc
"""
ROWS = [{"question": f"What colour is mill {number}?", "answer": number % 3} for number in range(6)]


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mill_choice.yaml").write_text(CHOICE.format(data=data))
    (tmp_path / "tasks" / "mill_filled.yaml").write_text(FILLED.format(data=data))
    return tmp_path / "tasks"


def test_the_shipped_task_scores_what_it_is_told() -> None:
    benchmark = LmEval()
    samples = benchmark.load(None, data_dir=None, revision=None)
    assert [sample.max_new_tokens for sample in samples] == [16, 16]
    texts = ("at nine\nor ten", "birds")
    answers = {s.id: Prediction(sample_id=s.id, text=text) for s, text in zip(samples, texts, strict=True)}
    scores = score(benchmark, samples, answers)
    assert scores.metrics["exact_match"].value == 0.5 and scores.metrics["exact_match"].n == 2
    assert list(scores.per_sample.values()) == [{"exact_match": 1.0}, {"exact_match": 0.0}]


@pytest.fixture
def adapter(tmp_path: Path) -> Any:
    torch = pytest.importorskip("torch", reason="models are computed with torch")
    pytest.importorskip("transformers", reason="models come from transformers")
    from evals_models.tiny_model import build
    from paceline.evals.adapters.huggingface import HuggingFaceAdapter

    torch.set_num_threads(1)
    adapter = HuggingFaceAdapter(ModelSpec(name=str(build(tmp_path / "model"))), Device(name="cpu", id="cpu"))
    adapter.load()
    adapter.set_attention(None)
    return adapter


def test_one_continuation_is_weighed_after_several_texts(tasks: Path, adapter: Any) -> None:
    benchmark = LmEval(tasks=["mill_filled"], include_path=str(tasks))
    samples = benchmark.load("mill_filled", data_dir=None, revision=None)
    assert samples[0].context == "" and samples[0].lead_ins == ("The red mill", "The green mill", "A mill")
    assert samples[0].continuations == (" stands at the river.",) * 3
    found = {p.sample_id: p for p in adapter.generate(group_by_context(samples), GenerationSpec())}
    wanted = [weights(adapter, lead, samples[0].continuations[:1])[0] for lead in samples[0].lead_ins]
    assert len(set(wanted)) == 3
    for sample in samples:
        values = [value for value, _ in found[sample.id].extra["loglikelihoods"]]
        assert values == pytest.approx(wanted, abs=1e-3)
    scores = score(benchmark, samples, found)
    right = [best(found[sample.id]) == row["answer"] for sample, row in zip(samples, ROWS, strict=True)]
    assert scores.metrics["acc"].value == pytest.approx(sum(right) / len(right)) == pytest.approx(2 / 6)


def test_choices_are_weighed_as_lm_eval_weighs_them(tasks: Path, adapter: Any) -> None:
    benchmark = LmEval(tasks=["mill_choice"], include_path=str(tasks))
    assert benchmark.subsets() == ("mill_choice",)
    samples = benchmark.load("mill_choice", data_dir=None, revision=None)
    assert samples[0].continuations == (" red", " green", " blue")
    found = {p.sample_id: p for p in adapter.generate(group_by_context(samples), GenerationSpec())}
    for sample in samples:
        assert weights(adapter, sample.context, sample.continuations) == pytest.approx(
            [value for value, _ in found[sample.id].extra["loglikelihoods"]], abs=1e-3
        )
    scores = score(benchmark, samples, found)
    right = [best(found[sample.id]) == row["answer"] for sample, row in zip(samples, ROWS, strict=True)]
    assert scores.metrics["acc"].value == pytest.approx(sum(right) / len(right))
    assert {"acc", "acc_norm"} <= set(scores.metrics) and set(scores.per_sample) == set(found)


def best(prediction: Prediction) -> int:
    values = [value for value, _ in prediction.extra["loglikelihoods"]]
    return values.index(max(values))


def weights(adapter: Any, context: str, continuations: tuple[str, ...]) -> list[float]:
    """One forward pass a continuation, without a cache."""
    import torch

    values = []
    for tail in continuations:
        before = adapter._tokenizer(context)["input_ids"]
        after = adapter._tokenizer(tail, add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logits = adapter._model(torch.tensor([before + after])).logits[0].log_softmax(-1)
        places = range(len(before) - 1, len(before) + len(after) - 1)
        values.append(sum(float(logits[place, token]) for place, token in zip(places, after, strict=True)))
    return values


def test_what_it_cannot_do_it_says(tasks: Path) -> None:
    with pytest.raises(PacelineError, match="leave out data_dir"):
        LmEval().load(None, data_dir=tasks, revision=None)
    benchmark = LmEval(tasks=["mill_choice"], include_path=str(tasks))
    samples = benchmark.load("mill_choice", data_dir=None, revision=None)
    with pytest.raises(PacelineError, match="needs log-likelihoods"):
        score(benchmark, samples, {s.id: Prediction(sample_id=s.id, text="red") for s in samples})
