"""How fast change points are found, as ratios measured in one run: beside sorting 200,000 numbers.

    python benchmarks/judge_speed.py                 some seconds
    python benchmarks/judge_speed.py --series 5000   a large night

Series of 200, 2,000 and 20,000 points have a step of 8 % every 100 points; a night is many series of 365 points, each
with a step of 5 %. CPU time is taken, in turn with the yardstick; the median counts.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from figures import Row, finish, make_parser
from measuring import in_turn

sys.path.insert(0, str(Path(__file__).parent / "data"))

from make_series import NOISES, stairs, stepped_histories

from paceline.judge import change_points, change_points_of_many

# About twice what was measured (0.19, 1.30, 12.99 and 0.307): whoever runs it by hand sees when it has become slower.
BOUNDS = {200: 0.4, 2000: 2.6, 20_000: 26.0}
NIGHT_BOUND_A_SERIES = 0.6
NUMBERS = np.random.default_rng(7).random(200_000)


def cpu_s(work: Callable[[], object]) -> float:
    started_s = time.process_time()
    work()
    return time.process_time() - started_s


def beside_sorting(rounds: int, work: Callable[[], object]) -> tuple[float, str]:
    """The median of the ratios, and what it was measured beside."""
    ours, sorting = in_turn(rounds, lambda: cpu_s(work), lambda: cpu_s(lambda: np.sort(NUMBERS)))
    ratio = statistics.median(one / other for one, other in zip(ours, sorting, strict=True))
    return ratio, f"CPU, beside {1000 * statistics.median(sorting):.1f} ms of sorting"


def measure_lengths(seed: int, rounds: int) -> list[Row]:
    rows = []
    for length, bound in BOUNDS.items():
        series = stairs(seed, length)
        ratio, detail = beside_sorting(rounds, lambda series=series: change_points(series))
        rows.append(
            Row(
                what=f"change points of {length:,} points",
                metric=f"points_{length}_overhead",
                figure=ratio,
                bound=bound,
                unit="x",
                detail=detail,
            )
        )
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--series", type=int, default=500, help="series of a night")
    parser.add_argument("--rounds", type=int, default=5, help="how often each thing is measured")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rows = measure_lengths(args.seed, args.rounds)
    histories = stepped_histories(NOISES["gaussian"], args.seed, args.series, 365, 200, 0.05)
    night = [history.values for history in histories]
    ratio, detail = beside_sorting(args.rounds, lambda: change_points_of_many(night))
    rows.append(
        Row(
            what=f"a night of {args.series:,} series",
            metric="night_overhead",
            figure=ratio,
            bound=NIGHT_BOUND_A_SERIES * args.series,
            unit="x",
            detail=detail,
        )
    )
    changed = sum(bool(found) for found in change_points_of_many(night))
    return finish(args, rows, num_series=args.series, num_changed_series=changed)


if __name__ == "__main__":
    raise SystemExit(main())
