"""A screen asks for a whole look no later than a whole look would find something."""

import numpy as np
import pytest

from paceline.judge import analyse
from paceline.judge.discoveries import FLOOR
from paceline.judge.screen import Screen, make_screen

BEGIN = 61


def series_of(kind: str, rng: np.random.Generator, nights: int) -> np.ndarray:
    noise = {
        "normal": lambda: 0.02 * rng.standard_normal(nights),
        "heavy": lambda: 0.02 * rng.standard_t(3, nights) / np.sqrt(3),
        "rounded": lambda: 0.01 * np.round(1.2 * rng.standard_normal(nights)),
        "skewed": lambda: 0.02 * (rng.gamma(2.0, 1.0, nights) - 2) / np.sqrt(2),
    }[kind]()
    return np.exp(noise)


@pytest.mark.parametrize("kind", ["normal", "heavy", "rounded", "skewed"])
@pytest.mark.parametrize("step", [0.0, 0.02, 0.04, 0.10])
def test_nothing_is_told_later_than_by_whole_looks(kind: str, step: float) -> None:
    rng, nights, skipped = np.random.default_rng(round(1000 * step) + len(kind)), 200, 0
    for _ in range(2):
        values = series_of(kind, rng, nights)
        values[int(rng.integers(70, 150)) :] *= 1 + step
        screen, told_before = None, set[bool]()
        for count in range(BEGIN, nights + 1):
            screen = screen.after(float(values[count - 1])) if screen else None
            analysis = analyse(values[:count])
            told = {one.effect > 0 for one in analysis.changes if one.p_value <= FLOOR}
            if screen is not None:
                skipped += 1
                assert told <= told_before, (count, told)
            else:
                told_before |= told
                screen = make_screen(values[:count].tolist(), analysis, sure=FLOOR)
    assert skipped > (100 if step == 0 else 20)


@pytest.mark.parametrize("kind", ["normal", "heavy", "rounded", "skewed"])
def test_a_glance_misses_nothing_that_is_sure(kind: str) -> None:
    rng, closely = np.random.default_rng(len(kind)), 0
    for number in range(60):
        values = series_of(kind, rng, int(rng.integers(15, 300)))
        values[int(rng.integers(3, len(values) - 2)) :] *= 1 + (0.0, 0.03, 0.10)[number % 3]
        whole, glance = analyse(values), analyse(values, only_sure=True)
        sure = [one for one in whole.changes if one.p_value <= 1 / 300]
        assert [one for one in glance.changes if one.p_value <= 1 / 300] == sure
        closely += bool(glance.changes) or glance.score > 3.7
    assert closely < 55


def test_a_young_a_changed_and_a_negative_series_have_no_screen() -> None:
    rng = np.random.default_rng(1)
    young, stepped = np.exp(0.01 * rng.standard_normal(40)), np.exp(0.01 * rng.standard_normal(120))
    stepped[90:] *= 1.1
    for values in (young, stepped, stepped - 1, np.ones(120)):
        assert make_screen(values.tolist(), analyse(values), sure=FLOOR) is None


def test_a_value_that_has_no_logarithm_asks_for_a_look() -> None:
    screen = Screen(level=0.0, scale=0.01, averages=(0.0,) * 6, left=5)
    assert screen.after(0.0) is None and screen.after(-1.0) is None
    assert screen.after(1.001) == Screen(level=0.0, scale=0.01, averages=screen.after(1.001).averages, left=4)
