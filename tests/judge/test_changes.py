"""Change points: what must hold for any series, and how often the detector is right on seeded noise."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.judge.changes import ChangePoint, change_points, p_value

LENGTH = 200
STEP_AT = 150

finite = st.floats(allow_nan=False, allow_infinity=False)
Noise = Callable[[np.random.Generator, int], np.ndarray]


def gaussian(random: np.random.Generator, length: int) -> np.ndarray:
    return random.normal(0, 0.02, length)


def spiky(random: np.random.Generator, length: int) -> np.ndarray:
    spikes = (random.random(length) < 0.03) * random.uniform(0.15, 0.5, length)
    return gaussian(random, length) + spikes


def correlated(random: np.random.Generator, length: int) -> np.ndarray:
    innovations = random.normal(0, 0.02 * math.sqrt(0.75), length + 50)
    for i in range(1, len(innovations)):
        innovations[i] += 0.5 * innovations[i - 1]
    return innovations[50:]


def two_modes(random: np.random.Generator, length: int) -> np.ndarray:
    return gaussian(random, length) + 0.06 * (random.random(length) < 0.5)


def weekly(random: np.random.Generator, length: int) -> np.ndarray:
    return gaussian(random, length) + np.resize([0, 0, 0, 0, 0, 0.04, 0.04], length)


def lopsided(random: np.random.Generator, length: int) -> np.ndarray:
    return 0.01 * np.exp(random.normal(0, 1, length))


def drifting(random: np.random.Generator, length: int) -> np.ndarray:
    return gaussian(random, length) + np.linspace(0, 0.1, length)


NOISES = [gaussian, spiky, correlated, two_modes, weekly, lopsided, drifting]


def near_step(found: tuple[ChangePoint, ...]) -> bool:
    return any(abs(point.index - STEP_AT) <= 10 for point in found)


@given(st.lists(finite, max_size=60))
def test_any_finite_series_is_taken(values: list[float]) -> None:
    found = change_points(values)
    assert [point.index for point in found] == sorted({point.index for point in found})
    for point in found:
        assert 3 <= point.index <= len(values) - 3
        assert math.isfinite(point.effect)
        assert 0 <= point.p_value <= 1


@given(finite, st.integers(0, 300))
def test_a_constant_has_no_change(value: float, length: int) -> None:
    assert change_points([value] * length) == ()


@given(st.floats(0.01, 1e6), st.floats(1.001, 100), st.integers(6, 60), st.integers(6, 60))
def test_a_step_without_noise_is_found_where_it_is(
    level: float, factor: float, before: int, after: int
) -> None:
    (point,) = change_points([level] * before + [level * factor] * after)
    assert point.index == before
    assert point.effect == pytest.approx(factor - 1, rel=1e-6)
    assert point.p_value < 1e-6


@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6))
@settings(max_examples=25)
def test_the_unit_does_not_matter(seed: int, factor: float) -> None:
    random = np.random.default_rng(seed)
    series = 1 + gaussian(random, 120)
    series[80:] *= 1.1
    places = [point.index for point in change_points(series)]
    assert [point.index for point in change_points(series * factor)] == places


def test_the_same_series_always_gets_the_same_answer() -> None:
    series = 1 + spiky(np.random.default_rng(3), LENGTH)
    series[STEP_AT:] *= 1.05
    assert change_points(series) == change_points(list(series))


@pytest.mark.parametrize("noise", NOISES)
def test_false_alarms_are_rare(noise: Noise) -> None:
    random = np.random.default_rng(20)
    alarms = sum(len(change_points(100 * (1 + noise(random, LENGTH)))) for _ in range(100))
    assert alarms / (100 * LENGTH) <= 1 / 1000


@pytest.mark.parametrize(
    ("noise", "share"), [(gaussian, 0.95), (spiky, 0.85), (correlated, 0.75), (two_modes, 0.75)]
)
def test_a_small_step_is_found_within_fifteen_nights(noise: Noise, share: float) -> None:
    random = np.random.default_rng(21)
    found = 0
    for _ in range(100):
        series = 100 * (1 + noise(random, STEP_AT + 15))
        series[STEP_AT:] *= 1.05
        found += near_step(change_points(series))
    assert found / 100 >= share


def test_a_spike_is_no_change() -> None:
    series = 1 + gaussian(np.random.default_rng(5), LENGTH)
    series[60] *= 3
    series[120] *= 0.2
    assert change_points(series) == ()


def test_a_steady_drift_is_no_step_and_a_step_on_it_is_one() -> None:
    alarms = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        drift = 1 + gaussian(random, LENGTH) / 2 + np.linspace(0, 0.05, LENGTH)
        alarms += len(change_points(drift)) > 0
        drift[STEP_AT:] += 0.1
        assert near_step(change_points(drift))
    assert alarms <= 2


def test_a_slow_wave_is_no_step() -> None:
    alarms = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        wave = 0.03 * np.sin(np.arange(LENGTH) * 2 * np.pi / 60 + seed)
        alarms += len(change_points(1 + wave + gaussian(random, LENGTH))) > 0
    assert alarms <= 3


def test_several_steps_are_told_apart() -> None:
    series = 1 + gaussian(np.random.default_rng(7), 300)
    series[100:200] *= 1.1
    first, second = change_points(series)
    assert abs(first.index - 100) <= 1
    assert abs(second.index - 200) <= 1
    assert first.effect == pytest.approx(0.1, abs=0.02)
    assert second.effect == pytest.approx(1 / 1.1 - 1, abs=0.02)


@pytest.mark.parametrize("size", [0.1, 0.3])
def test_regressions_that_were_soon_repaired_are_told(size: float) -> None:
    values = 100 * np.random.default_rng(4).normal(1, 0.02, 365)
    begins = (60, 170, 290)
    for begin in begins:
        values[begin : begin + 10] *= 1 + size
    found = [point.index for point in change_points(values)]
    assert found == pytest.approx([place for begin in begins for place in (begin, begin + 10)], abs=1)


def test_states_that_come_and_go_all_the_time_are_noise() -> None:
    random = np.random.default_rng(5)
    states = np.repeat(np.where(random.random(80) < 0.12, 1.05, 1.0), 5)
    values = 100 * states * random.normal(1, 0.01, 400)
    assert change_points(values) == ()
    values[300:] *= 1.15
    assert any(abs(point.index - 300) <= 5 for point in change_points(values))


def test_levels_around_zero_and_below() -> None:
    random = np.random.default_rng(8)
    (point,) = change_points(np.concatenate((random.normal(-10, 0.1, 50), random.normal(-5, 0.1, 50))))
    assert point.index == 50
    assert point.effect == pytest.approx(-0.5, abs=0.05)


def test_the_p_value_falls_with_the_score_and_grows_with_the_search() -> None:
    assert p_value(4, 200) > p_value(5, 200) > p_value(6, 200)
    assert p_value(4, 1000) > p_value(4, 200)
    assert p_value(0, 200) == 1


@pytest.mark.parametrize("length", [50, 200])
def test_the_p_value_is_calibrated_on_white_noise(length: int) -> None:
    """Of 300 series without a change, those with a p-value of at most 5 % are few."""
    random = np.random.default_rng(9)
    least = [
        min((point.p_value for point in change_points(random.normal(100, 1, length))), default=1.0)
        for _ in range(300)
    ]
    assert sum(value <= 0.05 for value in least) / 300 <= 0.05


@pytest.mark.parametrize("before", [6, 12, 30])
def test_a_large_step_is_seen_after_three_points(before: int) -> None:
    """A row of three is no spike in a series that has none; without noise, five points before it are enough."""
    quiet = [100.0] * before
    assert [point.index for point in change_points([*quiet, 150.0, 150.0, 150.0])] == [before]
    source = random.Random(before)
    noisy = [source.gauss(100, 1) for _ in range(30)] + [source.gauss(120, 1) for _ in range(3)]
    assert [point.index for point in change_points(noisy)] == [30]


def test_a_row_of_spikes_is_not_a_step_where_spikes_are_usual() -> None:
    source = random.Random(4)
    values = [source.gauss(100, 1) * (1.3 if number % 9 == 5 else 1) for number in range(60)]
    assert change_points([*values, 130.0, 131.0, 129.0]) == ()
