"""How measurements, requirements and foreign text look to a reader: short, exact enough, harmless on a terminal."""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from paceline import numbers
from paceline.model import Check, Measurement, Requirement, Scalar, is_number

LONGEST_LINE = 1000
"""Characters of an output line that are looked at: more than any terminal shows."""

SMALLEST_SPREAD = 0.001
"""A spread of samples below this share of their mean is not worth a reader's time."""

_ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, cursor movement
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # window titles, links and other strings
    r"|\x1b[ -/]*.?"
)
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;]*m)")
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_PLAIN_SPELLINGS = str.maketrans(
    {
        "✅": "[ok]",
        "❌": "[failed]",
        "·": "-",
        "…": "...",
        "↑": "^",
        "↓": "v",
        "µ": "u",
        "≥": ">=",
        "≤": "<=",
        "±": "+/-",
        "│": "|",
        "–": "-",
        "→": "->",
        "×": "x",
        "✓": "ok",
        "✗": "failed",
        "▶": ">",
        **dict(zip("▁▂▃▄▅▆▇█", "_.-:=+*#", strict=True)),
    }
)
_BARS = "▁▂▃▄▅▆▇█"
_ARROWS: Mapping[str | None, str] = {"higher": " ↑", "lower": " ↓"}
_SIGNS: Mapping[str, str] = {"exact_value": "=", "min_value": "≥", "max_value": "≤"}


def visible(text: str) -> str:
    """Foreign text on one line, safe to show: no escape sequence, no control or direction character."""
    if text.isascii() and text.isprintable():
        return text
    bare = _ESCAPE_SEQUENCE.sub("", text).replace("\n", " ").replace("\t", "    ")
    return "".join("\ufffd" if unicodedata.category(char) in _UNSAFE_CATEGORIES else char for char in bare)


def cleaned(text: str) -> str:
    """Text of several lines with nothing in it that a terminal obeys, but for colours: for where it is written."""
    return text if text.isprintable() else _OBEYED.sub("\ufffd", text)


def output_line(text: str) -> str:
    """A line of a program's output, as it stands on a terminal after a progress bar overprinted it."""
    return visible(text.rstrip("\r\n").rsplit("\r", 1)[-1][:LONGEST_LINE])


def spelled_for(encoding: str | None, text: str) -> str:
    """The text, with our symbols spelled out where the stream's encoding has none of them."""
    if encoding is None:  # a stream of text, such as StringIO, takes everything
        return text
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN_SPELLINGS).encode(encoding, "backslashreplace").decode(encoding)
    return text


def display_width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of cells as lines whose columns stand under each other."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (text + " " * (width - display_width(text)) for text, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def sparkline(values: Sequence[float]) -> str:
    """The values as bars, the lowest of them the smallest."""
    low, high = min(values), max(values)
    if high == low:
        return _BARS[3] * len(values)
    # Halves first: the difference of two large numbers of unlike sign may be no number any more.
    span = high / 2 - low / 2
    return "".join(_BARS[min(7, int((value / 2 - low / 2) / span * 8))] for value in values)


def quantity(value: Scalar, unit: str | None = None) -> str:
    """A measured value with its unit."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str):
        return visible(value)[:40]
    return numbers.quantity(value, visible(unit) if unit else unit)


def measured(name: str, measurement: Measurement) -> str:
    """A metric for a table: name, value, spread of its samples, and which way is better."""
    value, spread = value_and_spread(name, measurement)
    arrow = _ARROWS.get(measurement.direction, "")
    return f"{visible(measurement.label or name)} {value}{spread and f' {spread}'}{arrow}"


def value_and_spread(name: str, measurement: Measurement) -> tuple[str, str]:
    """A metric's value, and the spread of its samples if that is worth a reader's time."""
    spread = _relative_spread(measurement.samples)
    told = spread is not None and spread >= SMALLEST_SPREAD
    value = quantity(measurement.value, unit_beside(name, measurement.unit))
    return value, f"±{numbers.percent(spread, 2)}" if spread is not None and told else ""


def unit_beside(name: str, unit: str | None) -> str | None:
    """The unit to show next to a metric's name; `words_per_s` says its own."""
    return None if "_per_" in name else unit


def _relative_spread(samples: tuple[Scalar, ...]) -> float | None:
    """Standard deviation over mean; `statistics` would cost more to import than a plan of 100 cases to print."""
    try:
        numbers = [float(x) for x in samples if is_number(x)]
        mean = math.fsum(numbers) / len(numbers) if numbers else 0.0
    except OverflowError:
        return None
    if len(numbers) < 2 or mean == 0 or not math.isfinite(mean):
        return None
    return math.dist(numbers, [mean] * len(numbers)) / math.sqrt(len(numbers) - 1) / abs(mean)


def required(requirement: Requirement, unit: str | None = None) -> str:
    """What a requirement asks for."""
    return _asked(requirement, _value(requirement.bound, unit), requirement.tolerance)


def checked(check: Check, tolerance: float = 0.0, unit: str | None = None) -> str:
    """A requirement and what came: in the words of its judge where it does not hold, else the two values."""
    if not check.ok and check.reason.startswith(check.metric):
        return visible(check.reason)
    bound, actual = _value(check.bound, unit), _value(check.actual, unit)
    if check.kind == "max_regression":
        return f"{_asked(check, bound, tolerance)}: {visible(check.reason) or f'got {actual}'}"
    if check.bound != check.actual and (bound == actual or _are_close(check.bound, check.actual)):
        # Too close for the short forms to show the difference.
        bound, actual = (_exact(value, unit) for value in (check.bound, check.actual))
    came = visible(check.reason) if not check.ok and check.reason else f"got {actual}"
    return f"{_asked(check, bound, tolerance)}: {came}"


def _are_close(bound: Scalar, actual: Scalar) -> bool:
    try:
        return is_number(bound) and is_number(actual) and math.isclose(bound, actual, rel_tol=0.01)
    except OverflowError:
        return False


def tolerance_of(check: Check, requirements: Iterable[Requirement]) -> float:
    """The tolerance of the requirement that a check was made of."""
    same = (one for one in requirements if (one.metric, one.kind) == (check.metric, check.kind))
    return next((one.tolerance for one in same if one.bound == check.bound), 0.0)


def _asked(demand: Requirement | Check, bound: str, tolerance: float) -> str:
    allowed = f" (tolerance {numbers.percent(tolerance)})" if tolerance else ""
    if demand.kind == "max_regression":
        return f"{visible(demand.metric)} at most {_share(demand.bound)} worse than before"
    return f"{visible(demand.metric)} {_SIGNS[demand.kind]} {bound}{allowed}"


def _share(value: Scalar) -> str:
    return numbers.percent(value) if is_number(value) else str(value)


def _value(value: Scalar, unit: str | None) -> str:
    """A bound or what is held against it; quoted if it is text, which may look like a number."""
    return f"'{quantity(value)}'" if isinstance(value, str) else quantity(value, unit)


def _exact(value: Scalar, unit: str | None) -> str:
    """All digits of a value, as far as somebody could read them."""
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return visible(repr(value))
    if isinstance(value, int) and value.bit_length() > numbers.FLOAT_BITS:
        return quantity(value)
    return f"{value!r} {unit}" if unit else repr(value)
