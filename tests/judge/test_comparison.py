"""Comparisons of two sets of measurements: error rates on seeded noise, and what holds for any numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import PacelineError
from paceline.judge.comparison import compare, student_quantile

values = st.floats(-1e9, 1e9, allow_nan=False)
positive = st.floats(1e-9, 1e9)


@given(st.lists(values, min_size=1, max_size=30), st.lists(values, min_size=1, max_size=30))
def test_the_ratio_lies_in_its_interval(baseline: list[float], candidate: list[float]) -> None:
    found = compare(baseline, candidate)
    assert found.low <= found.ratio <= found.high
    assert found.minimum_detectable >= 0
    assert math.isfinite(found.ratio)


@given(st.lists(positive, min_size=1, max_size=30), st.lists(positive, min_size=1, max_size=30))
def test_turning_the_sides_or_the_direction_turns_the_verdict(
    baseline: list[float], candidate: list[float]
) -> None:
    turned = {"better": "worse", "worse": "better", "same": "same", "inconclusive": "inconclusive"}
    verdict = compare(baseline, candidate).verdict
    assert compare(baseline, candidate, higher_is_better=True).verdict == turned[verdict]
    assert compare(candidate, baseline).verdict == turned[verdict]


@given(st.lists(positive, min_size=2, max_size=20), st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(baseline: list[float], factor: float) -> None:
    candidate = [value * 1.2 for value in baseline]
    scaled = compare([value * factor for value in baseline], [value * factor for value in candidate])
    assert scaled.ratio == pytest.approx(compare(baseline, candidate).ratio, rel=1e-6)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("count", [5, 20])
def test_equal_sides_are_called_different_in_one_of_twenty_cases(paired: bool, count: int) -> None:
    random = np.random.default_rng(11)
    different = sum(
        compare(random.normal(100, 2, count), random.normal(100, 2, count), paired=paired).verdict
        in ("better", "worse")
        for _ in range(400)
    )
    assert different / 400 <= 0.075  # 5 % and three standard errors


def test_pairs_see_through_drift() -> None:
    random = np.random.default_rng(12)
    drift = np.linspace(100, 130, 20)
    first, second = drift + random.normal(0, 0.5, 20), drift * 1.05 + random.normal(0, 0.5, 20)
    assert compare(first, second, paired=True).verdict == "worse"
    assert compare(first, second).verdict == "inconclusive"


def test_a_start_counts_once() -> None:
    """Two lucky starts with a thousand values each say less than they seem to."""
    random = np.random.default_rng(13)
    baseline = [random.normal(level, 0.1, 1000) for level in (100, 104)]
    candidate = [random.normal(level, 0.1, 1000) for level in (103, 106)]
    assert compare(baseline, candidate).verdict == "inconclusive"
    flat = compare(np.concatenate(baseline), np.concatenate(candidate))
    assert flat.high - flat.low < compare(baseline, candidate).high - compare(baseline, candidate).low


def test_verdicts_and_what_could_have_been_seen() -> None:
    random = np.random.default_rng(14)
    baseline = random.normal(100, 1, 20)
    slower = compare(baseline, random.normal(105, 1, 20))
    assert slower.verdict == "worse"
    assert slower.ratio == pytest.approx(1.05, abs=0.01)
    alike = compare(baseline, random.normal(100, 1, 20))
    assert alike.verdict == "same"
    assert (
        0.03 < alike.minimum_detectable < 0.04
    )  # what is smaller than the margin is not called a difference
    noisy = compare(random.normal(100, 30, 5), random.normal(100, 30, 5))
    assert noisy.verdict == "inconclusive"
    assert noisy.minimum_detectable > 0.2


def test_the_minimum_detectable_change_is_found_in_four_of_five_cases() -> None:
    random = np.random.default_rng(15)
    detectable = np.median(
        [compare(random.normal(100, 2, 15), random.normal(100, 2, 15)).minimum_detectable for _ in range(100)]
    )
    found = sum(
        compare(random.normal(100, 2, 15), random.normal(100, 2, 15) * (1 + detectable)).verdict == "worse"
        for _ in range(300)
    )
    assert 0.7 <= found / 300 <= 0.9


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (1000, 1.9623)],
)
def test_student_quantiles(freedom: int, expected: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(expected, abs=2e-4)


def test_wrong_use_is_one_clear_line() -> None:
    with pytest.raises(PacelineError, match="the candidate has no values"):
        compare([1.0], [])
    with pytest.raises(PacelineError, match="not finite"):
        compare([1.0, math.nan], [1.0])
    with pytest.raises(PacelineError, match="3 of the baseline, 2 of the candidate"):
        compare([1.0, 2.0, 3.0], [1.0, 2.0], paired=True)
