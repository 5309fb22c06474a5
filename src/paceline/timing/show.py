"""Results on a terminal: a live view with histograms while commands run, and lines for each when they are done."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from paceline.numbers import count, duration, percent, size
from paceline.report.format import visible
from paceline.timing.results import Ratio, Result

if TYPE_CHECKING:
    from rich.console import Group

UNITS = {
    "second": ("s", 1.0),
    "millisecond": ("ms", 1e3),
    "microsecond": ("µs", 1e6),
    "nanosecond": ("ns", 1e9),
}
BARS = "▁▂▃▄▅▆▇█"
BINS = 40
_FAR = 8.0
"""Robust standard deviations from the median from which on times share the last bar of a histogram."""

Style = Callable[[str, str], str]


def unit_of(seconds: float, wanted: str | None) -> str:
    """The unit that a time, and what belongs to it, is shown in."""
    if wanted is not None:
        return wanted
    return next((name for name, (_, factor) in UNITS.items() if seconds * factor >= 1), "nanosecond")


def in_unit(seconds: float, unit: str, like: float) -> str:
    """A time with as many decimals as the one that it stands next to."""
    name, factor = UNITS[unit]
    size = math.floor(math.log10(like * factor)) if like > 0 else 0
    return f"{seconds * factor:.{min(max(3 - size, 1), 6)}f} {name}"


def histogram(times: Sequence[float], bins: int = BINS) -> str:
    """How often which times came, from the shortest to the longest; the last bar holds all that are far off, too."""
    ordered = sorted(times)
    middle = ordered[len(ordered) // 2]
    scatter = sorted(abs(one - middle) for one in ordered)[len(ordered) // 2] * 1.4826
    low, high = ordered[0], min(ordered[-1], middle + _FAR * scatter) if scatter else ordered[-1]
    if high <= low:
        return BARS[-1]
    counts = [0] * bins
    for one in ordered:
        counts[min(int((one - low) / (high - low) * bins), bins - 1)] += 1
    most = max(counts)
    return "".join(BARS[math.ceil(number / most * (len(BARS) - 1))] if number else " " for number in counts)


def block(number: int, result: Result, unit: str | None, styled: Style, *, bars: bool) -> Iterator[str]:
    """The lines of one result."""
    yield styled("bold", f"Benchmark {number}: {visible(result.target.name)}")
    if not result.starts:
        yield "  nothing was measured"
        return
    mean, times = result.mean_s, result.times_s
    chosen = unit_of(mean, unit)

    def shown(seconds: float) -> str:
        return in_unit(seconds, chosen, mean)

    spread = result.deviation_s
    main = styled("green", shown(mean)) + (
        f" ± {styled('green', shown(spread))}" if spread is not None else ""
    )
    label = "Time (mean ± σ):" if spread is not None else "Time:"
    used = [("User", result.mean_user_s), ("System", result.mean_system_s)]
    parts = [f"{name}: {shown(seconds)}" for name, seconds in used if seconds is not None]
    yield f"  {label:18} {main}" + (f"    [{', '.join(parts)}]" if parts else "")
    if spread is not None:
        ends = f"{styled('cyan', shown(min(times)))} … {styled('magenta', shown(max(times)))}"
        yield f"  {'Range (min … max):':18} {ends}    median {shown(result.median_s)}, {_counted(result)}"
    if result.largest_bytes is not None:
        yield f"  {'Memory (peak):':18} {size(result.largest_bytes)}"
    if result.loop_cost_s:
        yield f"  {'Loop:':18} {duration(result.loop_cost_s)} of each call"
    if bars and len(times) > 2:
        yield f"  {histogram(times)}"
    for text in result.warnings():
        yield styled("yellow", f"  Warning: {visible(text)}")


def _counted(result: Result) -> str:
    runs = sum(map(len, result.starts))
    if result.loops == 1 and len(result.starts) == runs:
        return count(runs, "run")
    calls = laps_of(result.laps, result.loops)
    return f"{count(runs, 'round')} of {calls} in {_processes(len(result.starts))}"


def laps_of(laps: int, loops: int) -> str:
    """`9 x 300 calls`."""
    return f"{laps} x {count(loops, 'call')}" if laps > 1 else count(loops, "call")


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number:,} processes"


def summary(ratios: Sequence[Ratio], styled: Style) -> Iterator[str]:
    """Who is faster, by how much, and how sure that is."""
    if not ratios:
        return
    yield styled("bold", "Summary")
    yield f"  {styled('cyan', visible(ratios[0].reference.target.name))} was"
    for ratio in ratios:
        yield f"    {visible(ratio.text())}"
    if any("±" in ratio.text() for ratio in ratios):
        yield "  ± is half the interval that the ratio lies in, with 95 % confidence for all of them together"


class LiveView:
    """A line for each command with its histogram so far, and a bar of how much is done."""

    def __init__(self, results: Sequence[Result], stream: TextIO, unit: str | None, *, colour: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._results = results
        self._unit = unit
        self._text = ""
        self._begun = time.monotonic()
        console = Console(
            file=stream, force_terminal=True, no_color=not colour, highlight=False, markup=False, emoji=False
        )
        self._console = console
        view = type("View", (), {"__rich__": lambda _: self._view()})()
        self._live = Live(view, console=console, transient=True, auto_refresh=False)
        self._drawn = 0.0

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a terminal that went away
            self._live.stop()

    def doing(self, text: str) -> None:
        self._text = text
        self._draw(now=True)

    def measured(self) -> None:
        self._draw(now=False)

    def _draw(self, *, now: bool) -> None:
        """Between two runs, never while one is timed, and not after each of very short ones."""
        moment = time.monotonic()
        if now or moment - self._drawn > 0.1:
            with suppress(OSError):
                self._live.refresh()
            self._drawn = time.monotonic()

    def _view(self) -> "Group":
        from rich.console import Group
        from rich.text import Text

        def line(text: str, style: str = "") -> Text:
            return Text(text, style=style, no_wrap=True, overflow="ellipsis")

        room = max(3, self._console.height - 4)
        active = [one for one in self._results if one.starts]
        lines = [line(f"  {self._of(one)}") for one in active[:room]]
        if len(active) > room:
            lines.append(line(f"  … and {len(active) - room} more", "dim"))
        done = sum(min(one.share, 1.0) for one in self._results) / len(self._results)
        width = max(10, min(40, self._console.width - 40))
        bar = "━" * round(done * width)
        told = f"{percent(done, 2):>6}  {self._left(done)}{visible(self._text)}"
        return Group(*lines, line(f"  {bar:╌<{width}} {told}", "cyan"))

    def _left(self, done: float) -> str:
        elapsed_s = time.monotonic() - self._begun
        return f"about {duration(elapsed_s / done * (1 - done))} left  " if 0.1 < done < 1 else ""

    def _of(self, result: Result) -> str:
        mean = result.mean_s
        unit = unit_of(mean, self._unit)
        spread = result.deviation_s
        around = f" ± {in_unit(spread, unit, mean)}" if spread is not None else ""
        bars = histogram(result.times_s, 24) if len(result.times_s) > 2 else ""
        name = visible(result.target.name)
        return f"{in_unit(mean, unit, mean)}{around}  {bars:24}  {name}"


class QuietView:
    """Nobody watches: what is to be said is said at the end."""

    def __enter__(self) -> "QuietView":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was drawn."""

    def doing(self, text: str) -> None:
        """Nobody watches."""

    def measured(self) -> None:
        """Nobody watches."""
