"""Two models, dense and streaming, on three tasks: 12 stubs. `python examples/evals/basic.py`, and once more.

The second time everything is found and nothing is done again. `--window 16` changes one attention, so that its six
stubs run, beside the old ones. Needs torch and transformers, no GPU and no network.
"""

import argparse
from pathlib import Path

from tiny_models import tiny_models

from paceline.evals import AdapterConfig, BenchmarkConfig, BenchmarkExecutor, StreamingConfig


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu-ids", nargs="+", default=["cpu", "cpu"], help="0 1 for two GPUs")
    parser.add_argument("--max-concurrent-runs", type=int, default=2, help="workers over all devices")
    parser.add_argument("--base-result-dir", default="my_benchmark_results")
    parser.add_argument("--models", type=Path, default=Path("tiny_models"), help="where models are built")
    parser.add_argument(
        "--window", type=int, default=64, help="tokens that the streaming attention looks back"
    )
    options = parser.parse_args()

    executor = BenchmarkExecutor(
        gpu_ids=options.gpu_ids,
        max_concurrent_runs=options.max_concurrent_runs,
        base_result_dir=options.base_result_dir,
    )
    streaming_config = StreamingConfig(sink_size=4, window_size=options.window)
    results = executor.run_benchmark_matrix(
        model_names=tiny_models(options.models),
        sparse_attention_configs=[
            ("dense", None),
            ("streaming", streaming_config),
        ],
        benchmark_configs=[
            BenchmarkConfig("longbench", ["narrativeqa", "qasper"]),
            BenchmarkConfig("mock_benchmark"),
        ],
        adapter_config=AdapterConfig(model_kwargs={"torch_dtype": "bfloat16"}),  # or torch.bfloat16
        generation_kwargs={"max_new_tokens": 8},
    )
    for result in results.individual_results:
        print(
            result.state, Path(result.stub.model_name).name, result.stub.sparse_config_name, result.stub.task
        )
    summary = results.execution_summary
    counts = ", ".join(f"{summary[name]} {name}" for name in ("completed", "skipped", "failed", "cancelled"))
    print(f"{summary['total']} stubs: {counts}")
    raise SystemExit(0 if results.ok else 1)


if __name__ == "__main__":
    main()
