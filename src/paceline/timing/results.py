"""What was measured of each target: its times, what they come to, what is odd about them, and how two compare."""

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from paceline.model import is_finite
from paceline.run.conditions import Conditions, disturbances, wanted_of_machine
from paceline.timing.targets import Target

OUTLIER = 14.826
"""Robust standard deviations from the median, as hyperfine has it (Iglewicz and Hoaglin take 3.5 for normal values)."""

FEWEST_FOR_OUTLIERS = 5
SAME = 0.03
"""A difference that is surely smaller than this is none."""


@dataclass(slots=True, kw_only=True)
class Result:
    """The measurements of one target so far.

    `starts` holds the times of each process that was started: one for a command, many for a Python statement.
    `shell_s` is what the shell took to start, which is taken off. `share` is how much of what is wanted was measured.
    """

    target: Target
    starts: list[list[float]] = field(default_factory=list)
    user_s: list[float] = field(default_factory=list)
    system_s: list[float] = field(default_factory=list)
    peak_bytes: list[int | None] = field(default_factory=list)
    exit_codes: list[int | None] = field(default_factory=list)
    conditions: list[Conditions] = field(default_factory=list)
    shell_s: float = 0.0
    shell_user_s: float = 0.0
    shell_system_s: float = 0.0
    loops: int = 1
    laps: int = 1
    warmups: int = 0
    loop_cost_s: float = 0.0
    share: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def times_s(self) -> list[float]:
        """Without the shell's start; never below zero."""
        return [max(0.0, time_s - self.shell_s) for start in self.starts for time_s in start]

    @property
    def mean_s(self) -> float:
        return statistics.fmean(self.times_s)

    @property
    def median_s(self) -> float:
        return statistics.median(self.times_s)

    @property
    def deviation_s(self) -> float | None:
        """The standard deviation; None of a single run."""
        times = self.times_s
        return statistics.stdev(times) if len(times) > 1 else None

    @property
    def mean_user_s(self) -> float | None:
        return max(0.0, statistics.fmean(self.user_s) - self.shell_user_s) if self.user_s else None

    @property
    def mean_system_s(self) -> float | None:
        return max(0.0, statistics.fmean(self.system_s) - self.shell_system_s) if self.system_s else None

    @property
    def largest_bytes(self) -> int | None:
        """The most memory that a run took, where it is known of one."""
        return max((peak for peak in self.peak_bytes if peak is not None), default=None)

    @property
    def disturbed(self) -> tuple[str, ...]:
        """What disturbed each run; nothing if none was, or if nobody wants to know."""
        return () if wanted_of_machine() == "ignore" else disturbances(self.conditions)

    def warnings(self) -> Iterator[str]:
        """What is odd about the measurements, each with what to do."""
        yield from dict.fromkeys(self.notes)
        times = self.times_s
        if self.shell_s and min(times) < self.shell_s:
            yield "this takes less time than the shell's own start, which is not known that well: use -N"
        scores = _robust_scores(times) if len(times) >= FEWEST_FOR_OUTLIERS else [0.0]
        if scores[0] > OUTLIER:
            yield "the first run was much slower than the others: --warmup 3 fills caches, --prepare empties them"
        elif any(abs(score) > OUTLIER for score in scores):
            far = sum(abs(score) > OUTLIER for score in scores)
            yield f"{far} of {len(times)} runs lie far from the others: something else may have run meanwhile"
        hit = [text for text in self.disturbed if text]
        if hit:
            yield f"{len(hit)} of {len(self.disturbed)} runs were disturbed: {hit[0]}"


def _robust_scores(times: Sequence[float]) -> list[float]:
    """How far each lies from the median, in robust standard deviations."""
    middle = statistics.median(times)
    scale = statistics.median(abs(one - middle) for one in times) / 0.6745
    return [(one - middle) / scale if scale else 0.0 for one in times]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times as long as the reference another target takes, and the 95 % interval of that."""

    reference: Result
    other: Result
    ratio: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Whether one of them is faster beyond chance."""
        return self.low > 1 or self.high < 1

    def text(self) -> str:
        """`1.52 ± 0.03 times faster than b`, said of the reference."""
        name = self.other.target.name
        if not is_finite(self.high):
            return f"{_times(self.ratio)} compared with {name}: too few runs to say how sure that is"
        if not self.is_sure:
            is_close = self.low > 1 / (1 + SAME) and self.high < 1 + SAME
            word = "as fast as" if is_close else "neither surely faster nor slower than"
            return f"{word} {name}: {_times(self.ratio)} ({_times(self.low)} to {_times(self.high)})"
        ratio, low, high = self.ratio, self.low, self.high
        word = "faster" if ratio > 1 else "slower"
        if ratio < 1:
            ratio, low, high = 1 / ratio, 1 / high, 1 / low
        half = (high - low) / 2
        if half >= 0.1 * ratio:  # An interval that is wide is not the same on both sides.
            return f"{_times(ratio)} ({_times(low)} to {_times(high)}) times {word} than {name}"
        decimals = min(max(2, -math.floor(math.log10(half))), 4) if half > 0 else 4
        return f"{_times(ratio, decimals)} ± {_times(half, decimals)} times {word} than {name}"


def _times(value: float, decimals: int = 2) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{decimals}f}"


def fastest(results: Sequence[Result]) -> Result:
    """That with the smallest mean, as hyperfine has it."""
    return min(results, key=lambda one: one.mean_s)


def compare_all(results: Sequence[Result], reference: Result, *, in_turns: bool) -> list[Ratio]:
    """Each of the others beside the reference, in the order of how long they take.

    The intervals hold for all of them together. What ran in turns is compared turn by turn, so that a machine that
    gets slower meanwhile does not count.
    """
    from paceline.judge.comparison import LEVEL, compare  # brings numpy, which one command does without

    others = [one for one in results if one is not reference]
    level = 1 - (1 - LEVEL) / max(1, len(others))
    found = []
    for other in sorted(others, key=lambda one: one.mean_s):
        old, new = _net_starts(reference), _net_starts(other)
        if min(map(min, (*old, *new))) <= 0:
            other.notes.append("it cannot be compared: a run was as short as the shell's start; use -N")
            continue
        if len(old) == 1 and len(new) == 1:  # one process each: what its rounds say
            compared = compare(old[0], new[0], level=level)
        elif in_turns:
            turns = min(len(old), len(new))
            compared = compare(_in_parts(old, turns), _in_parts(new, turns), paired=True, level=level)
        else:
            compared = compare(old, new, level=level)
        found.append(
            Ratio(
                reference=reference,
                other=other,
                ratio=compared.ratio,
                low=compared.low,
                high=compared.high,
            )
        )
    return found


def _net_starts(result: Result) -> list[list[float]]:
    return [[max(0.0, time_s - result.shell_s) for time_s in start] for start in result.starts if start]


def _in_parts(starts: Sequence[list[float]], count: int) -> list[list[float]]:
    """As many groups of neighbours as there are turns: a quick command runs several times in one."""
    edges = [math.floor(len(starts) * place / count) for place in range(count + 1)]
    return [
        [statistics.median(start) for start in starts[low:high]] for low, high in itertools.pairwise(edges)
    ]
