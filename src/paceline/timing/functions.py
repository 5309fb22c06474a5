"""How long a function takes: loops as long as the clock needs, a warm-up until it settles, rounds by time.

One engine for `bench` in tests and scripts, for `paceline time --python`, and for workers that measure in a process of
their own. A lap calls the function `loops` times between two readings of the clock; a round is a few laps, and its
sample is the time of one call in the middle one of them. So laps are short: one that another process interrupts does
not count. What the loop itself costs is part of it, as in timeit and pyperf, and is measured apart (`loop_cost_s`).

Standard library only, since a worker in another environment imports it.
"""

import gc
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic, perf_counter
from typing import Protocol

Timer = Callable[[], float]

SETTLED = 0.98
"""A warm-up round that takes less than this share of the best before it shows that the function still gets faster."""
CALM_ROUNDS = 2
WARMUP_SHARE = 0.5
"""How much of the time for the rounds a warm-up may take that does not settle."""
LARGEST_STEP = 10
"""By how much the loops may grow at once: the first calls are slow, and say little about the others."""
LONGEST_SEARCH_S = 10.0
"""For how long the loops are looked for: a clock of the user's may stand still."""
LAPS, ROUND_S = 9, 0.005
"""Laps of a round, as long as it does not get longer than this by them; an odd number, which has a middle one."""
LEAST_WARMUP = 0.05
"""How much of the time for the rounds the warm-up takes at least, where it is not given."""
CLOCK_MARGIN = 100
"""A lap shorter than this many readings of the clock tells more about the clock than about the function."""
MUCH_GARBAGE = 50_000
"""Objects that may wait for the garbage collector before it is called between two rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to measure. What is None is found out: the loops by the clock, the warm-up by what it shows.

    `rounds` is a number of rounds, else they go on for `seconds`. A lap takes `lap_s` or longer, which is much longer
    than a reading of the clock. Where `loops` are given, a round has so many `laps`.
    """

    rounds: int | None = None
    loops: int | None = None
    laps: int = 1
    warmup: int | None = None
    seconds: float = 1.0
    least_rounds: int = 5
    most_rounds: int = 500
    lap_s: float = 0.0002
    gc: bool = False
    memory: bool = False

    def __post_init__(self) -> None:
        least = (("rounds", self.rounds, 1), ("loops", self.loops, 1), ("warmup", self.warmup, 0))
        for name, value, bound in least:
            if value is not None and (not isinstance(value, int) or value < bound):
                raise ValueError(f"{name} must be a whole number of {bound} or more, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """What was measured: the seconds of one call in each round.

    `peak_bytes` is the most memory that one call had allocated at a time, where that was asked for. `is_settled` is
    False if the function still got faster when the time for the warm-up was over.
    """

    samples_s: tuple[float, ...]
    loops: int
    warmups: int
    laps: int = 1
    is_settled: bool = True
    clock_cost_s: float = 0.0
    loop_cost_s: float = 0.0
    peak_bytes: int | None = None

    @property
    def is_too_short(self) -> bool:
        """Whether the clock's own cost shows in the samples."""
        return min(self.samples_s) * self.loops < CLOCK_MARGIN * self.clock_cost_s


class Work(Protocol):
    """Something that can be done many times."""

    @property
    def timer(self) -> Timer: ...

    def round(self, loops: int) -> float:
        """The seconds that so many calls took, with whatever has to be prepared before and put away after them."""
        ...

    def loop(self, loops: int) -> float:
        """The seconds that the loop takes without the call."""
        ...


class Quiet:
    """While a round runs: no garbage collection, unless it is wanted, and no tracer or profiler of this thread."""

    def __init__(self, collects: bool) -> None:
        self._stops_gc = not collects and gc.isenabled()

    def __enter__(self) -> None:
        self._trace, self._profile = sys.gettrace(), sys.getprofile()
        if self._trace:
            sys.settrace(None)
        if self._profile:
            sys.setprofile(None)
        if self._stops_gc:
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._stops_gc:
            gc.enable()
        if self._profile:
            sys.setprofile(self._profile)
        if self._trace:
            sys.settrace(self._trace)


def measure(work: Work, effort: Effort, samples: list[float] | None = None) -> Rounds:
    """Warm up, then measure round by round; `samples` is a list that keeps them if the function fails on the way."""
    loops, laps, warmups, is_settled = _warm_up(work, effort)
    samples = [] if samples is None else samples
    until = monotonic() + effort.seconds
    while _wants_more(effort, len(samples), until):
        samples.append(_round(work, loops, laps, effort))
    return Rounds(
        samples_s=tuple(samples),
        loops=loops,
        laps=laps,
        warmups=warmups,
        is_settled=is_settled,
        clock_cost_s=clock_cost_s(work.timer),
        loop_cost_s=_loop_cost_s(work) if loops > 1 else 0.0,
        peak_bytes=_peak_bytes(work) if effort.memory else None,
    )


def _wants_more(effort: Effort, done: int, until: float) -> bool:
    if effort.rounds is not None:
        return done < effort.rounds
    return done < effort.least_rounds or (done < effort.most_rounds and monotonic() < until)


def _round(work: Work, loops: int, laps: int, effort: Effort) -> float:
    """The seconds of one call in the middle lap."""
    taken = sorted(_lap(work, loops, effort) for _ in range(laps))
    return taken[laps // 2] / loops


def _lap(work: Work, loops: int, effort: Effort) -> float:
    with Quiet(effort.gc):
        taken = work.round(loops)
    if not effort.gc and gc.get_count()[0] > MUCH_GARBAGE:
        gc.collect()
    return taken


def _warm_up(work: Work, effort: Effort) -> tuple[int, int, int, bool]:
    """Calls of a lap, laps of a round, rounds before those that count, and whether the function settled in them."""
    begun = monotonic()
    loops, laps, done = (effort.loops, effort.laps, 0) if effort.loops else _calibrate(work, effort, begun)
    if effort.warmup is not None:
        for _ in range(effort.warmup):
            _round(work, loops, laps, effort)
        return loops, laps, done + effort.warmup, True
    calm, best, rounds = 0, math.inf, 0
    earliest, latest = (begun + share * effort.seconds for share in (LEAST_WARMUP, WARMUP_SHARE))
    while True:
        taken = _round(work, loops, laps, effort)
        rounds += 1
        calm = calm + 1 if taken > SETTLED * best else 0
        best = min(best, taken)
        is_calm = calm >= CALM_ROUNDS and monotonic() > earliest
        if is_calm or (monotonic() > latest and done + rounds >= CALM_ROUNDS):
            return loops, laps, done + rounds, calm > 0 or rounds == 1


def _calibrate(work: Work, effort: Effort, begun: float) -> tuple[int, int, int]:
    """Calls that make a lap long enough, laps of a round, and laps that it took to find out."""
    loops, done = 1, 0
    while True:
        # The better of two: a first call may be unlike all others.
        taken = min(_lap(work, loops, effort) for _ in range(2))
        done += 2
        if taken >= effort.lap_s or monotonic() > begun + LONGEST_SEARCH_S:
            laps = min(LAPS, int(ROUND_S / taken)) if taken > 0 else LAPS
            return loops, max(1, laps - (laps + 1) % 2), done
        loops *= _step(effort.lap_s, taken)


def _step(lap_s: float, taken: float) -> int:
    """By how much to multiply the loops so that a lap takes long enough, and a little longer."""
    needed = math.ceil(1.2 * lap_s / taken) if taken > 0 else LARGEST_STEP
    return max(2, min(needed, LARGEST_STEP))


def _loop_cost_s(work: Work) -> float:
    count = 1000
    with Quiet(collects=False):
        return min(work.loop(count) for _ in range(20)) / count


@lru_cache(maxsize=8)
def clock_cost_s(timer: Timer = perf_counter) -> float:
    """What reading the clock twice costs."""
    readings = sorted(-(timer() - timer()) for _ in range(51))
    return readings[25]


def _peak_bytes(work: Work) -> int:
    """The most that one call has allocated at a time, by a round of its own, which is slow."""
    import tracemalloc

    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        with Quiet(collects=False):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            work.round(1)
            _, peak = tracemalloc.get_traced_memory()
    finally:
        if not was_tracing:
            tracemalloc.stop()
    return max(0, peak - before)
