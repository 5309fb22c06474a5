"""A year of nights through the real loop, with simulated measurements: how often it is wrong, late, and right.

    python benchmarks/year.py                        365 nights, 300 series, one seed: some minutes of one core
    python benchmarks/year.py --quick                60 series, 150 nights
    python benchmarks/year.py --no-confirm           as `paceline run`, which runs nothing again
    python benchmarks/year.py --peers PEERS --detector otava     Otava's detector in our place, or asv's or pelt
    python benchmarks/year.py --db postgresql://…    in an empty database of a server, instead of a SQLite file
    python benchmarks/year.py --asv DIRECTORY        with noise from the results of a project that uses asv

Store, git repository, detection, reports, confirmation, bisection and states are real. What is true is made by
year_parts/world.py: steps of 2 to 30 % at known commits, some taken back, some in several series; upgrades of packages,
with and without an effect; reboots, missing and failing nights, runs of feature branches that are 10 % slower, metrics
that are taken of every run beside the suite's own; noise by year_parts/noise.py and, never edited, holdout.py. How to
add a detector is said in year_parts/detectors.py.
"""

import argparse
import json
import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "data"), str(HERE / "peers")]

from figures import make_parser, publish  # noqa: E402
from judge_peers import NAMES  # noqa: E402
from year_parts.asv_noise import read_family  # noqa: E402
from year_parts.book import (  # noqa: E402
    Book,
    Share,
    culprits,
    false_alarms,
    kind_of,
    per_month,
    reported_within,
)
from year_parts.detectors import OWN, Find, Peer, in_our_place  # noqa: E402
from year_parts.holdout import HOLD_OUT  # noqa: E402
from year_parts.loop import Year  # noqa: E402
from year_parts.noise import WANDERING, Family  # noqa: E402
from year_parts.tuning import TUNING  # noqa: E402
from year_parts.world import LEARNING, is_quiet_family, make_world  # noqa: E402


def main() -> int:
    args = parse_args()
    seed = secrets.randbelow(2**31) if args.seed is None else args.seed
    nights, series = args.nights or (150 if args.quick else 365), args.series or (60 if args.quick else 300)
    began = time.perf_counter()
    find = None if args.detector == "ours" else OWN.get(args.detector) or Peer(args.peers, args.detector)
    book = spend_year(
        nights=nights,
        series=series,
        seed=seed,
        confirms=args.confirm,
        find=find,
        database=args.db,
        more={"asv": read_family(args.asv)} if args.asv else {},
        tuning=args.tuning,
    )
    if isinstance(find, Peer):
        find.close()
    figures = summary(book)
    loop = "with confirmation" if args.confirm else "without confirmation"
    print(f"{nights} nights, {series} series, seed {seed}, detector {args.detector}, {loop}")
    show(book, figures)
    if args.details:
        show_details(book)
    print(f"\n{time.perf_counter() - began:.0f} s, CPU of the loop: {took(book)}")
    if args.json:
        given = {"nights": nights, "series": series, "seed": seed, "detector": args.detector}
        args.json.write_text(json.dumps({**given, "confirm": args.confirm, **plain(figures)}, indent=2))
    publish(args, measures(figures), num_series=series, num_nights=nights)
    return 0


def parse_args() -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--nights", type=int)
    parser.add_argument("--series", type=int)
    parser.add_argument("--seed", type=int, help="drawn anew if not given")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--detector", choices=("ours", *NAMES, *OWN), default="ours")
    parser.add_argument("--peers", type=Path, help="the environment that judge_accuracy.py --setup made")
    parser.add_argument("--no-confirm", dest="confirm", action="store_false")
    parser.add_argument("--db", help="an empty database; a SQLite file that is thrown away by default")
    parser.add_argument(
        "--asv", type=Path, help="a directory with results of asv, for noise of real benchmarks"
    )
    parser.add_argument(
        "--tuning", action="store_true", help="with the families of tuning.py in place of the hold-outs"
    )
    parser.add_argument("--details", action="store_true", help="list what was wrong, one by one")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    args = parser.parse_args()
    if args.detector in NAMES and args.peers is None:
        parser.error("the detectors of others need --peers")
    return args


