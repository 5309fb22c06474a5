"""Runs our ALM stages over a manifest in this process; started by `curation.py` beside `nemo_curator_alm.py`.

Every entry goes through both stages and all results are kept. Prints one JSON line with seconds and counts.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from paceline.curate import LocalExecutor, Pipeline, Task
from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--repeat-factor", type=int, default=1)
    args = parser.parse_args()
    lines = args.manifest.read_text(encoding="utf-8").splitlines()
    tasks = [Task(data=json.loads(line)) for _ in range(args.repeat_factor) for line in lines if line.strip()]
    pipeline = Pipeline("alm", [ALMDataBuilderStage(), ALMDataOverlapStage(overlap_percentage=50)])
    wall, cpu = time.perf_counter(), time.process_time()
    result = pipeline.run(LocalExecutor(workers=1), tasks)
    found = {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "entries": len(result),
        "builder_windows": sum(len(task.data["windows"]) for task in result),
        "filtered_windows": sum(len(task.data["filtered_windows"]) for task in result),
    }
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
