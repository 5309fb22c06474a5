"""Error rates and speed of the change points; see judge_accuracy.py."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from judge_peers import NAMES, Peers
from make_series import (
    NOISES,
    Floats,
    History,
    Noise,
    busy_histories,
    matched,
    quiet_histories,
    stairs,
    stepped_histories,
)

from paceline.judge import Detector, change_points, change_points_of_many, select_discoveries

LENGTH, STEP_AT, NIGHTS, SIZE = 200, 150, 15, 0.05
TOLERANCE = 5
Find = Callable[[Sequence[Floats]], list[list[int]]]


def ours(series: Sequence[Floats]) -> list[list[int]]:
    return [[point.index for point in found] for found in change_points_of_many(series)]


def detectors(peers: Peers | None) -> dict[str, Find]:
    def of_peer(name: str, known: Peers) -> Find:
        return lambda series: known.find(name, series)

    return {"paceline": ours, **({name: of_peer(name, peers) for name in NAMES} if peers else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Series of one kind of noise: without a change, with one at the end of the second, with several."""

    kind: str
    quiet: list[History]
    stepped: list[History]
    busy: list[History]

    def rates(self, found: list[list[int]]) -> tuple[float, float, float]:
        """False alarms per 1,000 points, steps seen and F1, from what was found in the lists, one after the other."""
        in_quiet, in_stepped = found[: len(self.quiet)], found[len(self.quiet) :][: len(self.stepped)]
        points = sum(len(history.values) for history in self.quiet)
        alarms = 1000 * sum(map(len, in_quiet)) / points
        seen = sum(_hits(self.stepped, in_stepped)) / len(self.stepped)
        return alarms, seen, _f1(self.busy, found[-len(self.busy) :])


def trials(seed: int, count: int) -> Iterator[Trial]:
    for number, (kind, noise) in enumerate(NOISES.items()):
        yield _trial(kind, noise, seed + 1000 * number, count, LENGTH, STEP_AT)
    for length, at in ((30, 15), (60, 40)):
        yield _trial(f"{length} points", NOISES["gaussian"], seed + length, count, length, at)


def _trial(kind: str, noise: Noise, seed: int, count: int, length: int, at: int) -> Trial:
    stepped = stepped_histories(noise, seed + 1, count, at + NIGHTS, at, SIZE)
    return Trial(
        kind=kind,
        quiet=quiet_histories(noise, seed, count, length),
        stepped=stepped,
        busy=busy_histories(noise, seed + 2, count) if length == LENGTH else stepped,
    )


def print_accuracy(seed: int, count: int, peers: Peers | None) -> dict[str, float]:
    """The table, and our own figures over all kinds of noise."""
    print(f"\nchange points, {count} series a kind and figure")
    print("false alarms per 1,000 points | found within 15 nights | F1")
    every = list(trials(seed, count))
    series = [history.values for trial in every for history in (*trial.quiet, *trial.stepped, *trial.busy)]
    columns = {name: iter(find(series)) for name, find in detectors(peers).items()}
    print(f"{'':14}" + "".join(f"{name:>22}" for name in columns))
    own = []
    for trial in every:
        rates = [trial.rates(list(islice(found, 3 * count))) for found in columns.values()]
        own.append(rates[0])
        print(f"{trial.kind:14}" + "".join(f"{' | '.join(f'{rate:.2f}' for rate in of):>22}" for of in rates))
    alarms, seen, f1 = (sum(column) / len(own) for column in zip(*own, strict=True))
    return {"false_alarms_error_rate": alarms / 1000, "steps_seen_recall": seen, "changes_f1": f1}


def _hits(histories: Sequence[History], found: Sequence[list[int]]) -> list[int]:
    return [
        matched(places, history.changes, TOLERANCE) for history, places in zip(histories, found, strict=True)
    ]


def _f1(histories: Sequence[History], found: Sequence[list[int]]) -> float:
    hits = sum(_hits(histories, found))
    wanted, said = sum(len(history.changes) for history in histories), sum(map(len, found))
    return 2 * hits / max(wanted + said, 1)


def print_speed(seed: int, peers: Peers | None, rounds: int) -> None:
    """Milliseconds, the fastest of several; theirs and ours take turns, as the machine's speed drifts."""
    print("\nspeed in ms, steps of 8 % every 100 points (times ours)")
    for length in (200, 2000, 20_000):
        series = stairs(seed, length)
        best: dict[str, float] = {}
        names = [] if peers is None else [name for name in NAMES if (name, length) != ("asv", 20_000)]
        for _ in range(rounds):
            best["paceline"] = min(best.get("paceline", math.inf), _seconds(change_points, series))
            for name in names if peers else ():
                repeats = max(1, 4000 // length)
                took = peers.seconds(name, [series], repeats)[0] if peers else 0.0
                best[name] = min(best.get(name, math.inf), took)
        own = best.pop("paceline")
        others = "".join(f"  {name} {took * 1e3:.2f} (×{took / own:.0f})" for name, took in best.items())
        print(
            f"{length:>7,} points: paceline {own * 1e3:.2f}  one more point {_append_ms(series):.3f}{others}"
        )
    _print_many(seed)


def _seconds(find: Callable[[Floats], object], series: Floats) -> float:
    find(series)
    return min(_timed(lambda: find(series)) for _ in range(max(2, 10_000 // len(series))))


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _append_ms(series: Floats) -> float:
    """To take in one more point and to say what changed."""
    detector = Detector(series)
    assert detector.change_points is not None

    def grow() -> object:
        detector.append(100.0)
        return detector.change_points

    return 1e3 * min(_timed(grow) for _ in range(15))


def _print_many(seed: int, count: int = 5000, length: int = 365) -> None:
    kinds = list(NOISES.values())[:5]
    many = [
        history.values
        for number, noise in enumerate(kinds)
        for history in stepped_histories(noise, seed + number, count // len(kinds), length, 200, SIZE)
    ]
    took = _timed(lambda: change_points_of_many(many))
    print(f"{count:,} series × {length} points, each with a step: {took:.2f} s")


def print_discoveries(seed: int, count: int) -> None:
    """Many series of one night, a twentieth with a step; they share a part of each night's noise."""
    print(f"\ndiscoveries among {count:,} series of {LENGTH} points, one in twenty with a step of {SIZE:.0%}")
    for shared in (0.0, 0.7):
        random = np.random.default_rng(seed)
        common = random.normal(0, 0.02, LENGTH)
        p_values, true = [], []
        for number in range(count):
            own = random.normal(0, 0.02, LENGTH)
            values = 1 + math.sqrt(shared) * common + math.sqrt(1 - shared) * own
            true.append(number % 20 == 0)
            values[STEP_AT:] *= 1 + SIZE * true[-1]
            p_values.append(min((point.p_value for point in change_points(values)), default=1.0))
        chosen = np.array(select_discoveries(p_values))
        false = int((chosen & ~np.array(true)).sum())
        print(
            f"{shared:.0%} of the noise shared: {chosen.sum()} discoveries, {false} false, "
            f"{(chosen & np.array(true)).sum() / sum(true):.0%} of the steps found"
        )