def spend_year(
    *,
    nights: int,
    series: int,
    seed: int,
    confirms: bool = True,
    find: Find | None = None,
    database: str | None = None,
    more: Mapping[str, Family] | None = None,
    tuning: bool = False,
) -> Book:
    """The book of a simulated year."""
    # A third of the time would be spent waiting for a disk, which is not what is measured.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="year-", dir=memory if memory.is_dir() else None) as name:
        directory = Path(name)
        world = make_world(
            directory / "repository", nights=nights, series=series, seed=seed, more=more, tuning=tuning
        )
        with in_our_place(find):
            return Year(world, database or f"{directory}/benchmark.db", directory, confirms=confirms).run()


def summary(book: Book) -> dict[str, Any]:
    """All figures of a year."""
    world = book.world
    own = [one for one in world.tracks if not one.is_automatic]
    wrong = false_alarms(book)
    on_own = [one for one in wrong if not one.track.is_automatic]
    counts = Counter(kind_of(one) for one in world.tracks)
    by_family = Counter(kind_of(one.track) for one in wrong)
    families = {one.family for one in own}
    quiet = [family for family in families if is_quiet_family(family)]
    drifting = [one for one in own if one.family == "drift"]
    drifts = [one for one in book.alarms if one.track.family == "drift"]
    groups = {
        "quiet": quiet,
        "wandering": sorted(WANDERING),
        "hold-out": sorted({*HOLD_OUT, *TUNING}),
        "asv": ["asv"],
    }
    return {
        "false_alarms": len(wrong),
        "false_alarms_a_month": per_month(book, len(wrong), len(world.tracks)),
        "false_alarms_of_own_metrics_a_month": per_month(book, len(on_own), len(own)),
        "false_alarms_from_branches": sum(one.is_from_branch for one in wrong),
        "false_alarms_after_reboots": sum(
            _is_after_reboot(book, one.track.machine, one.until) for one in wrong
        ),
        "false_alarms_in_first_month": sum(one.night < LEARNING for one in wrong),
        "false_alarms_by_family": {
            family: (by_family[family], per_month(book, by_family[family], counts[family]))
            for family in sorted(counts)
            if family != "drift"
        },
        "told_twice": book.repeats,
        "red_nights": Share(book.red_nights, book.sessions),
        **{
            f"steps_{smallest:.0%}_in_{within}_{group}": reported_within(book, smallest, within, several)
            for smallest, within in ((0.05, 7), (0.03, 14), (0.02, 60))
            for group, several in groups.items()
        },
        "drifts_as_drifts": Share(
            len({one.track.number for one in drifts if one.kind == "drift"}), len(drifting)
        ),
        "drifts_as_steps": Share(
            len({one.track.number for one in drifts if one.kind != "drift"}), len(drifting)
        ),
        "one_incident": Share(book.together, book.causes),
        "one_cause": Share(book.of_one_cause, book.incident_count),
        **{f"culprit_{name}": value for name, value in culprits(book).items()},
        "runs_a_night": book.trials / max(book.sessions, 1),
        "cpu_s": sum(book.seconds.values()),
    }


def _is_after_reboot(book: Book, machine: int, night: int) -> bool:
    return any(one == machine and at <= night <= at + 6 for one, at in book.world.reboots)


