"""Two models under four attentions on four tasks: 32 stubs, and a comparison. `python examples/evals/advanced.py`.

Needs torch and transformers, no GPU and no network: the models are built here and answer nonsense.
"""

import argparse
from pathlib import Path

from tiny_models import tiny_models

from paceline.evals import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    HashAttentionConfig,
    LocalMaskerConfig,
    SinkMaskerConfig,
    SparseAttentionConfig,
    StreamingConfig,
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu-ids", nargs="+", default=["cpu", "cpu"], help="0 1 2 3 for four GPUs")
    parser.add_argument("--max-concurrent-runs", type=int, default=2, help="workers over all devices")
    parser.add_argument("--base-result-dir", default="experiments/sparse_attention_comparison")
    parser.add_argument("--models", type=Path, default=Path("tiny_models"), help="where models are built")
    parser.add_argument(
        "--heavy-size", type=float, default=0.1, help="share of keys that hash attention takes"
    )
    options = parser.parse_args()

    executor = BenchmarkExecutor(
        gpu_ids=options.gpu_ids,
        max_concurrent_runs=options.max_concurrent_runs,
        base_result_dir=options.base_result_dir,
    )
    sink, local = SinkMaskerConfig(sink_size=4), LocalMaskerConfig(window_size=64)
    hashed = HashAttentionConfig(heavy_size=options.heavy_size)
    results = executor.run_benchmark_matrix(
        model_names=tiny_models(options.models),
        sparse_attention_configs=[
            ("dense", None),
            ("streaming", StreamingConfig(sink_size=4, window_size=32)),
            ("hash_attention", SparseAttentionConfig([sink, local, hashed])),
            ("sink_local", SparseAttentionConfig([sink, local])),
        ],
        benchmark_configs=[
            BenchmarkConfig("longbench", ["narrativeqa", "qasper", "hotpotqa"]),
            BenchmarkConfig("mock_benchmark"),
        ],
        adapter_config=AdapterConfig(
            model_kwargs={"torch_dtype": "bfloat16"},  # or torch.bfloat16
            tokenizer_kwargs={"padding_side": "left"},
        ),
        generation_kwargs={"max_new_tokens": 8},
    )
    print(results.to_dataframe()[["attention", "benchmark", "subset", "state", "score", "density"]])
    for point in results.compare(baseline="dense").pareto:
        print(
            Path(point.model).name,
            point.attention,
            f"quality {point.quality:.3f}, density {point.density:.3f}",
        )
    summary = results.execution_summary
    counts = ", ".join(f"{summary[name]} {name}" for name in ("completed", "skipped", "failed", "cancelled"))
    print(f"{summary['total']} stubs: {counts}")
    raise SystemExit(0 if results.ok else 1)


if __name__ == "__main__":
    main()
