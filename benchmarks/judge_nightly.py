"""What a series costs whoever looks at it every night: false alarms, how late a step is seen, and whether it stays.

    python benchmarks/judge_nightly.py --seed 7                       # some minutes
    python benchmarks/judge_nightly.py --only alarms --count 1000     # for rates of one in 100,000

The kinds of noise are those of year_parts/noise.py. A series is looked at every night, and an alarm is a change with a
p-value below the threshold that was not there before within 5 points. Steps lie at 100 of 130 nights; "stays" is the
share of the nights after the first alarm at which the step is still there; "in bracket" is the share of the steps that
lie in first..last of what is found 14 nights after them, and the median number of places in it.
"""

import math
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import make_parser, publish
from year_parts.noise import FAMILIES, Family, Floats

from paceline.judge import ChangePoint, change_points
from paceline.judge.discoveries import FLOOR

FIRST, LAST = 15, 150
STEP_AT, AFTER = 100, 30
NEAR = 5
THRESHOLDS = (1e-3, 3e-4, 1e-4, 3e-5)
SIZES = (0.03, 0.05, 0.06, 0.10)


def quiet(family: Family, rng: np.random.Generator, nights: int) -> tuple[Floats, Floats]:
    """Values and days of the nights that have one."""
    values = 100 * family(rng, nights)
    days = np.flatnonzero(np.isfinite(values))
    return values[days], days


def new_alarms(looks: list[tuple[ChangePoint, ...]], threshold: float) -> list[tuple[int, ChangePoint]]:
    """What each look brought that no look before had near the same place."""
    known: list[int] = []
    found = []
    for number, look in enumerate(looks):
        for point in look:
            if point.p_value < threshold:
                if not any(abs(point.index - one) <= NEAR for one in known):
                    found.append((number, point))
                known.append(point.index)
    return found


def print_alarms(seed: int, count: int, threshold: float) -> dict[str, float]:
    figures = {}
    print(
        f"\nfalse alarms per 100,000 series-nights, {count} series, nights {FIRST} to {LAST}; at night <= 30 in ()"
    )
    print(f"{'':12}" + "".join(f"{f'p < {each:.0e}':>16}" for each in THRESHOLDS))
    for name, family in FAMILIES.items():
        rng = np.random.default_rng([seed, 1])
        totals = dict.fromkeys(THRESHOLDS, (0, 0))
        nights = 0
        for _ in range(count):
            values, _ = quiet(family, rng, LAST)
            looks = [change_points(values[:length]) for length in range(FIRST, len(values) + 1)]
            nights += len(looks)
            for each in THRESHOLDS:
                found = new_alarms(looks, each)
                early = sum(FIRST + number <= 30 for number, _ in found)
                totals[each] = totals[each][0] + len(found), totals[each][1] + early
        cells = [
            f"{1e5 * total / nights:.1f} ({1e5 * early / nights:.1f})" for total, early in totals.values()
        ]
        print(f"{name:12}" + "".join(f"{cell:>16}" for cell in cells), flush=True)
        figures[f"{name}_alarms"] = 1e5 * totals[threshold][0] / nights
    return figures


def stepped(family: Family, rng: np.random.Generator, size: float) -> tuple[Floats, int]:
    """A series with a step, and the first point of its new level."""
    values, days = quiet(family, rng, STEP_AT + AFTER)
    place = int(np.searchsorted(days, STEP_AT))
    values[place:] *= 1 + size
    return values, place


def print_delays(seed: int, count: int, threshold: float) -> dict[str, float]:
    figures = {}
    print(
        f"\nsteps at night {STEP_AT}, p < {threshold:.0e}, {count} series: seen within 7, 14 nights | stays"
    )
    print(f"{'':12}" + "".join(f"{size:>22.0%}" for size in SIZES))
    for name, family in FAMILIES.items():
        cells = []
        for size in SIZES:
            rng = np.random.default_rng([seed, 2])
            seen = []
            stays = there = 0
            for _ in range(count):
                values, place = stepped(family, rng, size)
                hits = [
                    any(
                        point.p_value < threshold and abs(point.index - place) <= NEAR
                        for point in change_points(values[:length])
                    )
                    for length in range(place + 3, len(values) + 1)
                ]
                first = hits.index(True) if True in hits else None
                seen.append(math.inf if first is None else first + 3)
                if first is not None:
                    stays += sum(hits[first:])
                    there += len(hits) - first
            within = [sum(delay <= nights for delay in seen) / count for nights in (7, 14)]
            cells.append(f"{within[0]:.2f} {within[1]:.2f} | {stays / max(there, 1):.3f}")
            figures[f"{name}_{size:.0%}_in_a_week".replace("%", "")] = within[0]
        print(f"{name:12}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
    return figures


def print_places(seed: int, count: int, threshold: float) -> dict[str, float]:
    figures = {}
    print(f"\nin bracket, median width and mean, 14 nights after the step, {count} series")
    kinds: dict[str, Callable[[np.random.Generator, float], tuple[Floats, int]]] = {
        name: lambda rng, size, family=family: stepped(family, rng, size) for name, family in FAMILIES.items()
    }
    kinds["spike beside"] = beside_a_spike
    for name, make in kinds.items():
        cells = []
        for size in SIZES:
            rng = np.random.default_rng([seed, 3])
            widths, inside = [], 0
            for _ in range(count):
                values, place = make(rng, size)
                near = [
                    point
                    for point in change_points(values[: place + 14])
                    if abs(point.index - place) <= 3 * NEAR
                ]
                if near:
                    best = min(near, key=lambda point: abs(point.index - place))
                    inside += best.first <= place <= best.last
                    widths.append(best.last - best.first + 1)
            share = inside / max(len(widths), 1)
            figures[f"{name}_{size:.0%}_in_bracket".replace("%", "").replace(" ", "_")] = share
            cells.append(
                f"{share:.3f} {np.median(widths or [0]):.0f} {np.mean(widths or [0]):.1f} of {len(widths)}"
            )
        print(f"{name:12}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    return figures


def beside_a_spike(rng: np.random.Generator, size: float) -> tuple[Floats, int]:
    values = 1 + 0.02 * rng.standard_normal(70)
    values[45:] *= 1 + size
    values[43] = 1.3
    return values, 45


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--threshold", type=float, choices=THRESHOLDS, default=FLOOR)
    parser.add_argument("--family", action="append")
    parts = {"alarms": print_alarms, "delays": print_delays, "places": print_places}
    parser.add_argument("--only", action="append", choices=parts)
    args = parser.parse_args()
    seed = secrets.randbelow(2**31) if args.seed is None else args.seed
    print(f"seed {seed}")
    for name in (args.family and [one for one in FAMILIES if one not in args.family]) or ():
        del FAMILIES[name]
    figures: dict[str, float] = {}
    for part in args.only or parts:
        figures |= parts[part](seed, args.count, args.threshold)
    publish(args, {name: (value, "") for name, value in figures.items()}, num_series=args.count)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
