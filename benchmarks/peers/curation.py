"""Ours and the peer (NeMo Curator) on the same manifest in one run: equality first, then ratios.

    python benchmarks/peers/curation.py --peer-venv peer --setup        # once: makes the peer's environment
    python benchmarks/peers/curation.py --peer-venv peer --entries 10000 \
        --executors ray_actors ray_data xenna_streaming xenna_batch
    python benchmarks/peers/curation.py --self                          # without the peer: start, growth, memory

What counts are ratios of runs made one after the other, as the speed of a machine drifts. The stages alone
are compared by CPU time, whole runs by wall time from process start to written metrics. Of several rounds the
fastest counts, on both sides.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import child
from alm_growth import measure_growth
from alm_runs import Input, make_manifest, run_ours

HERE = Path(__file__).parent
OURS = HERE / "paceline_alm.py"
PEER = HERE / "nemo_curator_alm.py"
# torchaudio's libraries need CUDA; without them it runs as pure Python, which is all that is used of it here.
RECIPE = (
    ("torch==2.13.0",),
    ("nemo-curator==1.4.0",),
    ("soundfile",),
    ("ftfy",),
    ("--no-deps", "torchaudio==2.11.0"),
)
EXECUTORS = ("ray_actors", "ray_data", "xenna_streaming", "xenna_batch")
# Ours beside the peer's plain loop, its fastest executor, and the same executor.
ALONE, LOCAL, SAME = 12, 50, 6
Row = tuple[str, float, float, float]


def main() -> int:
    args = parse_args()
    if args.setup:
        set_up(args.peer_venv)
        return 0
    print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} CPUs")
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        if args.self:
            return measure_growth(work, args.sizes, args.rounds)
        return compare(args, work)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="compare the ALM pipeline with NeMo Curator")
    parser.add_argument("--peer-venv", type=Path, help="the peer's environment")
    parser.add_argument("--setup", action="store_true", help="make the peer's environment and stop")
    parser.add_argument(
        "--self", action="store_true", help="no peer: start, growth and memory of our own runs"
    )
    parser.add_argument("--entries", type=int, default=2000, help="how many different ones to make")
    parser.add_argument("--manifest", type=Path, help="take this one instead")
    parser.add_argument("--repeat-factor", type=int, default=1, help="how often the manifest is read")
    parser.add_argument("--hard", action="store_true", help="make entries with words, gaps and noise")
    parser.add_argument(
        "--executors", nargs="*", choices=EXECUTORS, default=[], help="those of the peer to run"
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often each is run")
    sizes = (1000, 10_000, 100_000)
    parser.add_argument("--sizes", type=int, nargs="*", default=sizes, help="entries, for --self")
    args = parser.parse_args()
    if args.peer_venv is None and not args.self:
        parser.error("--peer-venv or --self is needed")
    return args


def set_up(venv: Path) -> None:
    child.run([sys.executable, "-m", "venv", venv])
    for packages in RECIPE:
        child.run([venv / "bin" / "pip", "install", "-q", *packages])
    for library in venv.glob("lib/python*/site-packages/torchaudio/lib/*.so"):
        library.unlink()


def compare(args: argparse.Namespace, work: Path) -> int:
    given = Input(path=args.manifest, repeat_factor=args.repeat_factor)
    if args.manifest is None:
        path = make_manifest(work / "manifest.jsonl", args.entries, hard=args.hard)
        given = Input(path=path, repeat_factor=args.repeat_factor)
    if not outputs_are_equal(args.peer_venv, given, work):
        return 1
    met = True
    print("| what | peer s | ours s | ratio | at least |\n|---|---|---|---|---|", flush=True)
    for what, peer_s, ours_s, bound in (*stages_alone(args, given), *whole_runs(args, given, work)):
        ratio = peer_s / ours_s
        met &= ratio >= bound
        print(f"| {what} | {peer_s:.2f} | {ours_s:.2f} | {ratio:.1f} | {bound:g} |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0 if met else 1


def run_peer(venv: Path, given: Input, *words: object) -> tuple[dict[str, Any], float]:
    """What the peer says of itself, and its wall time."""
    command = [
        venv / "bin" / "python",
        PEER,
        "--manifest",
        given.path,
        "--repeat-factor",
        given.repeat_factor,
    ]
    reading = child.run([*command, *words], apart=True)
    found: dict[str, Any] = json.loads(reading.stdout.strip().splitlines()[-1])
    return found, reading.wall_s


def outputs_are_equal(venv: Path, given: Input, work: Path) -> bool:
    """Whether both make the same entries of the manifest, every field as text."""
    once = Input(path=given.path)
    run_peer(venv, once, "--output", work / "peer.jsonl")
    run_ours(once, work, "local", "--output-manifest", work / "ours.jsonl")
    peer, ours = (sorted(canonical(work / name)) for name in ("peer.jsonl", "ours.jsonl"))
    unlike = sum(left != right for left, right in zip(peer, ours, strict=False)) + abs(len(peer) - len(ours))
    print(f"{len(peer)} entries compared, {unlike} differ")
    return not unlike


def canonical(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.dumps(json.loads(line), sort_keys=True)


def stages_alone(args: argparse.Namespace, given: Input) -> Iterator[Row]:
    words = [sys.executable, OURS, "--manifest", given.path, "--repeat-factor", given.repeat_factor]
    peer, ours = [], []
    for _ in range(args.rounds):
        peer.append(run_peer(args.peer_venv, given)[0])
        ours.append(json.loads(child.run(words).stdout))
    what = f"stages alone, one process, {ours[0]['entries']} results kept (CPU)"
    yield what, min(found["cpu_s"] for found in peer), min(found["cpu_s"] for found in ours), ALONE


def whole_runs(args: argparse.Namespace, given: Input, work: Path) -> Iterator[Row]:
    """Ours on each executor beside the peer's, and `local` beside the fastest of them."""
    peers: dict[str, float] = {}
    for mode in args.executors:
        peers[mode] = min(run_peer(args.peer_venv, given, "--mode", mode)[1] for _ in range(args.rounds))
        yield f"whole run, both {mode}", peers[mode], best_wall_s(args, given, work, mode), SAME
    if peers:
        fastest = min(peers, key=peers.__getitem__)
        local_s = best_wall_s(args, given, work, "local")
        yield f"whole run, peer {fastest}, ours local", peers[fastest], local_s, LOCAL


def best_wall_s(args: argparse.Namespace, given: Input, work: Path, executor: str) -> float:
    rounds = max(args.rounds, 3) if executor == "local" else args.rounds
    return min(run_ours(given, work, executor).reading.wall_s for _ in range(rounds))


if __name__ == "__main__":
    sys.exit(main())
