"""What every adapter, benchmark and scheduler for evals has to keep to; a new one is added to the lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paceline import plugins
from paceline.evals import AdapterConfig, BenchmarkConfig, BenchmarkExecutor
from paceline.evals.attention_config import StreamingConfig, as_attention
from paceline.evals.interfaces import (
    Device,
    EvalBenchmark,
    GenerationSpec,
    ModelSpec,
    Prediction,
    Sample,
    Seat,
    Waiting,
    group_by_context,
)
from paceline.evals.scoring import score


@dataclass(frozen=True)
class AdapterCase:
    """An adapter and a model that it can run here."""

    name: str
    model: str = "model"
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)


# Adapters that need more than this package have their own file with the same class of cases.
ADAPTERS = [AdapterCase("mock")]
BENCHMARKS = sorted(plugins.names("eval_benchmarks"))
NEEDS = {"lm_eval": "lm_eval", "zero_scrolls": "rouge_score"}
SCHEDULERS = sorted(plugins.names("eval_schedulers"))

CONTEXT = "The mill stands at the river. Its wheel has twelve blades. The miller is called Anna."
SAMPLES = [
    Sample(id="a", context=CONTEXT, question="How many blades has its wheel?", max_new_tokens=16),
    Sample(id="b", context=CONTEXT, question="What is the miller called?", max_new_tokens=16),
    Sample(id="c", context=f"{CONTEXT} It is old.", question="Where does the mill stand?", max_new_tokens=16),
]


def answers(case: AdapterCase, samples: Sequence[Sample], **generation: Any) -> dict[str, Prediction]:
    spec = GenerationSpec(generation_kwargs=generation)
    model = ModelSpec(name=case.model, model_kwargs=case.model_kwargs)
    adapter = plugins.find("eval_adapters", case.name)(model, Device(name="cpu", id="cpu:0"))
    adapter.load()
    try:
        adapter.set_attention(None)
        found = list(adapter.generate(group_by_context(samples), spec))
        adapter.set_attention(as_attention(StreamingConfig(sink_size=1, window_size=2)))
        sparse = list(adapter.generate(group_by_context(samples), spec))
        adapter.set_attention(None)
        assert list(adapter.generate(group_by_context(samples), spec)) == found or case.name != "mock"
    finally:
        adapter.close()
    assert all(prediction.density in (None, 1.0) for prediction in found)
    assert all(prediction.density is None or prediction.density < 1 for prediction in sparse)
    return {prediction.sample_id: prediction for prediction in found}


@pytest.mark.parametrize("case", ADAPTERS, ids=lambda case: case.name)
def test_an_adapter_answers_every_sample_once_in_any_grouping(case: AdapterCase) -> None:
    together = answers(case, SAMPLES)
    assert sorted(together) == ["a", "b", "c"]
    for sample in SAMPLES:
        assert answers(case, [sample])[sample.id].text == together[sample.id].text
    assert all(prediction.output_tokens == 0 or prediction.text for prediction in together.values())


@pytest.mark.parametrize("case", ADAPTERS, ids=lambda case: case.name)
def test_an_adapter_keeps_to_the_users_budget(case: AdapterCase) -> None:
    short = answers(case, SAMPLES, max_new_tokens=2)
    assert all((prediction.output_tokens or 0) <= 2 for prediction in short.values())


def parts_of(name: str) -> tuple[EvalBenchmark, list[Sample]]:
    pytest.importorskip(NEEDS.get(name, "paceline"), reason="the benchmark is that package's")
    benchmark: EvalBenchmark = plugins.find("eval_benchmarks", name)()
    known = benchmark.subsets()
    return benchmark, list(benchmark.load(known[0] if known else None, data_dir=None, revision=None))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_offline_with_stable_samples(name: str) -> None:
    benchmark, samples = parts_of(name)
    assert samples and len({sample.id for sample in samples}) == len(samples)
    assert parts_of(name)[1] == samples
    assert benchmark.name and benchmark.version and len(set(benchmark.subsets())) == len(benchmark.subsets())


@pytest.mark.parametrize("name", BENCHMARKS)
def test_scores_are_pure_complete_and_in_their_range(name: str) -> None:
    benchmark, samples = parts_of(name)
    texts = {sample.id: (sample.references or ("x",))[0] for sample in samples}
    predictions = {name: Prediction(sample_id=name, text=text) for name, text in texts.items()}
    scores = score(benchmark, samples, predictions)
    assert score(benchmark, samples, predictions) == scores
    assert set(scores.per_sample) == {sample.id for sample in samples}
    for value in scores.metrics.values():
        assert value.low <= value.value <= value.high and value.n > 0
    empty = {name: Prediction(sample_id=name, text="") for name in texts}
    assert score(benchmark, samples, empty).metrics.keys() == scores.metrics.keys()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_gives_out_what_fits_once(name: str) -> None:
    scheduler = plugins.find("eval_schedulers", name)()
    scheduler.add(Waiting(number=number, model_key=f"m{number % 2}", expected_s=None) for number in range(6))
    seat = Seat(device="0", resident="m1")
    assert scheduler.take(seat, lambda stub: False, {}) is None and len(scheduler) == 6
    first = scheduler.take(seat, lambda stub: stub.number == 3, {})
    assert first is not None and first.number == 3 and len(scheduler) == 5
    assert {stub.number for stub in scheduler.remove("m0")} == {0, 2, 4}
    scheduler.add([first])
    assert {stub.number for stub in scheduler.remove()} == {1, 3, 5} and len(scheduler) == 0


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_through_the_executor(tmp_path: Path, name: str) -> None:
    known = parts_of(name)[0].subsets()
    results = BenchmarkExecutor(["cpu"], 1, tmp_path).run_benchmark_matrix(
        ["model"],
        [("dense", None)],
        [BenchmarkConfig(name, list(known[:1]) or None)],
        AdapterConfig("mock"),
        request_kwargs={"max_requests": 2},
    )
    assert [failure.error_message for failure in results.failed_executions] == []
