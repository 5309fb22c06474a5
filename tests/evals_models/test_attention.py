"""Each sparse attention against a slow reading of its definition, and all of them in a model."""

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="attentions are computed with torch")
pytest.importorskip("transformers", reason="models come from transformers")

from evals_models.tiny_model import build  # noqa: E402
from paceline.evals import (  # noqa: E402
    AdaptiveSamplingConfig,
    HashAttentionConfig,
    LocalMaskerConfig,
    MaskerConfig,
    OracleTopKConfig,
    OracleTopPConfig,
    QuestConfig,
    RandomSamplingConfig,
    SinkMaskerConfig,
    SparseAttentionConfig,
    StreamingConfig,
)
from paceline.evals.attention import sparse  # noqa: E402
from paceline.evals.attention.maskers import View  # noqa: E402
from paceline.evals.attention.sampling import uniform  # noqa: E402
from paceline.evals.attention_config import AttentionError, size_in_tokens  # noqa: E402

HEADS, KV_HEADS, SIZE, KEYS = 4, 2, 8, 23
SCALE = SIZE**-0.5
Keep = Callable[[Any, Any, list[int], set[int], Any, int], "set[int]"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Layer:
    layer_idx = 3


def inputs(queries: int = KEYS, batch: int = 1) -> tuple[Any, Any, Any, Any]:
    generator = torch.Generator().manual_seed(5)
    query = torch.randn(batch, HEADS, queries, SIZE, generator=generator)
    key = torch.randn(batch, KV_HEADS, KEYS, SIZE, generator=generator)
    value = torch.randn(batch, KV_HEADS, KEYS, SIZE, generator=generator)
    places = torch.arange(KEYS - queries, KEYS)[:, None]
    causal = torch.arange(KEYS)[None] <= places
    mask = torch.where(causal, 0.0, torch.finfo(torch.float32).min).expand(batch, 1, queries, KEYS)
    return query, key, value, mask


def keep_sink(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    return set(seen[: size_in_tokens(0.2, len(seen))])


def keep_local(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    return set(seen[-size_in_tokens(5, len(seen)) :])


def keep_streaming(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    return set(seen[:2]) | set(seen[-3:])


def best(scores: dict[int, float], count: int) -> set[int]:
    return set(sorted(scores, key=lambda index: (-scores[index], index))[:count])


def keep_top_k(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    return best({i: float(q @ keys[i]) for i in seen if i not in kept}, size_in_tokens(4, len(seen)))


def keep_top_p(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    weights = {i: math.exp(float(q @ keys[i]) * SCALE) for i in seen if i not in kept}
    chosen: set[int] = set()
    for index in sorted(weights, key=lambda i: -weights[i]):
        if sum(weights[i] for i in chosen) >= 0.6 * sum(weights.values()):
            break
        chosen.add(index)
    return chosen


def keep_hash(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    projection = torch.randn(SIZE, 16, generator=torch.Generator().manual_seed(9 * 1_000_003 + 3))
    bits = lambda vector: (vector @ projection > 0).tolist()  # noqa: E731
    asked = bits(q)
    agree = {
        i: float(sum(a == b for a, b in zip(asked, bits(keys[i]), strict=True)))
        for i in seen
        if i not in kept
    }
    return best(agree, size_in_tokens(4, len(seen)))


def keep_quest(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    pages = {page: list(members) for page, members in itertools.groupby(seen, key=lambda index: index // 4)}
    bounds = {}
    for page, members in pages.items():
        block = torch.stack([keys[index] for index in members])
        low, high = block.min(0).values, block.max(0).values
        bounds[page] = sum(max(float(c * a), float(c * b)) for c, a, b in zip(q, low, high, strict=True))
    open_pages = {page: bound for page, bound in bounds.items() if set(pages[page]) - kept}
    chosen = best(open_pages, math.ceil(size_in_tokens(7, len(seen)) / 4))
    return {index for page in chosen for index in pages[page]} - kept


def drawn(view: Any, head: int, seen: list[int], rest: list[int], count: int, seed: int) -> set[int]:
    numbers = uniform(view, seed)[0, head, len(seen) - view.logits.shape[3] - 1]
    return set(sorted(rest, key=lambda index: float(numbers[index]))[:count])


def keep_random(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    rest = [index for index in seen if index not in kept]
    return drawn(view, head, seen, rest, math.ceil(0.3 * len(rest)), 11)


def keep_adaptive(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    rest = [index for index in seen if index not in kept]
    terms = {i: math.exp(float(q @ keys[i]) * SCALE) for i in seen}
    first = drawn(view, head, seen, rest, math.ceil(0.2 * len(rest)), 4)
    if not first:
        return set()
    mean = sum(terms[i] for i in first) / len(first)
    spread = math.sqrt(sum((terms[i] - mean) ** 2 for i in first) / len(first))
    total = sum(terms[i] for i in kept) + len(rest) * mean
    needed = (NormalDist().inv_cdf(0.9) * spread * len(rest) / (0.4 * total)) ** 2
    return drawn(view, head, seen, rest, min(len(rest), max(len(first), math.ceil(needed))), 4)


SINK, LOCAL = SinkMaskerConfig(sink_size=0.2), LocalMaskerConfig(window_size=5)
TOP_K, TOP_P = OracleTopKConfig(heavy_size=4), OracleTopPConfig(top_p=0.6)
QUEST = QuestConfig(heavy_size=7, page_size=4)
RANDOM = RandomSamplingConfig(sampling_rate=0.3, seed=11)
ADAPTIVE = AdaptiveSamplingConfig(base_sampling_rate=0.2, epsilon=0.4, delta=0.2, seed=4)
CASES: list[tuple[str, list[MaskerConfig], list[Keep], bool]] = [
    ("sink", [SINK], [keep_sink], False),
    ("local", [LOCAL], [keep_local], False),
    ("streaming", [StreamingConfig(sink_size=2, window_size=3)], [keep_streaming], False),
    ("sink+local", [SINK, LOCAL], [keep_sink, keep_local], False),
    ("top_k", [TOP_K], [keep_top_k], False),
    ("local+top_k", [LOCAL, TOP_K], [keep_local, keep_top_k], False),
    ("top_p", [TOP_P], [keep_top_p], False),
    ("sink+top_p", [SINK, TOP_P], [keep_sink, keep_top_p], False),
    ("hash", [HashAttentionConfig(heavy_size=4, bits=16, seed=9)], [keep_hash], False),
    ("quest", [QUEST], [keep_quest], False),
    ("local+quest", [LOCAL, QUEST], [keep_local, keep_quest], False),
    ("random", [SINK, RANDOM], [keep_sink, keep_random], True),
    ("random alone", [RANDOM], [keep_random], True),
    ("adaptive", [LOCAL, ADAPTIVE], [keep_local, keep_adaptive], True),
]


def slow(query: Any, key: Any, value: Any, mask: Any, rules: list[Keep], samples: bool) -> tuple[Any, float]:
    """One query of one head after the other, in Python's own arithmetic of sets."""
    queries = query.shape[2]
    out = torch.zeros(1, queries, HEADS, SIZE)
    looked = there = 0
    full_key = key.repeat_interleave(HEADS // KV_HEADS, dim=1)
    view = View(query=query, key=full_key, logits=query @ full_key.mT * SCALE, visible=mask == 0, layer=3)
    for head, row in itertools.product(range(HEADS), range(queries)):
        keys, values = key[0, head // 2], value[0, head // 2]
        seen = list(range(KEYS - queries + row + 1))
        kept: set[int] = set()
        extra: set[int] = set()
        for number, rule in enumerate(rules):
            extra = rule(query[0, head, row], keys, seen, kept, view, head) - kept
            if not (samples and number == len(rules) - 1):
                kept |= extra
        left = len(seen) - len(kept)
        weights = {index: math.exp(float(query[0, head, row] @ keys[index]) * SCALE) for index in kept}
        if samples:
            weights |= {
                i: math.exp(float(query[0, head, row] @ keys[i]) * SCALE) * left / len(extra) for i in extra
            }
        looked, there = looked + len(weights), there + len(seen)
        for index, weight in weights.items():
            out[0, row, head] += weight / sum(weights.values()) * values[index]
    return out, looked / there


@pytest.mark.parametrize(("name", "maskers", "rules", "samples"), CASES, ids=[case[0] for case in CASES])
def test_an_attention_does_what_its_definition_says(
    name: str, maskers: list[MaskerConfig], rules: list[Keep], samples: bool
) -> None:
    attention = sparse.SparseAttention(SparseAttentionConfig(maskers))
    query, key, value, mask = inputs()
    found, _ = attention.attend(Layer(), query, key, value, mask, SCALE)
    wanted, density = slow(query, key, value, mask, rules, samples)
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)
    seen, there = attention.take_counts()[:, 0].tolist()
    assert seen / there == pytest.approx(density) and density < 1


@pytest.mark.parametrize(("name", "maskers", "rules", "samples"), CASES, ids=[case[0] for case in CASES])
def test_cached_steps_and_gaps_of_padding_equal_one_shot(
    name: str, maskers: list[MaskerConfig], rules: list[Keep], samples: bool
) -> None:
    attention = sparse.SparseAttention(SparseAttentionConfig(maskers))
    query, key, value, mask = inputs()
    whole, _ = attention.attend(Layer(), query, key, value, mask, SCALE)
    for last in (5, KEYS):
        parts = (
            query[:, :, last - 1 : last],
            key[:, :, :last],
            value[:, :, :last],
            mask[:, :, last - 1 : last, :last],
        )
        step, _ = attention.attend(Layer(), *parts, SCALE)
        torch.testing.assert_close(step[0, 0], whole[0, last - 1], atol=1e-5, rtol=1e-4)
    gap = 3
    blocked = torch.full((1, 1, KEYS, gap), torch.finfo(torch.float32).min)
    padded = (*(torch.cat([part[:, :, :7], part[:, :, :gap], part[:, :, 7:]], 2) for part in (key, value)),)
    shifted = torch.cat([mask[..., :7], blocked, mask[..., 7:]], -1)
    gapped, _ = attention.attend(Layer(), query, *padded, shifted, SCALE)
    torch.testing.assert_close(gapped, whole, atol=1e-5, rtol=1e-4)


def test_learned_signatures_come_from_a_file(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(1)
    sizes = ((SIZE, 12), (12, 6))
    weights = {}
    for side, (step, (rows, columns)) in itertools.product(("query", "key"), enumerate(sizes)):
        weights[f"layers.3.{side}.{step}.weight"] = torch.randn(HEADS, rows, columns, generator=generator)
        weights[f"layers.3.{side}.{step}.bias"] = torch.randn(HEADS, columns, generator=generator)
    path = tmp_path / "hash.safetensors"
    save_file(weights, path)
    query, key, value, mask = inputs()
    config = SparseAttentionConfig([HashAttentionConfig(heavy_size=4, weights=str(path))])

    def rule(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
        def bits(vector: Any, side: str) -> list[bool]:
            for step in range(2):
                name = f"layers.3.{side}.{step}"
                vector = vector * torch.sigmoid(vector) if step else vector
                vector = vector @ weights[f"{name}.weight"][head] + weights[f"{name}.bias"][head]
            return [bool(value > 0) for value in vector]

        asked = bits(q, "query")
        agree = {
            i: float(sum(a == b for a, b in zip(asked, bits(keys[i], "key"), strict=True))) for i in seen
        }
        return best(agree, size_in_tokens(4, len(seen)))

    found, _ = sparse.SparseAttention(config).attend(Layer(), query, key, value, mask, SCALE)
    torch.testing.assert_close(found, slow(query, key, value, mask, [rule], False)[0], atol=2e-5, rtol=1e-4)

    class Elsewhere(Layer):
        layer_idx = 0

    with pytest.raises(AttentionError, match=r"no layers\.0\.query"):
        sparse.SparseAttention(config).attend(Elsewhere(), query, key, value, mask, SCALE)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    directory = build(tmp_path_factory.mktemp("attention"))
    sparse.register()
    return AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def logits(model: Any, ids: Any, attention: sparse.SparseAttention | None, *, steps: bool = False) -> Any:
    model.set_attn_implementation("eager" if attention is None else sparse.NAME)
    with torch.inference_mode(), sparse.active(attention) if attention else torch.inference_mode():
        if not steps:
            return model(ids).logits
        cache, parts = None, []
        for index in range(ids.shape[1]):
            out = model(ids[:, index : index + 1], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            parts.append(out.logits)
        return torch.cat(parts, 1)


def test_streaming_with_an_unlimited_window_is_eager_attention_bit_for_bit(model: Any) -> None:
    ids = torch.randint(2, 250, (2, 40), generator=torch.Generator().manual_seed(2))
    wide = sparse.SparseAttention(SparseAttentionConfig([StreamingConfig(sink_size=1, window_size=10**9)]))
    assert torch.equal(logits(model, ids, wide), logits(model, ids, None))
    seen, there = wide.take_counts().sum(1).tolist()
    assert seen == there > 0


@pytest.mark.parametrize("maskers", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_a_model_gives_the_same_with_a_cache_and_differs_from_dense(
    model: Any, maskers: list[MaskerConfig]
) -> None:
    ids = torch.randint(2, 250, (1, 40), generator=torch.Generator().manual_seed(2))
    attention = sparse.SparseAttention(SparseAttentionConfig(maskers))
    whole = logits(model, ids, attention)
    torch.testing.assert_close(logits(model, ids, attention, steps=True), whole, atol=1e-3, rtol=1e-3)
    assert not torch.allclose(whole, logits(model, ids, None), atol=1e-3)


def test_it_refuses_to_run_without_a_mask_or_an_attention(model: Any) -> None:
    query, key, value, mask = inputs()
    with pytest.raises(AttentionError, match="none is active"):
        sparse.attend(Layer(), query, key, value, mask)
    attention = sparse.SparseAttention(SparseAttentionConfig([SinkMaskerConfig()]))
    with sparse.active(attention), pytest.raises(AttentionError, match="no mask"):
        sparse.attend(Layer(), query, key, value, None)


def test_a_share_never_rounds_to_nothing() -> None:
    query, key, value, mask = inputs()
    for masker in (
        SinkMaskerConfig(sink_size=0.001),
        RandomSamplingConfig(sampling_rate=0.001),
        OracleTopPConfig(top_p=1e-9),
    ):
        attention = sparse.SparseAttention(SparseAttentionConfig([masker]))
        found, _ = attention.attend(Layer(), query, key, value, mask, SCALE)
        assert bool(torch.isfinite(found).all())
        assert attention.take_counts()[0, 0] == HEADS * KEYS
