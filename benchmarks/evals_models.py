"""What one load and one reading serve: `python benchmarks/evals_models.py [--tokens 2000] [--rounds 3]`.

* 4 attentions × 6 subsets of a small model built here with random weights, in one worker: the time of it all, over
  what generating, one import and one load take.
* Eight short questions about one context of at least so many tokens, on one CPU thread: each on its own, over all
  together. The answers must be the same.

Needs torch and transformers, no GPU, no network. Exits with 1 if a target is missed; `evals_executor.py --models` has
these figures in its table.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from figures import is_recorded, make_parser, publish

MOST_MATRIX_RATIO = 1.25
LEAST_SPEEDUP = 3.0
QUESTIONS = 8
SUBSETS = ("niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "vt", "fwe")
RULER = {"length": 512, "samples": 4, "seed": 0}


def build(directory: Path) -> None:
    """A Llama of a million random weights that reads bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab={**alphabet, "</s>": len(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(directory)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(alphabet) + 1,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=1 << 15,
        eos_token_id=len(alphabet),
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(directory)


def measure_matrix(model: Path, base: Path) -> tuple[float, int]:
    """4 attentions × 6 subsets in one worker: its time over generating, importing and loading; how often it loaded."""
    from paceline.evals import (
        AdapterConfig,
        BenchmarkConfig,
        BenchmarkExecutor,
        OracleTopKConfig,
        QuestConfig,
        StreamingConfig,
    )

    loads: list[float] = []
    executor = BenchmarkExecutor(
        ["cpu"], 1, base, on_record=lambda record: loads.append(record.timings_s["load"])
    )
    started = time.perf_counter()
    results = executor.run_benchmark_matrix(
        [str(model)],
        [
            ("dense", None),
            ("streaming", StreamingConfig(sink_size=4, window_size=64)),
            ("top_k", OracleTopKConfig(heavy_size=0.1)),
            ("quest", QuestConfig(heavy_size=0.1, page_size=16)),
        ],
        [BenchmarkConfig("ruler", list(SUBSETS), params=RULER)],
        AdapterConfig("huggingface"),
        generation_kwargs={"max_new_tokens": 32},
    )
    wall_s = time.perf_counter() - started
    assert results.execution_summary["completed"] == 4 * len(SUBSETS), results.execution_summary["failures"]
    generated_s = sum(float(result.facts["generate_s"]) for result in results.individual_results)
    print(
        f"  matrix: {wall_s:.1f} s in all, {generated_s:.1f} s generating, {sum(loads):.1f} s importing and loading",
        flush=True,
    )
    return wall_s / (generated_s + sum(loads)), sum(load > 0 for load in loads)


def measure_prefill(model: Path, tokens: int, rounds: int) -> dict[str, float]:
    """How much faster eight questions on one context are together than each by itself, by attention."""
    from paceline.evals import StreamingConfig
    from paceline.evals.adapters.huggingface import HuggingFaceAdapter
    from paceline.evals.attention_config import as_attention
    from paceline.evals.interfaces import Device, ModelSpec, Sample

    context = "The mill stands at the river, and its wheel has twelve blades. " * (tokens // 60 + 1)
    samples = [
        Sample(id=str(number), context=context, question=f" Question {number}?", max_new_tokens=4)
        for number in range(QUESTIONS)
    ]
    adapter = HuggingFaceAdapter(ModelSpec(name=str(model)), Device(name="cpu", id="cpu:0"))
    adapter.load()
    found = {}
    for name, attention in (("dense", None), ("streaming", StreamingConfig(sink_size=4, window_size=64))):
        adapter.set_attention(as_attention(attention))
        _ask(adapter, [samples[:1]])
        ratios = []
        for _ in range(rounds):
            together_s, said_together = _ask(adapter, [samples])
            apart_s, said_apart = _ask(adapter, [[sample] for sample in samples])
            assert said_together == said_apart, f"{name}: the answers differ"
            ratios.append(apart_s / together_s)
        found[name] = median(ratios)
        print(f"  prefill, {name}, {len(context)} tokens: {found[name]:.1f}×", flush=True)
    adapter.close()
    return found


def _ask(adapter: Any, parts: Sequence[Sequence[Any]]) -> tuple[float, dict[str, str]]:
    from paceline.evals.interfaces import GenerationSpec, group_by_context

    started = time.perf_counter()
    found = {
        prediction.sample_id: prediction.text
        for part in parts
        for prediction in adapter.generate(group_by_context(part), GenerationSpec())
    }
    return time.perf_counter() - started, found


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        model = Path(name, "model")
        build(model)
        ratio, loads = measure_matrix(model, Path(name, "results"))
        speedups = measure_prefill(model, options.tokens, options.rounds)
    figures = {f"{name}_speedup": (speedup, "x") for name, speedup in speedups.items()}
    figures["matrix_ratio"] = (ratio, "x")
    publish(
        options, figures, num_questions=QUESTIONS, num_attentions_alike=len(speedups), num_model_loads=loads
    )
    met = ratio <= MOST_MATRIX_RATIO and loads == 1 and min(speedups.values()) >= LEAST_SPEEDUP
    return 0 if met or is_recorded(options) else 1


if __name__ == "__main__":
    sys.exit(main())
