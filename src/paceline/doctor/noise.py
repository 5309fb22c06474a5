"""How much the same work differs on this machine: a short measurement, and what it found."""

import math
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

SPIN_S = 1.2
CHUNK_S = 0.005  # longer than a timer's tick, short enough for some two hundred of them
NAP_S = 0.001
NAPS = 200
NAPPING_S = 1.0  # at most, however late a busy machine wakes us
CLOCK_READINGS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What a second of always the same work, and some naps, showed."""

    samples: int
    chunk_s: float
    spread_pct: float
    """Half the width of the middle nine tenths, beside the median."""
    slowest_pct: float
    """By how much the slowest piece of work took longer than the median."""
    off_cpu_pct: float
    """The share of the time in which another process had our CPU."""
    preemptions: int
    steal_pct: float | None
    """The share that the hypervisor gave to other machines; None where it is not told."""
    late_median_s: float
    late_p99_s: float
    clock_step_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spin:
    """The times of equal pieces of work."""

    times_s: tuple[float, ...]
    wall_s: float
    cpu_s: float
    preemptions: int


def measure(read_stat: Callable[[], str], *, spin_s: float = SPIN_S, naps: int = NAPS) -> Noise:
    """Work and nap for about two seconds; `read_stat` gives `/proc/stat`, or nothing."""
    before = read_stat()
    spun = spin(spin_s)
    late = nap(naps)
    return summarise(spun, late, steal_pct=stolen_pct(before, read_stat()), clock_step_s=clock_step())


def summarise(spun: Spin, late_s: Sequence[float], *, steal_pct: float | None, clock_step_s: float) -> Noise:
    """The measurement in a few numbers that one slow moment does not spoil."""
    times = sorted(spun.times_s)
    median = quantile(times, 0.5)
    late = sorted(late_s)
    return Noise(
        samples=len(times),
        chunk_s=median,
        spread_pct=(quantile(times, 0.95) - quantile(times, 0.05)) / 2 / median * 100,
        slowest_pct=(times[-1] / median - 1) * 100,
        off_cpu_pct=max(0.0, 1 - spun.cpu_s / spun.wall_s) * 100,
        preemptions=spun.preemptions,
        steal_pct=steal_pct,
        late_median_s=quantile(late, 0.5),
        late_p99_s=quantile(late, 0.99),
        clock_step_s=clock_step_s,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of them lies; `statistics` would cost more to import."""
    return ordered[min(len(ordered) - 1, math.floor(share * len(ordered)))]


def spin(for_s: float) -> Spin:
    """Do the same piece of work again and again for this long."""
    steps = _calibrate()
    times: list[float] = []
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    began_s, cpu_s = time.perf_counter(), time.process_time()
    now_s = began_s
    while now_s - began_s < for_s or not times:
        _count_to(steps)
        then_s, now_s = now_s, time.perf_counter()
        times.append(now_s - then_s)
    return Spin(
        times_s=tuple(times),
        wall_s=now_s - began_s,
        cpu_s=time.process_time() - cpu_s,
        preemptions=resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - switches,
    )


def _calibrate() -> int:
    """As many steps as take CHUNK_S or more, by the best of three: one may have been interrupted."""
    steps = 1000
    while min(_time(steps) for _ in range(3)) < CHUNK_S:
        steps *= 2
    return steps


def _time(steps: int) -> float:
    began_s = time.perf_counter()
    _count_to(steps)
    return time.perf_counter() - began_s


def _count_to(steps: int) -> int:
    total = 0
    for number in range(steps):
        total += number
    return total


def nap(naps: int) -> list[float]:
    """By how much each of some short naps was too long."""
    late: list[float] = []
    began_s = time.perf_counter()
    while not late or (len(late) < naps and time.perf_counter() - began_s < NAPPING_S):
        slept_s = time.perf_counter()
        time.sleep(NAP_S)
        late.append(max(0.0, time.perf_counter() - slept_s - NAP_S))
    return late


def clock_step() -> float:
    """The smallest time that the clock can tell apart, as far as a program sees it."""
    readings = [time.perf_counter() for _ in range(CLOCK_READINGS)]
    steps = [later - earlier for earlier, later in pairwise(readings) if later > earlier]
    return min(steps, default=time.get_clock_info("perf_counter").resolution)


def stolen_pct(before: str, after: str) -> float | None:
    """The share of all CPUs' time that the hypervisor took between two readings of `/proc/stat`."""
    first, last = _cpu_times(before), _cpu_times(after)
    if len(first) < 8 or len(last) < 8:
        return None
    # The fields after the eighth are part of the first two.
    total = sum(last[:8]) - sum(first[:8])
    return max(0.0, (last[7] - first[7]) / total * 100) if total > 0 else None


def _cpu_times(stat: str) -> list[int]:
    fields = stat.partition("\n")[0].split()
    return [int(field) for field in fields[1:] if field.isdecimal()] if fields[:1] == ["cpu"] else []
