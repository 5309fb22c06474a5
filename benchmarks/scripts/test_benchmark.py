"""A small benchmark with real work: counts words in documents that it makes up.

    python test_benchmark.py --benchmark-results-path /tmp/results --iterations 100

It is the demonstration of how a script is written, and a quick check that a machine can run benchmarks at all.
"""

import argparse
import json
import random
import time
from collections import Counter
from pathlib import Path

from paceline import emit

DOCUMENTS_AN_ITERATION = 20
VOCABULARY = [f"word{number}" for number in range(500)]


def make_documents(seed: int) -> list[str]:
    """Documents as lines of JSON, the same for the same seed."""
    chooser = random.Random(seed)
    texts = (
        " ".join(chooser.choices(VOCABULARY, k=chooser.randint(50, 150)))
        for _ in range(DOCUMENTS_AN_ITERATION)
    )
    return [json.dumps({"id": number, "text": text}) for number, text in enumerate(texts)]


def count_words(lines: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(json.loads(line)["text"].split())
    return counts


def run(iterations: int) -> dict[str, object]:
    """Do the work and return the metrics."""
    started = time.perf_counter()
    total: Counter[str] = Counter()
    num_bytes = 0
    for iteration in range(iterations):
        with emit.task("data_loading", items=DOCUMENTS_AN_ITERATION) as loading:
            lines = make_documents(iteration)
            loading.bytes = sum(map(len, lines))
        with emit.task("processing", items=DOCUMENTS_AN_ITERATION) as processing:
            counts = count_words(lines)
            processing.custom["distinct_words"] = len(counts)
        total += counts
        num_bytes += loading.bytes
    time_taken_s = time.perf_counter() - started
    num_documents = iterations * DOCUMENTS_AN_ITERATION
    return {
        "is_success": bool(total) and set(total) <= set(VOCABULARY),
        "time_taken_s": time_taken_s,
        "throughput_docs_per_sec": num_documents / time_taken_s,
        "num_documents": num_documents,
        "num_words": total.total(),
        "num_input_bytes": num_bytes,
        "mean_words": total.total() / num_documents,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Count words in documents that are made up.")
    parser.add_argument(
        "--benchmark-results-path", type=Path, required=True, help="where the results are left"
    )
    parser.add_argument("--iterations", type=int, default=100, help="how often (default: %(default)s)")
    args = parser.parse_args()
    if args.iterations < 1:
        parser.error("--iterations must be at least 1")

    emit.params({"iterations": args.iterations, "documents_an_iteration": DOCUMENTS_AN_ITERATION})
    metrics = run(args.iterations)
    emit.metrics(metrics)
    print(f"counted {metrics['num_words']:,} words in {metrics['num_documents']:,} documents")
    return 0 if metrics["is_success"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
