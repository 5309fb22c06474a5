"""Cleans the text of documents: reads JSON lines, changes each text, writes JSON lines."""

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

from result_files import StagePerfStats, Task, write_benchmark_results

URL = re.compile(r"https?://\S+")
NEWLINES = re.compile(r"\n{3,}")
QUOTES = str.maketrans({"“": '"', "”": '"', "’": "'"})


def clean(text: str) -> str:
    return NEWLINES.sub("\n\n", URL.sub("", text.translate(QUOTES)))


def run_modifier(input_path: Path, output_path: Path) -> dict[str, Any]:
    output_path.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    tasks, count = [], 0
    for file in sorted(input_path.glob("*.jsonl")):
        begun = time.perf_counter()
        documents = [json.loads(line) for line in file.read_text().splitlines()]
        read_s = time.perf_counter() - begun
        lines = [json.dumps({**one, "text": clean(one["text"])}) for one in documents]
        (output_path / file.name).write_text("\n".join(lines))
        stages = [
            StagePerfStats("jsonl_reader", read_s, num_items_processed=len(documents)),
            StagePerfStats(
                "modify",
                time.perf_counter() - begun - read_s,
                num_items_processed=len(documents),
                custom_metrics={"characters": float(sum(len(one["text"]) for one in documents))},
            ),
        ]
        tasks.append(Task(task_id=f"0_{len(tasks)}", dataset_name="documents", _stage_perf=stages))
        count += len(documents)
    seconds = time.perf_counter() - started
    return {
        "params": {"executor": "none", "input_path": input_path, "output_path": output_path},
        "metrics": {
            "is_success": True,
            "time_taken_s": seconds,
            "num_documents_processed": count,
            "num_output_tasks": len(tasks),
            "throughput_docs_per_sec": count / seconds,
        },
        "tasks": tasks,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    parser.add_argument("--input-path", type=Path, required=True)
    parser.add_argument("--output-path", type=Path, required=True)
    args = parser.parse_args()
    results: dict[str, Any] = {"params": vars(args), "metrics": {"is_success": False}, "tasks": []}
    try:
        results = run_modifier(args.input_path, args.output_path)
    finally:
        write_benchmark_results(results, args.benchmark_results_path)
    return 0 if results["metrics"]["is_success"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
