"""One formatter for all numbers: what it writes is short, has no needless exponent, and is true."""

import ast
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import numbers
from source_trees import nodes_of

UNITS = (None, "s", "bytes", "ops", "words_per_s")
FACTORS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "bytes": 1.0}
FACTORS |= {unit: 1024.0**power for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB", "PiB"), 1)}
MAGNITUDES = st.floats(1e-9, 1e15, exclude_max=True) | st.floats(-9, 14.99).map(lambda power: 10**power)
READABLE = st.tuples(MAGNITUDES, st.sampled_from((1, -1))).map(lambda pair: pair[0] * pair[1])


def read(text: str) -> float:
    """The number that a reader takes from it."""
    sign = -1 if text.startswith("-") else 1
    parts = re.findall(r"([\d.]+) ?([A-Za-zµ]*)", text.replace(",", ""))
    return sign * sum(float(value) * FACTORS.get(unit, 1.0) for value, unit in parts)


def significant(text: str) -> int:
    """How many digits of a decimal number say something."""
    whole, point, rest = text.lstrip("-").replace(",", "").partition(".")
    return len(f"{whole}{rest}".lstrip("0")) if point else len(whole.lstrip("0").rstrip("0"))


@given(READABLE, st.sampled_from(UNITS))
def test_a_quantity_has_no_exponent_and_is_true_within_half_a_percent(value: float, unit: str | None) -> None:
    text = numbers.quantity(value, unit)
    assert not re.search(r"\de[+-]?\d", text), text
    assert math.isclose(read(text), value, rel_tol=0.005), text
    if not value.is_integer() and not re.search(r"\d[hm] ", text):
        assert significant(text.split(" ")[0]) <= 3, text


@given(READABLE, st.integers(2, 9))
def test_a_number_has_at_most_the_digits_asked_for(value: float, count: int) -> None:
    text = numbers.digits(value, count)
    assert significant(text) <= count
    assert math.isclose(read(text), value, rel_tol=0.6 * 10 ** (1 - count))


@given(st.floats(), st.sampled_from(UNITS))
def test_any_float_has_a_text(value: float, unit: str | None) -> None:
    assert numbers.quantity(value, unit)
    assert numbers.change(value)
    assert numbers.percent(value)


@given(st.integers())
def test_a_whole_number_has_all_its_digits(value: int) -> None:
    assert numbers.number(value).replace(",", "") == str(value)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.9996, "s", "1.00 s"),
        (0.9994, "s", "999 ms"),
        (1.0, "s", "1 s"),
        (0.0009996, "s", "1.00 ms"),
        (4.2e-7, "s", "420 ns"),
        (4e-10, "s", "0.4 ns"),
        (0.00004, "s", "40 µs"),
        (0, "s", "0 s"),
        (-0.5, "s", "-500 ms"),
        (59.96, "s", "60.0 s"),
        (119.6, "s", "2m 00s"),
        (192.4, "s", "3m 12s"),
        (3629, "s", "1h 00m 29s"),
        (7529, "s", "2h 05m"),
        (-7529, "s", "-2h 05m"),
        (float("nan"), "s", "nan s"),
        (float("inf"), "s", "inf s"),
        (float("-inf"), "bytes", "-inf bytes"),
        (0, "bytes", "0 bytes"),
        (1023, "bytes", "1,023 bytes"),
        (1024, "bytes", "1 KiB"),
        (1023.9 * 1024, "bytes", "1.00 MiB"),
        (1000 * 1024, "bytes", "0.977 MiB"),
        (-1536, "bytes", "-1.5 KiB"),
        (1e15, "bytes", "909 TiB"),
        (0.00004, None, "0.00004"),
        (0.0000412345, None, "0.0000412"),
        (0, None, "0"),
        (-0.0, None, "0"),
        (999.6, None, "1,000"),
        (1000, "ops", "1,000 ops"),
        (12345, None, "12,345"),
        (12345.6, None, "12,300"),
        (1e20, None, "1e+20"),
        (1e-12, None, "1e-12"),
        (10**400, None, "about 1e400"),
        (-(10**400), "s", "about -1e400"),
    ],
)
def test_dull_values(value: float, unit: str | None, text: str) -> None:
    assert numbers.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.032, "+3.2 %"),
        (-0.12345, "-12.3 %"),
        (0.2, "+20 %"),
        (0, "0 %"),
        (1e-7, "< 0.01 %"),
        (-1e-7, "> -0.01 %"),
        (0.99996, "+100 %"),
        (2.5, "+250 %"),
        (9.994, "+999 %"),
        (11, "×12"),
        (1234567.0, "×1,230,000"),
        (None, "?"),
        (float("nan"), "?"),
        (float("inf"), "?"),
    ],
)
def test_changes_have_one_style(share: float | None, text: str) -> None:
    assert numbers.change(share) == text


def test_shares_chances_and_p() -> None:
    assert [numbers.percent(share) for share in (0.5, 0.0321, 1e-9, 0)] == [
        "50 %",
        "3.21 %",
        "< 0.01 %",
        "0 %",
    ]
    assert [numbers.chance(p) for p in (0, 0.5, 0.95, 0.9996, 1)] == [
        "< 0.1 %",
        "50 %",
        "95 %",
        "> 99.9 %",
        "100 %",
    ]
    assert [numbers.p_value(p) for p in (0, 1e-30, 0.0123, 0.5)] == ["< 0.001", "< 0.001", "0.012", "0.5"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (50.8, "50.8"),
        (50.84, "50.8"),
        (0.0041234, "0.00412"),
        (2, "2.0"),
        (1.25, "1.25"),
        (0, "0.0"),
        (3600, "3600.0"),
    ],
)
def test_the_seconds_of_a_log_keep_their_form(seconds: float, text: str) -> None:
    assert numbers.seconds_text(seconds) == text
    assert re.fullmatch(r"\d+\.\d+", text)


OWN_FORMATS = {
    "numbers.py",
    "run/local/warden.py",  # imports nothing, as what it spawns starts out with its size
    "run/task_metrics.py",  # a bound of ours in whole seconds
    "asv/child.py",  # runs in the suite's own Python and imports little
    "dashboard/incidents.py",  # rounds for JSON
}


def test_nobody_else_writes_shares_and_significant_digits() -> None:
    source = Path(numbers.__file__).parent
    wrong = [
        f"{path}:{node.lineno}"
        for path in sorted(source.rglob("*.py"))
        if str(path.relative_to(source)) not in OWN_FORMATS
        for node in nodes_of(path)
        if isinstance(node, ast.FormattedValue)
        and node.format_spec is not None
        and re.search(r"[ge%]'$", ast.unparse(node.format_spec))
    ]
    assert not wrong, "use paceline.numbers"
