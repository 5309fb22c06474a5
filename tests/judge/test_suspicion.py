"""Suspicions about the newest values: rare where nothing changed, quick where something did."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.judge import suspect_tail


def quiet(seed: int, length: int, noise: float = 0.02) -> list[float]:
    source = random.Random(seed)
    return [100 * source.gauss(1, noise) for _ in range(length)]


def test_a_series_that_does_not_change_is_seldom_suspected() -> None:
    looks = [suspect_tail(quiet(seed, length)) for seed in range(40) for length in range(8, 40)]
    assert sum(look is not None for look in looks) / len(looks) <= 0.03


def test_most_steps_of_three_deviations_are_suspected_within_four_nights() -> None:
    found = [
        suspect_tail([*quiet(seed, 15), *[106 + v - 100 for v in quiet(seed + 999, 4)]])
        for seed in range(100)
    ]
    assert sum(look is not None for look in found) >= 75
    assert all(look is None or 0.02 < look.effect < 0.12 for look in found)


def test_the_step_is_placed_where_it_looks_worst() -> None:
    look = suspect_tail([*quiet(1, 20), 120, 121, 119])
    assert look is not None
    assert look.index == 20
    assert look.effect == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("values", [[], [1.0], [1, 2, 3, 4, 5, 6], [5.0] * 20, [0.0] * 10, [-1.0] * 9])
def test_too_few_or_constant_values_are_not_suspected(values: list[float]) -> None:
    assert suspect_tail(values) is None


def test_worse_is_what_the_direction_says() -> None:
    slower, faster = [*quiet(2, 12), 130, 131], [*quiet(2, 12), 70, 71]
    assert suspect_tail(slower) and not suspect_tail(faster)
    assert suspect_tail(faster, higher_is_better=True) and not suspect_tail(slower, higher_is_better=True)


def test_a_spike_of_a_few_nights_ago_is_none_of_tonights_business() -> None:
    assert suspect_tail([*quiet(3, 15), 160, 100]) is None


def test_the_smallest_differences_do_not_matter() -> None:
    assert suspect_tail([100.0, 100.001] * 10 + [100.5]) is None


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=40), st.booleans())
def test_any_finite_series_can_be_looked_at(values: list[float], higher: bool) -> None:
    look = suspect_tail(values, higher_is_better=higher)
    if look is not None:
        assert 0 <= look.index < len(values)
        assert math.isfinite(look.effect)
        assert look.score >= 3
