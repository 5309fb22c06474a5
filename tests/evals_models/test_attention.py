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
from paceline.evals.attention.sampling import (  # noqa: E402
    AdaptiveSamplingMasker,
    RandomSamplingMasker,
    uniform,
)
from paceline.evals.attention.view import KeyMemory, View  # noqa: E402
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


LAYER = 3


def run(attention: sparse.SparseAttention, *inputs: Any, layer: int = LAYER, **more: Any) -> Any:
    return attention.attend(sparse.Call(layer=layer, layers=8, scaling=SCALE), *inputs, **more)


def sparse_attention(*maskers: MaskerConfig, budget: int = 1 << 30, **options: Any) -> sparse.SparseAttention:
    options = {"dense_first_layers": 0, **options}
    return sparse.SparseAttention(SparseAttentionConfig(maskers, **options), budget)


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
    chosen = best(open_pages, max(3, size_in_tokens(QUEST.heavy_size, len(seen)) // 4))
    return {index for page in chosen for index in pages[page]} - kept


def drawn(view: Any, head: int, seen: list[int], rest: list[int], count: int, seed: int) -> set[int]:
    numbers = uniform(view, seed)[0, head, len(seen) - view.shape[3] - 1]
    return set(sorted(rest, key=lambda index: float(numbers[index]))[:count])


def keep_random(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    rest = [index for index in seen if index not in kept]
    return drawn(view, head, seen, rest, max(1, int(0.3 * len(rest))), 11)


def keep_adaptive(q: Any, keys: Any, seen: list[int], kept: set[int], view: Any, head: int) -> set[int]:
    rest = [index for index in seen if index not in kept]
    terms = {i: math.exp(float(q @ keys[i]) * SCALE) for i in seen}
    first = drawn(view, head, seen, rest, max(2, int(0.2 * len(rest))), 4)
    if not first:
        return set()
    mean = sum(terms[i] for i in first) / len(first)
    spread = math.sqrt(sum((terms[i] - mean) ** 2 for i in first) / max(1, len(first) - 1))
    total = sum(terms[i] for i in kept) + len(rest) * mean
    needed = (NormalDist().inv_cdf(0.9) * spread * len(rest) / (0.4 * total)) ** 2
    return drawn(view, head, seen, rest, min(len(rest), max(len(first), math.ceil(needed))), 4)


SINK, LOCAL = SinkMaskerConfig(sink_size=0.2), LocalMaskerConfig(window_size=5)
TOP_K, TOP_P = OracleTopKConfig(heavy_size=4), OracleTopPConfig(top_p=0.6)
QUEST = QuestConfig(heavy_size=0.8, page_size=4)
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
    view = View(query=query, keys=full_key, visible=mask == 0, layer=LAYER, scaling=SCALE)
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
    attention = sparse_attention(*maskers)
    query, key, value, mask = inputs()
    found = run(attention, query, key, value, mask)
    wanted, density = slow(query, key, value, mask, rules, samples)
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)
    seen, there = attention.take_counts()[0, :2, 0].tolist()
    assert seen / there == pytest.approx(density) and density < 1


@pytest.mark.parametrize(("name", "maskers", "rules", "samples"), CASES, ids=[case[0] for case in CASES])
def test_cached_steps_and_gaps_of_padding_equal_one_shot(
    name: str, maskers: list[MaskerConfig], rules: list[Keep], samples: bool
) -> None:
    attention = sparse_attention(*maskers)
    query, key, value, mask = inputs()
    whole = run(attention, query, key, value, mask)
    memory = KeyMemory()
    for last in (5, 6, KEYS - 1, KEYS):
        parts = (
            query[:, :, last - 1 : last],
            key[:, :, :last],
            value[:, :, :last],
            mask[:, :, last - 1 : last, :last],
        )
        for remembered in (None, memory):
            step = run(attention, *parts, memory=remembered)
            torch.testing.assert_close(step[0, 0], whole[0, last - 1], atol=1e-5, rtol=1e-4)
    gap = 3
    blocked = torch.full((1, 1, KEYS, gap), torch.finfo(torch.float32).min)
    padded = (*(torch.cat([part[:, :, :7], part[:, :, :gap], part[:, :, 7:]], 2) for part in (key, value)),)
    shifted = torch.cat([mask[..., :7], blocked, mask[..., 7:]], -1)
    torch.testing.assert_close(run(attention, query, *padded, shifted), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("maskers", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_any_budget_of_memory_gives_the_same(maskers: list[MaskerConfig]) -> None:
    """Some heads and some queries at a time; what is drawn and counted hangs on neither."""
    given = inputs()
    found = []
    for budget in (1 << 30, 9 * KEYS * 40, 1):
        attention = sparse_attention(*maskers, budget=budget)
        found.append((run(attention, *given), attention.take_counts()))
    for other in found[1:]:
        torch.testing.assert_close(other[0], found[0][0], atol=1e-5, rtol=1e-4)
        assert torch.equal(other[1], found[0][1])


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
    attention = sparse_attention(HashAttentionConfig(heavy_size=4, weights=str(path)))

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

    wanted = slow(query, key, value, mask, [rule], False)[0]
    torch.testing.assert_close(run(attention, query, key, value, mask), wanted, atol=2e-5, rtol=1e-4)
    with pytest.raises(AttentionError, match=r"no layers\.0\.query"):
        run(attention, query, key, value, mask, layer=0)
    # As the authors publish them: a linear layer for each layer, head and step, and activations between.
    names = {"query": "learning_to_hash_transformation_q", "key": "learning_to_hash_transformation_k"}
    published = {}
    for name, tensor in weights.items():
        _, layer, side, step, what = name.split(".")
        for head, one in enumerate(tensor):
            key_name = f"{layer}.{names[side]}.{head}.{2 * int(step)}.{what}"
            published[key_name] = one.T.contiguous() if what == "weight" else one
    torch.save(published, tmp_path / "usa.pt")
    theirs = sparse_attention(HashAttentionConfig(heavy_size=4, weights=str(tmp_path / "usa.pt")))
    assert torch.equal(run(theirs, query, key, value, mask), run(attention, query, key, value, mask))
    other = sparse_attention(HashAttentionConfig(heavy_size=4, weights=str(path), activation="relu"))
    assert not torch.equal(run(other, query, key, value, mask), run(attention, query, key, value, mask))
    torch.save({"0.something.0.0.weight": torch.zeros(2)}, tmp_path / "other.pt")
    with pytest.raises(AttentionError, match="as HashAttention's authors"):
        sparse_attention(HashAttentionConfig(weights=str(tmp_path / "other.pt")))
    with pytest.raises(AttentionError, match="a pickle may run anything"):
        HashAttentionConfig(weights="weights.pkl")
    with pytest.raises(AttentionError, match="silu, relu"):
        HashAttentionConfig(activation="elu")


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


@pytest.mark.parametrize("maskers", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_a_model_gives_the_same_with_a_cache_and_differs_from_dense(
    model: Any, maskers: list[MaskerConfig]
) -> None:
    ids = torch.randint(2, 250, (1, 40), generator=torch.Generator().manual_seed(2))
    attention = sparse_attention(*maskers)
    whole = logits(model, ids, attention)
    torch.testing.assert_close(logits(model, ids, attention, steps=True), whole, atol=1e-3, rtol=1e-3)
    assert not torch.allclose(whole, logits(model, ids, None), atol=1e-3)


def test_it_refuses_to_run_without_a_mask_or_an_attention(model: Any) -> None:
    query, key, value, mask = inputs()
    layer = type("Layer", (), {"layer_idx": LAYER})()
    with pytest.raises(AttentionError, match="none is active"):
        sparse.attend(layer, query, key, value, mask)
    with sparse.active(sparse_attention(SinkMaskerConfig())), pytest.raises(AttentionError, match="no mask"):
        sparse.attend(layer, query, key, value, None)


def test_a_share_never_rounds_to_nothing() -> None:
    query, key, value, mask = inputs()
    for masker in (
        SinkMaskerConfig(sink_size=0.001),
        RandomSamplingConfig(sampling_rate=0.001),
        OracleTopPConfig(top_p=1e-9),
    ):
        attention = sparse_attention(masker)
        found = run(attention, query, key, value, mask)
        assert bool(torch.isfinite(found).all())
        assert attention.take_counts()[0, 0, 0] == HEADS * KEYS


def test_a_share_of_the_weight_of_one_is_every_key() -> None:
    """Also where most weights are too small for a sum of 32 bits to notice."""
    keys = 2000
    query, value = torch.ones(1, 1, 1, 1), torch.randn(1, 1, keys, 1)
    key = torch.linspace(0, 40, keys)[None, None, :, None]
    mask = torch.ones(1, 1, 1, keys, dtype=torch.bool)
    for share, kept in ((1.0, keys), (1 - 1e-9, keys // 2)):
        attention = sparse_attention(OracleTopPConfig(top_p=share))
        attention.attend(sparse.Call(layer=0, layers=1, scaling=1.0), query, key, value, mask)
        assert attention.take_counts()[0, 0, 0] == pytest.approx(kept, abs=keys * 0.02)


@pytest.mark.parametrize("candidates", [3, 8, 20, 60])
def test_adaptive_sampling_keeps_its_promise_with_few_keys(candidates: int) -> None:
    """Off by more than epsilon in at most about delta of the draws; with one key at first it was in nine of ten."""
    draws, epsilon = 400, 0.1
    query = torch.randn(1, draws, 1, SIZE, generator=torch.Generator().manual_seed(1))
    key = torch.randn(1, draws, candidates, SIZE, generator=torch.Generator().manual_seed(2))
    mask = torch.ones(1, 1, 1, candidates, dtype=torch.bool)
    view = View(query=query, keys=key, visible=mask, layer=0, scaling=SCALE)
    choice = AdaptiveSamplingMasker(AdaptiveSamplingConfig(epsilon=epsilon, delta=0.1)).choose(
        view, torch.zeros_like(mask)
    )
    terms = view.logits.exp()
    assert choice.chance is not None
    estimated = (terms * choice.keys / choice.chance).sum(-1)
    missed = (estimated / terms.sum(-1) - 1).abs() > epsilon
    assert float(missed.float().mean()) <= 0.2
    assert choice.keys.sum(-1).min() >= 2


def test_what_is_drawn_is_drawn_evenly() -> None:
    """Each key as often as any other, in any head and after any query, and pairs of keys as often as by chance."""
    keys, rate, heads = 24, 0.25, 2000
    mask = torch.ones(1, 1, 1, keys, dtype=torch.bool)
    zeros = torch.zeros(1, heads, 1, 1)
    view = View(query=zeros, keys=zeros.expand(1, heads, keys, 1), visible=mask, layer=1, scaling=1.0)
    counts, pairs = torch.zeros(keys), torch.zeros(keys, keys)
    for seed in range(5):
        masker = RandomSamplingMasker(RandomSamplingConfig(sampling_rate=rate, seed=seed))
        drawn = masker.choose(view, torch.zeros_like(mask)).keys[0, :, 0].float()
        assert set(drawn.sum(-1).tolist()) == {keys * rate}
        counts += drawn.sum(0)
        pairs += drawn.T @ drawn
    total = 5 * heads
    expected = total * rate
    # Draws without putting back: the variance of a count is that of a binomial, and counts add up to a constant.
    chi2 = float((((counts - expected) ** 2) / (expected * (1 - rate))).sum()) * (keys - 1) / keys
    assert chi2 < 49.7, "one in a thousand at 23 degrees of freedom"
    together = pairs[~torch.eye(keys, dtype=torch.bool)]
    chance = rate * (keys * rate - 1) / (keys - 1)
    spread = (together - total * chance) / (total * chance * (1 - chance)) ** 0.5
    assert float(spread.abs().max()) < 5 and 0.8 < float(spread.var()) < 1.2
    numbers = uniform(view, 7).flatten().sort().values
    steps = torch.arange(1, numbers.numel() + 1) / numbers.numel()
    assert float((numbers - steps).abs().max()) < 1.95 / numbers.numel() ** 0.5, (
        "Kolmogorov-Smirnov, one in a thousand"
    )


def test_layers_may_stay_dense_and_errors_are_measured() -> None:
    query, key, value, mask = inputs()
    attention = sparse_attention(LOCAL, dense_first_layers=2, dense_last_layers=1, measure_error=True)
    dense = run(sparse_attention(StreamingConfig(window_size=10**6)), query, key, value, mask)
    for layer in (0, 1, 7):
        assert torch.equal(run(attention, query, key, value, mask, layer=layer), dense)
    found = run(attention, query, key, value, mask, layer=2)
    counts = attention.take_counts()[:, :, 0]
    assert counts[:, 0].tolist() == [HEADS * KEYS * (KEYS + 1) / 2] * 2 + [counts[2, 0], counts[0, 0]]
    wanted = float((found - dense).norm() / dense.norm())
    torch.testing.assert_close(
        counts[:, 2].float(), torch.tensor([0.0, 0.0, wanted, 0.0]), atol=1e-6, rtol=1e-5
    )
    assert (
        SparseAttentionConfig([QUEST]).dense_first_layers == 2
        and SparseAttentionConfig([LOCAL]).prefill == "dense"
    )
    with pytest.raises(AttentionError, match="dense_last_layers"):
        attention.attend(sparse.Call(layer=2, layers=None, scaling=SCALE), query, key, value, mask)
