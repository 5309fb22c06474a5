"""Counts the words of documents in tasks of the entry's own Ray cluster, which RAY_ADDRESS names."""

import argparse
import json
from pathlib import Path

import ray
from result_files import write_benchmark_results


@ray.remote
def count_words(file: str) -> int:
    return sum(len(json.loads(line)["text"].split()) for line in Path(file).read_text().splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    parser.add_argument("--input-path", type=Path, required=True)
    args = parser.parse_args()
    ray.init(log_to_driver=False)
    files = sorted(args.input_path.glob("*.jsonl"))
    counts = ray.get([count_words.remote(str(file)) for file in files])
    metrics = {"is_success": True, "num_words": sum(counts), "num_cpus": ray.cluster_resources()["CPU"]}
    write_benchmark_results(
        {"params": vars(args), "metrics": metrics, "tasks": []}, args.benchmark_results_path
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
