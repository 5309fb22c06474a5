"""Evals with a model of a million random weights: attentions × benchmarks on workers of this machine, offline.

    python benchmarks/data/make_model.py --output model
    python benchmarks/evals_tiny.py --benchmark-results-path out --model model --lengths 512

What such a model answers is nonsense: the time of the stubs counts, not their scores. Needs torch and transformers, no
GPU and no network.
"""

import argparse
import os
import sys
from pathlib import Path
from time import perf_counter

from paceline import emit
from paceline.evals import AdapterConfig, BenchmarkConfig, BenchmarkExecutor, StreamingConfig
from paceline.evals.results import ExecutionResults

ATTENTIONS = {"dense": None, "streaming": StreamingConfig(sink_size=4, window_size=64)}
TASKS = ["niah_single_1", "vt"]


def main() -> int:
    args = parse_args()
    # A model of this size gains nothing by threads, and its answers must not hang on their number.
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    emit.params({"lengths": args.lengths, "samples": args.samples, "workers": args.workers})
    started = perf_counter()
    summary = run(args).execution_summary
    seconds = perf_counter() - started
    emit.metrics(
        {
            "is_success": summary["completed"] == summary["total"],
            "time_taken_s": seconds,
            "num_stubs": summary["total"],
            "num_completed": summary["completed"],
            "throughput_stubs_per_sec": summary["completed"] / seconds,
        }
    )
    for failure in summary["failures"]:
        print(failure, file=sys.stderr)
    return 0 if summary["completed"] == summary["total"] else 1


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("--benchmark-results-path", type=Path, required=True, help="directory for the result files")
    add("--model", type=Path, required=True, help="a directory that make_model.py made")
    add("--lengths", type=int, nargs="*", default=[], help="also tasks of RULER, of this many tokens")
    add("--samples", type=int, default=4, help="samples of each stub of RULER")
    add("--workers", type=int, default=1)
    return parser.parse_args()


def run(args: argparse.Namespace) -> ExecutionResults:
    """Every attention on every benchmark; results of an earlier run are not used."""
    benchmarks = [BenchmarkConfig("mock_benchmark")]
    for length in args.lengths:
        benchmarks.append(
            BenchmarkConfig("ruler", subsets=TASKS, params={"length": length, "samples": args.samples})
        )
    executor = BenchmarkExecutor(["cpu"] * args.workers, args.workers, Path(emit.results_path()) / "evals")
    return executor.run_benchmark_matrix(
        [str(args.model.absolute())],
        list(ATTENTIONS.items()),
        benchmarks,
        AdapterConfig("huggingface"),
        generation_kwargs={"max_new_tokens": 8},
    )


if __name__ == "__main__":
    sys.exit(main())
