"""Ends as it is told to: with these metrics, this exit code, this kind of tasks; or not at all."""

import argparse
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from result_files import StagePerfStats, Task, write_benchmark_results

TASKS: dict[str, Any] = {
    "none": [],
    "list": [Task("0", "cc", [StagePerfStats("minhash", 1.5, num_items_processed=300)])],
    "workflow": {"pipeline_tasks": {"dedup": [Task("0", "cc", [StagePerfStats("read", 0.5)])]}},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    parser.add_argument("--metrics", type=json.loads, help="metrics.json; without it no file is written")
    parser.add_argument("--tasks", choices=[*TASKS, "odd", "broken"], default="none")
    parser.add_argument("--exit-code", type=int, default=0)
    parser.add_argument("--hang", action="store_true", help="never end")
    parser.add_argument("--close-output", action="store_true", help="close standard output and error first")
    parser.add_argument("--leave-a-process", action="store_true", help="start one that goes on afterwards")
    args = parser.parse_args()
    if args.metrics is not None:
        tasks = TASKS.get(args.tasks, [])
        results = {"params": {"tasks": args.tasks}, "metrics": args.metrics, "tasks": tasks}
        write_benchmark_results(results, args.benchmark_results_path)
    if args.tasks in ("odd", "broken"):
        content = pickle.dumps(None) if args.tasks == "odd" else b"no pickle"
        (args.benchmark_results_path / "tasks.pkl").write_bytes(content)
    if args.close_output:
        os.close(1)
        os.close(2)
    if args.leave_a_process:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    while args.hang:
        time.sleep(60)
    return int(args.exit_code)


if __name__ == "__main__":
    raise SystemExit(main())
