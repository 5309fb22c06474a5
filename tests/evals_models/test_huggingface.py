"""The Hugging Face adapter with a tiny model on this disk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="models are computed with torch")
pytest.importorskip("transformers", reason="models come from transformers")

from evals_models.tiny_model import build  # noqa: E402
from paceline.errors import PacelineError  # noqa: E402
from paceline.evals import AdapterConfig, BenchmarkConfig, BenchmarkExecutor  # noqa: E402
from paceline.evals.adapters.decoding import cut_middle, split_prompt  # noqa: E402
from paceline.evals.adapters.huggingface import HuggingFaceAdapter  # noqa: E402
from paceline.evals.attention_config import (  # noqa: E402
    AttentionConfig,
    HashAttentionConfig,
    OracleTopKConfig,
    QuestConfig,
    RandomSamplingConfig,
    SparseAttentionConfig,
    StreamingConfig,
    as_attention,
)
from paceline.evals.interfaces import (  # noqa: E402
    Device,
    GenerationSpec,
    ModelSpec,
    Prediction,
    Sample,
    group_by_context,
)

CONTEXT = "The mill stands at the river. Its wheel has twelve blades. The miller is called Anna. "
SAMPLES = [
    Sample(
        id="a", context=CONTEXT * 3, question="How many blades?", answer_prefix=" Answer:", max_new_tokens=8
    ),
    Sample(id="b", context=CONTEXT * 3, question="What is the miller called, and why?", max_new_tokens=6),
    Sample(id="c", context=f"{CONTEXT} It is old.", question="Where?", max_new_tokens=8),
    Sample(id="d", context="", question="No context at all?", max_new_tokens=4),
]
CPU = Device(name="cpu", id="cpu:0")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def adapter(directory: Path) -> Iterator[HuggingFaceAdapter]:
    made = HuggingFaceAdapter(ModelSpec(name=str(directory), model_kwargs={"torch_dtype": "float32"}), CPU)
    made.load()
    yield made
    made.close()


def ask(
    adapter: HuggingFaceAdapter,
    samples: list[Sample],
    attention: AttentionConfig = None,
    *,
    at_once: int = 1,
    seed: int = 0,
    context_length: int | None = None,
    **generation: Any,
) -> dict[str, Prediction]:
    adapter.set_attention(as_attention(attention))
    request = {} if context_length is None else {"max_context_length": context_length}
    spec = GenerationSpec(generation_kwargs=generation, request_kwargs=request, seed=seed)
    groups = group_by_context(samples)
    found = [
        prediction
        for start in range(0, len(groups), at_once)
        for prediction in adapter.generate(groups[start : start + at_once], spec)
    ]
    assert len({prediction.sample_id for prediction in found}) == len(found) == len(samples)
    return {prediction.sample_id: prediction for prediction in found}


def texts(predictions: dict[str, Prediction]) -> dict[str, str]:
    return {name: prediction.text for name, prediction in predictions.items()}


def test_answers_equal_those_of_transformers_own_generate(adapter: HuggingFaceAdapter) -> None:
    tokenizer, model = adapter._tokenizer, adapter._model
    adapter.set_attention(None)
    for sample in SAMPLES:
        ids = tokenizer(sample.context)["input_ids"]
        ids += tokenizer(sample.question + sample.answer_prefix, add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            whole = model.generate(torch.tensor([ids]), max_new_tokens=sample.max_new_tokens, do_sample=False)
        wanted = tokenizer.decode(whole[0, len(ids) :], skip_special_tokens=True)
        found = ask(adapter, [sample])[sample.id]
        assert found.text == wanted and found.input_tokens == len(ids) and found.density == 1.0


@pytest.mark.parametrize(
    "attention",
    [
        None,
        StreamingConfig(sink_size=2, window_size=8),
        SparseAttentionConfig([StreamingConfig(sink_size=2, window_size=8)], prefill="sparse"),
        OracleTopKConfig(heavy_size=6),
        SparseAttentionConfig([RandomSamplingConfig(sampling_rate=0.4)], prefill="sparse"),
        SparseAttentionConfig([QuestConfig(heavy_size=12, page_size=4)], dense_first_layers=0),
        HashAttentionConfig(heavy_size=6),
    ],
    ids=["dense", "streaming", "streaming all over", "top_k", "random", "quest", "hash"],
)
def test_answers_are_the_same_in_every_grouping_and_batch(
    adapter: HuggingFaceAdapter, attention: AttentionConfig
) -> None:
    alone = {
        name: text for sample in SAMPLES for name, text in texts(ask(adapter, [sample], attention)).items()
    }
    single = ask(adapter, SAMPLES, attention)
    batched = ask(adapter, SAMPLES, attention, at_once=4)
    assert texts(single) == alone == texts(batched)
    for name, prediction in batched.items():
        assert prediction.density == pytest.approx(single[name].density)
        assert prediction.density == 1 if attention is None else (prediction.density or 1) < 1


def test_attentions_swap_on_the_same_weights(adapter: HuggingFaceAdapter) -> None:
    dense = texts(ask(adapter, SAMPLES))
    narrow = texts(ask(adapter, SAMPLES, StreamingConfig(sink_size=1, window_size=2)))
    wide = ask(adapter, SAMPLES, StreamingConfig(sink_size=1, window_size=10**6))
    assert texts(ask(adapter, SAMPLES)) == dense == texts(wide) != narrow
    assert {prediction.density for prediction in wide.values()} == {1.0}


def test_a_dense_prefill_leaves_the_context_to_the_dense_attention(adapter: HuggingFaceAdapter) -> None:
    narrow = OracleTopKConfig(heavy_size=4)
    later = ask(adapter, SAMPLES[:2], narrow)
    all_sparse = ask(adapter, SAMPLES[:2], SparseAttentionConfig([narrow], prefill="sparse"))
    assert all((prediction.density or 1) < 0.2 for prediction in later.values())
    assert texts(later) != texts(all_sparse)
    assert texts(ask(adapter, SAMPLES[:2], narrow, at_once=2)) == texts(later)


def test_sampling_depends_on_seed_and_sample_alone(adapter: HuggingFaceAdapter) -> None:
    drawn = texts(ask(adapter, SAMPLES, do_sample=True, temperature=2.0, seed=1))
    again = texts(ask(adapter, list(reversed(SAMPLES)), do_sample=True, temperature=2.0, seed=1, at_once=3))
    assert again == drawn != texts(ask(adapter, SAMPLES, do_sample=True, temperature=2.0, seed=2))
    greedy = texts(ask(adapter, SAMPLES))
    assert texts(ask(adapter, SAMPLES, do_sample=True, top_k=1)) == greedy
    assert texts(ask(adapter, SAMPLES, do_sample=True, top_p=1e-6)) == greedy


def test_budgets_stops_and_penalties(adapter: HuggingFaceAdapter) -> None:
    own = ask(adapter, SAMPLES)
    assert all((own[sample.id].output_tokens or 0) <= (sample.max_new_tokens or 0) for sample in SAMPLES)
    for budget in (2, 500):  # the smaller of the user's and the benchmark's counts
        for sample, found in zip(SAMPLES, ask(adapter, SAMPLES, max_new_tokens=budget).values(), strict=True):
            assert (found.output_tokens or 0) <= min(budget, sample.max_new_tokens or budget)
    said = own["a"].text
    stopped = ask(adapter, SAMPLES[:1], stop=[said[2]])["a"]
    assert (
        stopped.text == said[:2] if said[2] not in said[:2] else stopped.text == said[: said.index(said[2])]
    )
    assert texts(ask(adapter, SAMPLES, repetition_penalty=50.0)) != texts(own)


def test_what_is_too_long_loses_its_middle(adapter: HuggingFaceAdapter) -> None:
    assert cut_middle([1, 2, 3, 4, 5, 6], 3) == [1, 2, 6]
    assert cut_middle([1, 2], 2) == [1, 2] and cut_middle([1, 2, 3], 1) == [1]
    with pytest.raises(PacelineError, match="no token"):
        cut_middle([1], 0)
    cut = ask(adapter, SAMPLES[:2], context_length=10)
    asked = len(
        adapter._tokenizer(SAMPLES[0].question + SAMPLES[0].answer_prefix, add_special_tokens=False)[
            "input_ids"
        ]
    )
    assert cut["a"].input_tokens == 10 + asked
    assert texts(cut) == texts(ask(adapter, SAMPLES[:2], context_length=10, at_once=2))


def test_chat_templates_and_positions(tmp_path: Path) -> None:
    directory = build(tmp_path / "chat", chat=True, positions=128)
    adapter = HuggingFaceAdapter(ModelSpec(name=str(directory)), CPU)
    adapter.load()
    before, after = split_prompt(adapter._tokenizer, SAMPLES[0], chat=True, options={})
    assert before == f"<|user|>{SAMPLES[0].context}"
    assert after == f"{SAMPLES[0].question}<|end|><|assistant|> Answer:"
    found = ask(adapter, SAMPLES)
    assert all((one.input_tokens or 0) + (one.output_tokens or 0) <= 128 for one in found.values())
    plain = ask(adapter, SAMPLES, chat_template=False)
    assert plain["d"].input_tokens != found["d"].input_tokens
    assert adapter.estimate_memory_bytes(ModelSpec(name=str(directory)), GenerationSpec()) or 0 > 0
    adapter.close()


@pytest.mark.parametrize(
    ("generation", "message"),
    [
        ({"max_new_token": 3}, "has no 'max_new_token'"),
        ({"max_new_tokens": 0}, "integer from 1"),
        ({"do_sample": True, "temperature": 0}, "over 0"),
        ({"prefill": "dense"}, "an option of each attention"),
        ({"top_p": 2.0}, "top_p"),
    ],
)
def test_what_can_never_work_is_said_before_anything_starts(generation: dict[str, Any], message: str) -> None:
    with pytest.raises(PacelineError, match=message):
        HuggingFaceAdapter.check(ModelSpec(name="m"), GenerationSpec(generation_kwargs=generation))


def test_the_executor_runs_it_with_every_kind_of_attention(directory: Path, tmp_path: Path) -> None:
    results = BenchmarkExecutor(["cpu"], 1, tmp_path).run_benchmark_matrix(
        [str(directory)],
        [("dense", None), ("streaming", StreamingConfig(sink_size=2, window_size=8))],
        [BenchmarkConfig("mock_benchmark"), BenchmarkConfig("longbench", ["qasper", "trec_e"])],
        AdapterConfig("huggingface"),
        generation_kwargs={"max_new_tokens": 4},
    )
    assert [failure.error_message for failure in results.failed_executions] == []
    densities = {result.stub.sparse_config_name: result.density for result in results.individual_results}
    assert densities["dense"] == 1 and (densities["streaming"] or 1) < 1


def test_times_are_of_reading_and_of_each_token(adapter: HuggingFaceAdapter) -> None:
    found = ask(adapter, SAMPLES[:2], StreamingConfig(sink_size=2, window_size=8))
    for one in found.values():
        assert one.prefill_s is not None and one.first_token_s is not None and one.token_s is not None
        assert 0 < one.prefill_s < one.seconds
        # The context is read once for both, and neither has its first token before it is.
        assert one.first_token_s >= 2 * one.prefill_s and one.token_s < one.seconds
    assert len(found["a"].extra["layer_density"]) == 2
    measured = ask(
        adapter,
        SAMPLES[:1],
        SparseAttentionConfig([StreamingConfig(sink_size=2, window_size=8)], measure_error=True),
    )["a"]
    assert measured.text == found["a"].text and all(error > 0 for error in measured.extra["layer_error"])
