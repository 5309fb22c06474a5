"""Ours and the peer (NeMo Curator) on the same manifest in one run: equality first, then ratios.

    python benchmarks/peers/curation.py --peer-venv peer --setup        # once: makes the peer's environment
    python benchmarks/peers/curation.py --peer-venv peer --entries 2000 --executors ray_actors

What counts are ratios of runs made one after the other, as the speed of a machine drifts. The stages alone
are compared by CPU time, whole runs by wall time from process start to written metrics.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MAKE = HERE.parent / "data" / "make_alm_manifest.py"
OURS = HERE.parent / "scripts" / "alm_pipeline_benchmark.py"
PEER = HERE / "nemo_curator_alm.py"
# torchaudio's libraries need CUDA; without them it runs as pure Python, which is all that is used of it here.
RECIPE = (
    ("torch==2.13.0",),
    ("nemo-curator==1.4.0",),
    ("soundfile",),
    ("--no-deps", "torchaudio==2.11.0"),
)
OUR_NAMES = {"xenna_streaming": "xenna", "xenna_batch": "xenna"}


def main() -> int:
    args = parse_args()
    if args.setup:
        set_up(args.peer_venv)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        manifest = work / "manifest.jsonl"
        run(
            [sys.executable, MAKE, "--output", manifest, "--entries", args.entries, *(["--hard"] * args.hard)]
        )
        if not compare_outputs(args.peer_venv, manifest, work):
            return 1
        rows = [stages_alone(args.peer_venv, manifest), *whole_runs(args, manifest, work)]
    print("| what | peer s | ours s | ratio |\n|---|---|---|---|")
    for what, peer_s, ours_s in rows:
        print(f"| {what} | {peer_s:.2f} | {ours_s:.2f} | {peer_s / ours_s:.1f} |")
    return 0


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="compare the ALM pipeline with NeMo Curator")
    parser.add_argument("--peer-venv", type=Path, required=True)
    parser.add_argument("--setup", action="store_true", help="make the peer's environment and stop")
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--hard", action="store_true", help="a manifest with words, gaps and noise")
    parser.add_argument(
        "--executors", nargs="*", default=[], help="ray_actors ray_data xenna_streaming xenna_batch"
    )
    return parser.parse_args()


def set_up(venv: Path) -> None:
    run([sys.executable, "-m", "venv", venv])
    for packages in RECIPE:
        run([venv / "bin" / "pip", "install", "-q", *packages])
    for library in venv.glob("lib/python*/site-packages/torchaudio/lib/*.so"):
        library.unlink()


def run(words: Sequence[object]) -> str:
    # The peer looks for Ray clusters of its own accord and must not find a user's; nor is its own to be found.
    with tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True) as home:
        apart = {"RAY_TMPDIR": home, "RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        environ = {**os.environ, **apart, "RAY_USAGE_STATS_ENABLED": "0"}
        environ.pop("RAY_ADDRESS", None)
        command = [str(word) for word in words]
        done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def run_peer(venv: Path, *words: object) -> dict[str, Any]:
    said = run([venv / "bin" / "python", PEER, *words])
    found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return found


def compare_outputs(venv: Path, manifest: Path, work: Path) -> bool:
    """Whether both make the same entries of the manifest, every field as text."""
    run_peer(venv, "--manifest", manifest, "--output", work / "peer.jsonl")
    words = ["--benchmark-results-path", work / "equal", "--input-manifest", manifest, "--executor", "local"]
    run([sys.executable, OURS, *words, "--output-manifest", work / "ours.jsonl"])
    peer, ours = (sorted(canonical(work / name)) for name in ("peer.jsonl", "ours.jsonl"))
    differing = sum(left != right for left, right in zip(peer, ours, strict=False)) + abs(
        len(peer) - len(ours)
    )
    print(f"{len(peer)} entries compared, {differing} differ")
    return not differing


def canonical(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as file:
        return [json.dumps(json.loads(line), sort_keys=True) for line in file]


def stages_alone(venv: Path, manifest: Path) -> tuple[str, float, float]:
    from paceline.curate import LocalExecutor, Pipeline, Task
    from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage

    with manifest.open(encoding="utf-8") as file:
        tasks = [Task(data=json.loads(line)) for line in file]
    pipeline = Pipeline("alm", [ALMDataBuilderStage(), ALMDataOverlapStage(overlap_percentage=50)])
    started = time.process_time()
    result = pipeline.run(LocalExecutor(workers=1), tasks)
    ours_s = time.process_time() - started
    return (
        f"stages alone, one process, {len(result)} results kept (CPU)",
        float(run_peer(venv, "--manifest", manifest)["cpu_s"]),
        ours_s,
    )


def whole_runs(args: argparse.Namespace, manifest: Path, work: Path) -> list[tuple[str, float, float]]:
    rows = []
    local_s = time_ours("local", manifest, work)
    for mode in args.executors:
        started = time.perf_counter()
        run_peer(args.peer_venv, "--manifest", manifest, "--mode", mode)
        peer_s = time.perf_counter() - started
        rows.append((f"whole run, peer {mode}, ours local", peer_s, local_s))
        rows.append((f"whole run, both {mode}", peer_s, time_ours(OUR_NAMES.get(mode, mode), manifest, work)))
    return rows


def time_ours(executor: str, manifest: Path, work: Path) -> float:
    words = [
        "--benchmark-results-path",
        work / executor,
        "--input-manifest",
        manifest,
        "--executor",
        executor,
    ]
    started = time.perf_counter()
    run([sys.executable, OURS, *words])
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
