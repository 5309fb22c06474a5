"""How numbers look to a reader, everywhere: short, true, and never with an exponent that nobody needs.

- Three significant digits. Zeros at the end are there if the number was rounded (`1.00 s`) and not if that is all of it
  (`1 s`); whole numbers that count something have all their digits.
- A unit that fits: `420 ns`, `1.5 GiB`; two minutes and more as `3m 12s` and `2h 05m`.
- A share is `3.2 %`, a change `+3.2 %`, one of tenfold and more `×12`.
- What is too small to be told from nothing is `< 0.001`, not 0.
"""

import math
from collections.abc import Sequence

SPREAD_NOTE = "± is the standard deviation of a case's samples, as a share of their mean"
"""Explains the sign where it stands."""

_PLAIN = (1e-9, 1e15)  # outside of it, digits are worth less than an exponent
_TIMES = (("ns", 1e9), ("µs", 1e6), ("ms", 1e3))
_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
FLOAT_BITS = 1000  # larger integers are no floats, and nobody reads their digits
_MANY_TIMES = 9.995
_SMALLEST_SHARE = 1e-4
_ANYTHING = 99.0  # a hundredfold


def rounded(value: float, count: int = 3) -> float:
    """To that many significant digits."""
    return float(f"{value:.{count - 1}e}")


def digits(value: float, count: int = 3) -> str:
    """A number with at most that many significant digits: `0.00412`, `45.2`, `1,230,000`."""
    if not math.isfinite(value) or value == 0:
        return f"{value + 0.0:g}"  # minus zero is zero
    near = rounded(value, count)
    if not _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return f"{value:.{count}g}"
    decimals = max(0, count - 1 - math.floor(math.log10(abs(near)) + 1e-12))
    text = f"{near:,.{decimals}f}"
    is_all = "." in text and math.isclose(near, value, rel_tol=1e-9)
    return text.rstrip("0").rstrip(".") if is_all else text


def number(value: float, count: int = 3) -> str:
    """A number without a unit: a whole one with all its digits."""
    if isinstance(value, int) and value.bit_length() > FLOAT_BITS:
        return f"about {'-' if value < 0 else ''}1e{int(value.bit_length() * math.log10(2))}"
    if isinstance(value, int) or (value.is_integer() and abs(value) < _PLAIN[1]):
        return f"{int(value):,}"
    return digits(value, count)


def signed(value: float, count: int = 3) -> str:
    """A difference, which has its sign."""
    return f"{'+' if value > 0 else ''}{digits(value, count)}"


def plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"


def count(number: int, noun: str) -> str:
    """`1 case`, `2,000 cases`."""
    return f"{number:,} {plural(noun, number)}"


def duration(seconds: float) -> str:
    """A time: `420 ns`, `45.2 s`, `3m 12s`, `2h 05m`."""
    if not math.isfinite(seconds) or seconds == 0:
        return f"{digits(seconds)} s"
    for unit, factor in _TIMES:
        if abs(rounded(seconds * factor)) < 1000:
            return f"{digits(seconds * factor)} {unit}"
    if abs(seconds) < 119.5:
        return f"{digits(seconds)} s"
    sign = "-" if seconds < 0 else ""
    minutes, rest_s = divmod(round(abs(seconds)), 60)
    if minutes >= 120:  # half a minute is less than half a percent
        minutes, rest_s = round(abs(seconds) / 60), 0
    hours, minutes = divmod(minutes, 60)
    if hours < 2:
        return f"{sign}{f'{hours}h {minutes:02d}m' if hours else f'{minutes}m'} {rest_s:02d}s"
    return f"{sign}{hours}h {minutes:02d}m"


def seconds_text(seconds: float) -> str:
    """A time in seconds for a log that others read by its form: `50.8`, `0.00412`, `2.0`."""
    if abs(seconds) >= 10 or seconds == 0 or not math.isfinite(seconds):
        return f"{seconds:.1f}"
    text = digits(seconds)
    return text if "." in text else f"{text}.0"


def clock(seconds: float) -> str:
    """A running time that keeps its width: `0:07`, `12:41`, `1:02:03`."""
    minutes, rest_s = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest_s:02d}" if hours else f"{minutes}:{rest_s:02d}"


def size(count_bytes: float) -> str:
    """A number of bytes: `512 bytes`, `1.5 GiB`."""
    if abs(count_bytes) < 1023.5:
        return f"{number(count_bytes)} bytes"
    power = 0
    value: float = count_bytes
    while math.isfinite(value) and abs(rounded(value)) >= 1000 and power < len(_BYTE_UNITS) - 1:
        value /= 1024
        power += 1
    return f"{digits(value)} {_BYTE_UNITS[power]}"


def quantity(value: float, unit: str | None = None) -> str:
    """A number with its unit, in the one of its kind that fits if it is a time or a size."""
    if isinstance(value, int) and value.bit_length() > FLOAT_BITS:
        return number(value)
    if unit == "s":
        return duration(value)
    if unit == "bytes":
        return size(value)
    return f"{number(value)} {unit}" if unit else number(value)


def percent(share: float, count: int = 3) -> str:
    """A share of one: `3.2 %`; one that is very small and not nothing is `< 0.01 %`."""
    if 0 < abs(share) < _SMALLEST_SHARE:
        return f"{'> -' if share < 0 else '< '}0.01 %"
    return f"{digits(share * 100, count)} %"


def change(share: float | None) -> str:
    """A relative change: `+3.2 %`, `-12 %`, and from tenfold on `×12`; `?` if it is not known."""
    if share is None or not math.isfinite(share):
        return "?"
    if share >= _MANY_TIMES:
        return f"×{digits(share + 1)}"
    return percent(share) if share <= 0 or share < _SMALLEST_SHARE else f"+{percent(share)}"


def interval(share: float | None, low: float | None, high: float | None) -> str:
    """A change with what it may be: `+3.2 % (+2.1 % to +4.3 %)`."""
    return (
        change(share) if low is None or high is None else f"{change(share)} ({change(low)} to {change(high)})"
    )


def range_of(low: float | None, high: float | None) -> str:
    """What a change may be: `+2.1 % to +4.3 %`; one that may be anything is unknown."""
    if low is None or high is None or not low <= high < _ANYTHING or low <= -1:
        return "unknown"
    return f"{change(low)} to {change(high)}"


def chance(probability: float) -> str:
    """How likely something is; what is not certain is never said to be: `95 %`, `> 99.9 %`, `< 0.1 %`."""
    if 0.999 < probability < 1:
        return "> 99.9 %"
    return "< 0.1 %" if probability < 0.001 else percent(probability)


def p_value(probability: float | None) -> str:
    """A test's p, which is never 0: `0.012`, `< 0.001`; `?` if it is not known."""
    if probability is None:
        return "?"
    return "< 0.001" if probability < 0.001 else digits(probability, 2)


def spread_note(texts: Sequence[str]) -> tuple[str, ...]:
    """The line that explains `±`, if a text has it."""
    return (SPREAD_NOTE,) if any("±" in text for text in texts) else ()