ROWS: tuple[tuple[str, str, str], ...] = (
    ("false alarms that reach a person", "false_alarms", ""),
    ("  a month for 1,000 series", "false_alarms_a_month", "<= 1"),
    ("  of own metrics only", "false_alarms_of_own_metrics_a_month", "<= 1"),
    ("  from branches", "false_alarms_from_branches", "0"),
    ("  within a week of a reboot", "false_alarms_after_reboots", ""),
    ("  within the first 30 nights", "false_alarms_in_first_month", ""),
    ("true changes that were told a second time", "told_twice", ""),
    ("steps >= 5 % on 2 % noise, within 7 nights", "steps_5%_in_7_quiet", ">= 95 %"),
    ("steps >= 3 % on 2 % noise, within 14 nights", "steps_3%_in_14_quiet", ">= 80 %"),
    ("steps >= 2 % on 2 % noise, within 60 nights", "steps_2%_in_60_quiet", ""),
    ("steps >= 5 %, wandering, within 7 nights", "steps_5%_in_7_wandering", ""),
    ("steps >= 3 %, wandering, within 14 nights", "steps_3%_in_14_wandering", ""),
    ("steps >= 5 %, hold-out, within 7 nights", "steps_5%_in_7_hold-out", ""),
    ("steps >= 3 %, hold-out, within 14 nights", "steps_3%_in_14_hold-out", ""),
    ("steps >= 5 %, noise of asv, within 7 nights", "steps_5%_in_7_asv", ""),
    ("steps >= 3 %, noise of asv, within 14 nights", "steps_3%_in_14_asv", ""),
    ("series that drift: reported as drift", "drifts_as_drifts", ""),
    ("series that drift: reported as steps", "drifts_as_steps", ""),
    ("several series of one cause: one incident", "one_incident", ">= 90 %"),
    ("incidents that are of one cause", "one_cause", ""),
    ("culprit right, of those named", "culprit_right", ">= 95 %"),
    ("runs per culprit, median", "culprit_runs_median", ""),
    ("runs per culprit, most", "culprit_runs_most", "<= 40"),
    ("nothing named where nothing changed", "culprit_not_named", ">= 95 %"),
    ("nothing confirmed where nothing changed", "culprit_not_confirmed", ""),
    ("runs of follow-ups, a session", "runs_a_night", ""),
    ("sessions that exit with 1", "red_nights", ""),
)


def show(book: Book, figures: Mapping[str, Any]) -> None:
    for text, name, goal in ROWS:
        value = figures[name]
        shown = f"{value:.2f}" if isinstance(value, float) else str(value)
        print(f"{text:<46}{shown:>26}  {goal}")
    print("\nfalse alarms by family: count, a month for 1,000 series")
    for family, (count, rate) in figures["false_alarms_by_family"].items():
        held = "  (hold-out)" if family in HOLD_OUT else ""
        print(f"  {family:<44}{count:>6}{rate:>10.2f}{held}")
    worse = [one.effect for one in book.world.events if one.is_worse]
    size = f", median {statistics.median(worse):.1%}" if worse else ""
    print(
        f"\n{len(worse)} true changes for the worse{size}; {len(book.world.line.commits)} commits of the line"
    )


def show_details(book: Book) -> None:
    """Each false alarm, each step of 3 % or more that was not reported, and each culprit that is wrong."""
    print()
    for one in false_alarms(book):
        print(f"night {one.night}: false: {one.track} after {one.after}, until {one.until}; {one.why}")
    for event in book.world.events:
        for number in event.tracks:
            track = book.world.tracks[number]
            if (
                event.effect >= 0.03
                and not track.is_automatic
                and (event.number, number) not in book.reported
            ):
                print(f"night {event.night}: missed: {track} {event.effect:+.1%}, undone {event.undone}")
    for asked in book.inquiries.values():
        if (asked.culprit and not asked.is_right) or (asked.confirmed and not asked.changed):
            truth = ", ".join(name[:10] for name in asked.truth) or "nothing"
            print(
                f"night {asked.night}: {asked.culprit[:10] or 'confirmed'}, and it was {truth}: {asked.track}"
            )


def took(book: Book) -> str:
    return ", ".join(f"{what} {seconds:.0f} s" for what, seconds in book.seconds.items())


def plain(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures for a JSON file."""
    return {
        name: {"hits": value.hits, "count": value.count} if isinstance(value, Share) else value
        for name, value in figures.items()
    }


def measures(figures: Mapping[str, Any]) -> dict[str, tuple[float, str]]:
    """The figures with a direction, for the history."""
    named: dict[str, tuple[str, Callable[[Any], float | None]]] = {
        "false_alarms_a_month": ("false_alarms_error_rate", float),
        "steps_5%_in_7_quiet": ("steps_5_in_7_recall", lambda share: share.value),
        "steps_3%_in_14_quiet": ("steps_3_in_14_recall", lambda share: share.value),
        "culprit_right": ("culprit_accuracy", lambda share: share.value),
        "culprit_not_named": ("nothing_named_accuracy", lambda share: share.value),
        "one_incident": ("one_incident_accuracy", lambda share: share.value),
    }
    found = {told: value(figures[name]) for name, (told, value) in named.items()}
    return {name: (value, "") for name, value in found.items() if value is not None}


if __name__ == "__main__":
    sys.exit(main())
