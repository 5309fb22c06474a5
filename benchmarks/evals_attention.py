"""What sparse attentions cost beside the dense one: `python benchmarks/evals_attention.py [--lengths 1024 65536]`.

* Time: a token decoded after so many keys, dense and sparse in turn on the same weights and keys (32 heads, 8 of keys,
  128 numbers each, as in models of 8 billion weights; two layers), as a ratio to dense.
* Memory: a question about a context of so many tokens, in a process of its own for each attention; the most it took
  over what libraries had before, beside what the pool plans with.

Needs torch and transformers, no GPU, no network. Exits with 1 if a peak is over 1.3 times its estimate.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from figures import is_recorded, make_parser, publish

MOST_OVER_ESTIMATE = 1.3
STEPS = 8


def attentions(keys: int) -> dict[str, Any]:
    """Each method at two densities where it has one; the first layers are sparse here, since all are to be timed."""
    from paceline.evals import (
        HashAttentionConfig,
        OracleTopKConfig,
        OracleTopPConfig,
        QuestConfig,
        RandomSamplingConfig,
        SparseAttentionConfig,
        StreamingConfig,
    )

    found: dict[str, Any] = {"dense": None}
    for share in (0.02, 0.1):
        size = max(64, int(keys * share))
        maskers = {
            "streaming": StreamingConfig(sink_size=4, window_size=size),
            "quest": QuestConfig(heavy_size=size, page_size=16),
            "hash_attention": HashAttentionConfig(heavy_size=size, bits=32),
            "oracle_top_k": OracleTopKConfig(heavy_size=size),
            "random_sampling": RandomSamplingConfig(sampling_rate=share),
        }
        for name, masker in maskers.items():
            found[f"{name} {share:g}"] = SparseAttentionConfig([masker], dense_first_layers=0)
    found["oracle_top_p 0.5"] = SparseAttentionConfig([OracleTopPConfig(top_p=0.5)])
    return found


def build(directory: Path, **sizes: int) -> None:
    """A Llama of random weights that reads bytes."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import evals_models

    evals_models.build(directory)
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=257, max_position_embeddings=1 << 18, eos_token_id=256, **sizes)
    LlamaForCausalLM(config).save_pretrained(directory)


def load(model: Path) -> Any:
    from paceline.evals.adapters.huggingface import HuggingFaceAdapter
    from paceline.evals.interfaces import Device, ModelSpec

    adapter = HuggingFaceAdapter(ModelSpec(name=str(model)), Device(name="cpu", id="cpu:0"))
    adapter.load()
    return adapter


def measure_steps(model: Path, keys: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Milliseconds a token and the measured density, by attention; keys and values are random."""
    import torch

    from paceline.evals.adapters.reading import Reading, new_cache

    adapter = load(model)
    config = adapter._model.config
    cache = new_cache(config, keys + 2 * STEPS)
    shape = (1, config.num_key_value_heads, keys, config.head_dim)
    for layer in cache.layers:
        layer.update(torch.randn(shape), torch.randn(shape))
    reading = Reading(cache=cache, mask=torch.ones(1, keys, dtype=torch.long))
    token = torch.tensor([[7]])
    times: dict[str, list[float]] = {}
    densities = {}
    for _ in range(rounds):
        for name, attention in attentions(keys).items():
            adapter.set_attention(attention)
            with adapter._computing(), reading.borrowed([0]) as own:
                adapter._forward(token, own)
                started = time.perf_counter()
                for _ in range(STEPS):
                    adapter._forward(token, own)
                times.setdefault(name, []).append((time.perf_counter() - started) / STEPS)
            looked, there = adapter._take_counts(1).sum(0)[:2, 0].tolist()
            densities[name] = looked / there if there else 1.0
    return {name: (1000 * median(found), densities[name]) for name, found in times.items()}


def measure_memory(model: Path, keys: int, name: str) -> dict[str, float]:
    """In this process: what a question about a context of so many tokens took at most, and what was expected."""
    import torch

    from paceline.evals.interfaces import GenerationSpec, ModelSpec, Sample, group_by_context

    torch.set_num_threads(1)
    attention = attentions(keys)[name]
    request = {"max_context_length": keys}
    spec = GenerationSpec(
        generation_kwargs={"max_new_tokens": 4}, request_kwargs=request, attention=attention
    )
    adapter = load(model)
    adapter.set_attention(attention)
    ask = "What is said about it? " * 10
    list(adapter.generate(group_by_context([Sample(id="0", context="short", question=ask)]), spec))
    # What libraries take when they are first used is not the model's, its weights are.
    before = _resident() - sum(path.stat().st_size for path in model.glob("*.safetensors"))
    adapter.end_stub()
    list(adapter.generate(group_by_context([Sample(id="1", context="x" * keys, question=ask)]), spec))
    expected = adapter.estimate_memory_bytes(ModelSpec(name=str(model)), spec)
    return {"peak": adapter.peak_memory_bytes() - before, "expected": expected}


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise SystemExit("no /proc here")


def in_child(model: Path, keys: int, name: str) -> dict[str, float]:
    words = ["--child", str(model), str(keys), name]
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure_memory(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
        return 0
    parser = make_parser(__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 8192, 65536])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["time", "memory"])
    parser.add_argument(
        "--attentions", nargs="+", metavar="NAME", help="those to measure the memory of; else all"
    )
    options = parser.parse_args()
    figures: dict[str, tuple[float, str]] = {}
    worst = 0.0
    with tempfile.TemporaryDirectory() as place:
        large, small = Path(place, "large"), Path(place, "small")
        shape = {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 2}
        build(large, hidden_size=256, intermediate_size=256, **shape)
        shape = {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, "num_hidden_layers": 2}
        build(small, hidden_size=128, intermediate_size=256, **shape)
        for keys in options.lengths if options.only != "memory" else ():
            found = measure_steps(large, keys, options.rounds)
            dense = found["dense"][0]
            for name, (step_ms, density) in found.items():
                print(
                    f"time {keys:>6} {name:<22} density {density:.3f} {step_ms:8.2f} ms {dense / step_ms:6.2f}×",
                    flush=True,
                )
                figures[f"{name.replace(' ', '_')}_{keys}_speedup"] = (dense / step_ms, "x")
        for keys in options.lengths if options.only != "time" else ():
            for name in options.attentions or attentions(keys):
                memory = in_child(small, keys, name)
                ratio = memory["peak"] / memory["expected"]
                worst = max(worst, ratio)
                mib = {key: value / (1 << 20) for key, value in memory.items()}
                print(
                    f"memory {keys:>6} {name:<22} {mib['peak']:7.0f} of {mib['expected']:7.0f} MiB {ratio:.2f}",
                    flush=True,
                )
    figures["memory_over_estimate"] = (worst, "x")
    publish(options, figures, num_lengths=len(options.lengths))
    return 0 if worst <= MOST_OVER_ESTIMATE or is_recorded(options) else 1


if __name__ == "__main__":
    sys.exit(main())
