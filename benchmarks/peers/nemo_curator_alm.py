"""Runs the peer's ALM stages over a manifest; started by `curation.py` with the peer's own Python.

`loop` puts every entry through both stages in this process and keeps the results, as the peer's executors do;
the other modes are these executors. Prints one JSON line with seconds and counts; `--output` also writes the
finished entries.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

EXECUTORS = ("ray_actors", "ray_data", "xenna_streaming", "xenna_batch")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("loop", *EXECUTORS), default="loop")
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--repeat-factor", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    from nemo_curator.stages.audio.alm import ALMDataBuilderStage, ALMDataOverlapStage
    from nemo_curator.tasks import AudioTask

    lines = [line for line in args.manifest.read_text(encoding="utf-8").splitlines() if line.strip()]
    tasks = [
        AudioTask(data=json.loads(line), dataset_name="alm")
        for _ in range(args.repeat_factor)
        for line in lines
    ]
    stages = [ALMDataBuilderStage(), ALMDataOverlapStage(overlap_percentage=50)]
    wall, cpu = time.perf_counter(), time.process_time()
    done = loop(stages, tasks) if args.mode == "loop" else execute(args.mode, stages, tasks)
    entries = [dict(task.data) for task in done]
    found = {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "entries": len(entries),
        "builder_windows": sum(len(entry["windows"]) for entry in entries),
        "filtered_windows": sum(len(entry["filtered_windows"]) for entry in entries),
    }
    if args.output is not None:
        args.output.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    sys.stdout.write(f"\n{json.dumps(found)}\n")


def loop(stages: list[Any], tasks: list[Any]) -> list[Any]:
    done = []
    for task in tasks:
        for stage in stages:
            task = stage.process(task)
        done.append(task)
    return done


def execute(mode: str, stages: list[Any], tasks: list[Any]) -> list[Any]:
    from nemo_curator.pipeline import Pipeline

    pipeline = Pipeline(name="alm", stages=stages)
    found: list[Any] = pipeline.run(make_executor(mode), initial_tasks=tasks)
    return found


def make_executor(mode: str) -> Any:
    if mode == "ray_actors":
        from nemo_curator.backends.ray_actor_pool import RayActorPoolExecutor

        return RayActorPoolExecutor()
    if mode == "ray_data":
        from nemo_curator.backends.ray_data import RayDataExecutor

        return RayDataExecutor()
    from nemo_curator.backends.xenna import XennaExecutor

    # Its streaming mode books a CPU for each stage at once; a machine of two cores has to claim more.
    batch = {"execution_mode": "batch"}
    return XennaExecutor(config=batch if mode == "xenna_batch" else {"cpu_allocation_percentage": 2.5})


if __name__ == "__main__":
    main()
