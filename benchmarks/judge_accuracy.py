"""How right and how fast the judges are, beside Otava, asv and ruptures in the same run.

    python benchmarks/judge_accuracy.py --peers PEERS --setup     # once: makes the peers' environment
    python benchmarks/judge_accuracy.py --peers PEERS --seed 7    # some minutes; --quick is under one
    python benchmarks/judge_accuracy.py --only bisection          # without --peers: ours alone

Series of 200 points, a step of 5 % at 150 on noise of 2 %. A change is found if a point lies within 5 of it, and
"within 15 nights" looks at the first 165 points. False alarms are counted on series without a change, F1 on series
of 300 points with none to four steps of 4 to 12 %.
"""

import argparse
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "data"), str(HERE / "peers")]

import judge_bisections  # noqa: E402
import judge_changes  # noqa: E402
import judge_comparisons  # noqa: E402
from figures import make_parser, publish  # noqa: E402
from judge_peers import Peers, set_up  # noqa: E402


def main() -> int:
    args = parse_args()
    if args.setup:
        set_up(args.peers)
        return 0
    seed = secrets.randbelow(2**31) if args.seed is None else args.seed
    print(f"seed {seed}, load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} CPUs")
    peers = Peers(args.peers) if args.peers else None
    count = args.count or (6 if args.quick else 100)
    parts: dict[str, Callable[[], dict[str, float] | None]] = {
        "changes": lambda: judge_changes.print_accuracy(seed, count, peers),
        "speed": lambda: judge_changes.print_speed(seed, peers, rounds=1 if args.quick else 5),
        "discoveries": lambda: judge_changes.print_discoveries(seed, 20 * count),
        "comparisons": lambda: judge_comparisons.print_comparisons(seed, 5 * count),
        "bisection": lambda: judge_bisections.print_bisections(seed, 2 * count),
    }
    figures: dict[str, float] = {}
    for name in args.only or parts:
        figures |= parts[name]() or {}
    publish(args, {name: (value, "") for name, value in figures.items()}, num_series=count)
    return 0


def parse_args() -> argparse.Namespace:
    parser = make_parser("measure the judges' error rates and speed")
    parser.add_argument("--peers", type=Path, help="an environment with the peers, made by --setup")
    parser.add_argument("--setup", action="store_true", help="make the peers' environment and stop")
    parser.add_argument("--seed", type=int, help="of all random numbers (default: a fresh one)")
    parser.add_argument("--count", type=int, help="series a kind of noise (default 100)")
    parser.add_argument("--quick", action="store_true", help="fewer of everything")
    parts = ("changes", "speed", "discoveries", "comparisons", "bisection")
    parser.add_argument("--only", nargs="*", choices=parts, default=[], help="these parts")
    args = parser.parse_args()
    if args.setup and args.peers is None:
        parser.error("--setup needs --peers: the directory to make")
    return args


if __name__ == "__main__":
    sys.exit(main())
