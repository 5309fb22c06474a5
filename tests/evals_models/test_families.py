"""With every key kept, the sparse attention is transformers' eager one, bit for bit, in every family of models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="models are computed with torch")
transformers = pytest.importorskip("transformers", reason="models come from transformers")

from evals_models import tiny_model  # noqa: E402
from evals_models.families import FAMILIES, build  # noqa: E402
from paceline.errors import PacelineError  # noqa: E402
from paceline.evals import OracleTopPConfig, SparseAttentionConfig, StreamingConfig  # noqa: E402
from paceline.evals.adapters.huggingface import HuggingFaceAdapter  # noqa: E402
from paceline.evals.attention import sparse  # noqa: E402
from paceline.evals.attention_config import AttentionError, MaskerConfig  # noqa: E402
from paceline.evals.interfaces import Device, ModelSpec  # noqa: E402

WIDE = StreamingConfig(sink_size=1, window_size=10**9)
TOKENS, STEPS = 20, 4


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    sparse.register()
    yield
    torch.set_num_threads(before)


def inputs(batch: int = 3) -> tuple[Any, Any]:
    """Sequences of which the first is whole and the others are padded in front."""
    ids = torch.randint(3, 97, (batch, TOKENS + STEPS), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    for row in range(1, batch):
        mask[row, : 5 * row] = 0
    return ids, mask


def logits(model: Any, masker: MaskerConfig | None, cache: Any, ids: Any, mask: Any) -> Any:
    """The scores of all tokens: some read at once, then step by step, on one cache."""
    attention = None if masker is None else sparse.SparseAttention(SparseAttentionConfig([masker]))
    model.set_attn_implementation("eager" if attention is None else sparse.NAME)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    parts = [(0, TOKENS), *((at, at + 1) for at in range(TOKENS, ids.shape[1]))]
    found = []
    with torch.inference_mode(), sparse.active(attention) if attention else torch.inference_mode():
        for start, end in parts:
            out = model(
                ids[:, start:end],
                attention_mask=mask[:, :end],
                position_ids=positions[:, start:end],
                past_key_values=cache,
                use_cache=True,
            )
            found.append(out.logits)
    if attention is not None:
        looked, there = attention.take_counts()[:, :2].sum((0, 2)).tolist()
        assert looked == there > 0
    return torch.cat(found, 1)


def cache_of(kind: str, model: Any) -> Any:
    config = model.config
    if kind == "static":
        return transformers.StaticCache(config=config, max_cache_len=TOKENS + STEPS + 3)
    return transformers.DynamicCache(config=config)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("family", FAMILIES)
def test_all_keys_kept_is_eager_attention_bit_for_bit(family: str, kind: str) -> None:
    """Prefill and decode, several heads for one of keys, a batch padded in front."""
    model = build(family)
    ids, mask = inputs()
    wanted = logits(model, None, cache_of(kind, model), ids, mask)
    found = logits(model, WIDE, cache_of(kind, model), ids, mask)
    real = mask.bool()
    assert float(wanted[real].abs().max()) > 0.1
    assert torch.equal(found[real], wanted[real])


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss"])
def test_so_it_is_in_half_precision_and_under_every_key_of_an_oracle(family: str) -> None:
    model = build(family, "bfloat16")
    ids, mask = inputs(1)
    wanted = logits(model, None, cache_of("dynamic", model), ids, mask)
    for masker in (WIDE, OracleTopPConfig(top_p=1.0)):
        assert torch.equal(logits(model, masker, cache_of("dynamic", model), ids, mask), wanted)


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss", "inkling"])
def test_picking_keys_out_is_hiding_the_others(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding reads the kept keys alone; soft caps, sinks and biases of distance apply to them all the same."""
    model = build(family)
    ids, mask = inputs()
    narrow = StreamingConfig(sink_size=1, window_size=3)
    attention = sparse.SparseAttention(SparseAttentionConfig([narrow]))
    found = []
    for share in (0.9, 0.0):
        monkeypatch.setattr(sparse, "_GATHERED_UP_TO", share)
        cache = cache_of("dynamic", model)
        model.set_attn_implementation(sparse.NAME)
        with torch.inference_mode(), sparse.active(attention):
            model(ids[:, :TOKENS], attention_mask=mask[:, :TOKENS], past_key_values=cache, use_cache=True)
            out = model(
                ids[:, TOKENS : TOKENS + 1], attention_mask=mask[:, : TOKENS + 1], past_key_values=cache
            )
        found.append(out.logits)
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


def test_arguments_that_would_be_dropped_are_refused_by_name() -> None:
    attention = sparse.SparseAttention(SparseAttentionConfig([WIDE]))
    query, mask = torch.zeros(1, 2, 3, 4), torch.ones(1, 1, 3, 3, dtype=torch.bool)
    layer = type("Layer", (), {"layer_idx": 0})()
    with sparse.active(attention):
        for name, given in (("block_indices", query), ("dropout", 0.1), ("head_mask", query), ("x", False)):
            with pytest.raises(AttentionError, match=f"hands over {name}, which"):
                sparse.attend(layer, query, query, query, mask, **{name: given})
        sparse.attend(layer, query, query, query, mask, output_attentions=False, sliding_window=4, x=None)


def test_a_family_that_computes_its_attention_itself_is_refused(tmp_path: Path) -> None:
    """Falcon's first generation; Falcon 3 is a Llama."""
    tiny_model.build(tmp_path)
    config = transformers.FalconConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=1, num_attention_heads=4
    )
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    adapter = HuggingFaceAdapter(ModelSpec(name=str(tmp_path)), Device(name="cpu", id="cpu:0"))
    adapter.load()
    with pytest.raises(PacelineError, match="FalconForCausalLM computes its attention itself"):
        adapter.set_attention(SparseAttentionConfig([WIDE]))
