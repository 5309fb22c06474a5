"""A series that is looked at every night: it raises no false alarms, and a step that was found stays."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from paceline.judge import ChangePoint, analyse, change_points
from paceline.judge.discoveries import FLOOR

BELIEVED = 1e-4
Noise = Callable[[np.random.Generator, int], np.ndarray]


def normal(random: np.random.Generator, nights: int) -> np.ndarray:
    return random.normal(0, 0.02, nights)


def moody(random: np.random.Generator, nights: int) -> np.ndarray:
    """A level that goes its own way for some days, beside the noise of a night."""
    mood = random.normal(0, 0.02 * np.sqrt(1 - 0.8**2), nights)
    mood[0] = random.normal(0, 0.02)
    for before, night in itertools.pairwise(range(nights)):
        mood[night] += 0.8 * mood[before]
    return mood + normal(random, nights)


def two_modes(random: np.random.Generator, nights: int) -> np.ndarray:
    return 0.05 * (random.random(nights) < 0.4) + normal(random, nights) / 2


def spiky(random: np.random.Generator, nights: int) -> np.ndarray:
    return normal(random, nights) + (random.random(nights) < 1 / 12) * random.uniform(0.1, 0.4, nights)


def heavy_tailed(random: np.random.Generator, nights: int) -> np.ndarray:
    return 0.02 / np.sqrt(3) * random.standard_t(3, nights)


def skewed(random: np.random.Generator, nights: int) -> np.ndarray:
    return 0.02 / np.sqrt(2) * (random.gamma(2, 1, nights) - 2)


def near(found: tuple[ChangePoint, ...], place: int, within: int = 5) -> list[ChangePoint]:
    return [one for one in found if abs(one.index - place) <= within]


def alarms(values: np.ndarray, every: int) -> int:
    """How often a look shows a change that one believes and that no look before showed."""
    known: list[int] = []
    count = 0
    for length in range(15, len(values) + 1, every):
        for one in change_points(values[:length]):
            if one.p_value < BELIEVED:
                count += not any(abs(one.index - place) <= 5 for place in known)
                known.append(one.index)
    return count


@pytest.mark.parametrize(("noise", "most"), [(moody, 3), (two_modes, 0), (spiky, 0)])
def test_quiet_series_raise_hardly_any_alarm(noise: Noise, most: int) -> None:
    random = np.random.default_rng(17)
    series = [100 * (1 + noise(random, 120)) for _ in range(30)]
    assert sum(alarms(values, every=3) for values in series) <= most


def test_a_step_is_seen_within_a_week_and_stays() -> None:
    random = np.random.default_rng(18)
    seen = looks = there = 0
    for _ in range(40):
        values = 100 * (1 + normal(random, 120))
        values[100:] *= 1.08
        hits = [bool(near(change_points(values[:length]), 100)) for length in range(103, 121)]
        seen += any(hits[:5])
        looks += len(hits[hits.index(True) :])
        there += sum(hits[hits.index(True) :])
    assert seen >= 39
    assert there / looks >= 0.99


@pytest.mark.parametrize("noise", [normal, spiky, heavy_tailed, skewed, two_modes, moody])
def test_a_step_lies_in_its_bracket(noise: Noise) -> None:
    random = np.random.default_rng(19)
    inside = found = 0
    for _ in range(60):
        values = 1 + noise(random, 114)
        values[100:] *= 1.1
        for one in near(change_points(values), 100, within=15):
            found += 1
            inside += one.first <= 100 <= one.last
    assert found >= 50 and inside / found >= 0.93


def test_a_spike_beside_a_step_does_not_move_it() -> None:
    random = np.random.default_rng(20)
    inside, widths = 0, []
    for _ in range(60):
        values = 1 + normal(random, 70)
        values[45:] *= 1.12
        values[43] = 1.3
        one = min(near(change_points(values), 45), key=lambda one: abs(one.index - 45))
        inside += one.first <= 45 <= one.last
        widths.append(one.last - one.first)
    assert inside >= 57
    assert sorted(widths)[30] <= 1


@pytest.mark.parametrize("days_a_level", [5, 8, 15])
def test_a_restless_series_is_quiet_and_says_how_restless_it_is(days_a_level: int) -> None:
    for seed in range(6):
        random = np.random.default_rng(seed)
        levels = random.normal(0, 0.08, 365).repeat(random.geometric(1 / days_a_level, 365))[:365]
        analysis = analyse(np.exp(levels) * (1 + random.normal(0, 0.01, 365)))
        assert len(analysis.changes) <= 3
        assert 0.01 < analysis.unrest < 0.3
        changed = np.exp(levels) * np.where(np.arange(365) < 200, 1.0, 1.8)
        assert near(change_points(changed * (1 + random.normal(0, 0.01, 365))), 200, within=15)


def test_a_quiet_series_is_not_restless() -> None:
    values = 100 + np.random.default_rng(3).normal(0, 2, 200)
    values[120:] += 10
    assert analyse(values).unrest == 0.0 and analyse(values).drift is None


def test_a_slow_drift_is_told_with_its_slope() -> None:
    told = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        analysis = analyse(100 * (1 + normal(random, 200) + np.linspace(0, 0.1, 200)))
        if analysis.drift is not None and not analysis.changes:
            told += 1
            assert analysis.drift.slope == pytest.approx(0.0005, rel=0.35)
            assert analysis.drift.effect == pytest.approx(0.1, abs=0.035)
            assert analysis.drift.p_value < 1e-3
    assert told >= 18
    quiet = [analyse(100 * (1 + normal(np.random.default_rng(seed), 200))) for seed in range(40)]
    assert sum(one.drift is not None for one in quiet) <= 1


def test_a_week_is_seven_days_where_days_are_known() -> None:
    """Every fifth night is missing, so seven points are no week."""
    random = np.random.default_rng(21)
    days = np.flatnonzero(random.random(300) > 0.2)
    values = 100 * (1 + 0.06 * (days % 7 >= 5) + random.normal(0, 0.01, len(days)))
    place = len(days) - 12
    values[place:] *= 1.03
    by_days, by_points = change_points(values, days), change_points(values)
    assert near(by_days, place) and len(by_days) == 1
    assert by_days[0].p_value < min((one.p_value for one in near(by_points, place)), default=1.0)
    assert change_points(values, range(len(values))) == by_points


def test_a_drift_that_begins_late_and_ends_is_told_while_it_lasts_and_seldom_as_steps() -> None:
    """Flat, 10 % over 200 nights, and flat again, looked at every eighth night."""
    as_steps = 0
    for seed in range(8):
        random = np.random.default_rng([seed, 5])
        begin = int(random.integers(30, 90))
        ramp = np.clip((np.arange(330) - begin) / 200, 0, 1)
        values = 100 * (1 + 0.1 * ramp) * (1 + 0.02 * random.standard_normal(330))
        looks = {length: analyse(values[:length]) for length in range(40, 331, 8)}
        told = [length for length, one in looks.items() if one.drift and one.drift.effect >= 0.03]
        assert begin + 30 < told[0] < begin + 150
        last = looks[328].drift
        assert last is not None and abs(last.end - last.begin - 200) <= 80
        assert last.effect == pytest.approx(0.1, abs=0.035)
        as_steps += any(point.p_value <= FLOOR for one in looks.values() for point in one.changes)
    assert as_steps <= 4
