"""A growing series, and many at once, get the answers that the function gives for one."""

from bisect import bisect

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.judge import Detector, change_points, change_points_of_many

finite = st.floats(allow_nan=False, allow_infinity=False)
# Few different values make series with plateaus, ties and steps.
coarse = st.sampled_from([0.0, 1.0, 1.01, 1.5, 2.0, 100.0])


@given(st.lists(finite, max_size=40) | st.lists(coarse, max_size=40), st.lists(finite | coarse, max_size=12))
@settings(max_examples=60)
def test_a_growing_series_is_judged_like_a_whole_one(start: list[float], more: list[float]) -> None:
    detector = Detector(start)
    assert detector.change_points == change_points(start)
    for length, value in enumerate(more, len(start) + 1):
        detector.append(value)
        assert detector.change_points == change_points([*start, *more][:length])


@given(st.integers(0, 2**32 - 1), st.integers(8, 700), st.integers(1, 60), st.floats(0, 0.2))
@settings(max_examples=25)
def test_so_is_one_with_noise_and_steps(seed: int, length: int, added: int, size: float) -> None:
    random = np.random.default_rng(seed)
    series = (
        10 + random.normal(0, 0.2, length + added).cumsum() * size + random.normal(0, 0.2, length + added)
    )
    series[length // 2 :] += random.normal(0, 1)
    detector = Detector(series[:length])
    for value in series[length:]:
        detector.append(value)
    assert detector.change_points == change_points(series)


def test_so_is_one_that_is_long() -> None:
    """Beyond a thousand points a series is judged in overlapping windows, of which only the last is looked at anew."""
    random = np.random.default_rng(6)
    series = random.normal(100, 1, 2700)
    for place in (200, 766, 769, 1280, 1900, 2305):
        series[place:] += 8 * random.choice([-1, 1])
    detector = Detector(series[:1000])
    for length in range(1000, 2700):
        if length % 97 == 0:
            assert detector.change_points == change_points(series[:length])
        detector.append(series[length])
    assert detector.change_points == change_points(series)
    found = [point.index for point in detector.change_points]
    assert all(min(abs(index - place) for index in found) <= 3 for place in (200, 766, 1280, 1900, 2305))


def test_so_is_one_whose_values_come_in_any_order() -> None:
    random = np.random.default_rng(7)
    series = random.normal(100, 1, 2400)
    for place in (300, 1100, 1900):
        series[place:] += 8
    detector, seen = Detector(), list[int]()
    for count, newest in enumerate(random.permutation(2400).tolist(), start=1):
        at = bisect(seen, newest)
        seen.insert(at, newest)
        detector.insert(at, series[newest])
        if count % 160 == 0:
            assert detector.change_points == change_points(series[seen])
    assert {300, 1100, 1900} <= {point.index for point in detector.change_points}


def test_what_was_appended_is_not_what_the_caller_holds() -> None:
    values = np.array([1.0] * 10)
    detector = Detector(values)
    values[5:] = 2.0
    assert detector.change_points == ()


def test_many_series_keep_their_order() -> None:
    random = np.random.default_rng(2)
    many = [random.normal(100, 1, length) for length in (0, 5, 40, 80, 40)]
    many[3][40:] += 10
    expected = [change_points(series) for series in many]
    assert expected[3]
    assert change_points_of_many(many) == expected
    assert change_points_of_many(iter(many), jobs=2) == expected
    assert change_points_of_many([]) == []
