"""False discoveries among many tests: their share, also when the tests depend on each other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import PacelineError
from paceline.judge import select_discoveries

p_values = st.lists(st.floats(0, 1), max_size=50)


@given(p_values, st.floats(0.001, 0.5))
def test_smaller_p_values_are_chosen_first(values: list[float], rate: float) -> None:
    chosen = select_discoveries(values, rate)
    assert len(chosen) == len(values)
    believed = [value for value, is_chosen in zip(values, chosen, strict=True) if is_chosen]
    rejected = [value for value, is_chosen in zip(values, chosen, strict=True) if not is_chosen]
    assert max(believed, default=0) <= min(rejected, default=1)
    assert all(value <= rate for value in believed)


@given(p_values)
def test_a_stricter_rate_believes_no_more(values: list[float]) -> None:
    strict, loose = select_discoveries(values, 0.01), select_discoveries(values, 0.1)
    assert all(theirs or not ours for ours, theirs in zip(strict, loose, strict=True))


def test_one_test_is_held_against_the_rate_itself() -> None:
    assert select_discoveries([0.05]) == (True,)
    assert select_discoveries([0.051]) == (False,)
    assert select_discoveries([]) == ()


def test_the_steps_of_the_rule() -> None:
    """Of four tests the i-th smallest is held against 0.05 · i / (4 · 25/12)."""
    assert select_discoveries([0.7, 0.0059, 0.0119, 0.0]) == (False, True, True, True)
    assert select_discoveries([0.7, 0.0061, 0.0179, 0.9]) == (False, False, False, False)


@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_few_discoveries_are_false_even_when_tests_share_their_noise(shared: float) -> None:
    random = np.random.default_rng(4)
    shares = []
    for _ in range(200):
        noise = math.sqrt(1 - shared) * random.normal(0, 1, 500) + math.sqrt(shared) * random.normal()
        noise[:25] += 6
        p = [math.erfc(abs(score) / math.sqrt(2)) for score in noise]
        chosen = select_discoveries(p)
        shares.append(sum(chosen[25:]) / max(sum(chosen), 1))
        if not shared:
            assert sum(chosen[:25]) >= 20
    assert np.mean(shares) <= 0.05


@pytest.mark.parametrize("wrong", [[-0.1], [1.1], [math.nan]])
def test_wrong_use_is_one_clear_line(wrong: list[float]) -> None:
    with pytest.raises(PacelineError, match="p-values lie between 0 and 1"):
        select_discoveries(wrong)
