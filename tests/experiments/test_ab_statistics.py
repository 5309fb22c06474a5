"""Orders, looks, and how often an A/B test errs: all on numbers, nothing is run."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.experiments.ab.blocks import level_of, look_blocks, order_of
from paceline.experiments.ab.tally import Tally, Trial
from paceline.model import Verdict

ARMS = st.lists(st.text(min_size=1, max_size=5), min_size=2, max_size=6, unique=True)
Noise = Callable[[np.random.Generator, int], np.ndarray]


@given(arms=ARMS, seed=st.integers(0, 2**40), square=st.integers(0, 50))
def test_every_arm_has_every_turn_equally_often(arms: list[str], seed: int, square: int) -> None:
    count = len(arms)
    orders = [order_of(square * count + row, arms, seed) for row in range(count)]
    for order in orders:
        assert sorted(order) == sorted(arms)
    for turn in range(count):
        assert sorted(order[turn] for order in orders) == sorted(arms)


@given(arms=ARMS, seed=st.integers(0, 2**40), block=st.integers(0, 500))
def test_the_seed_alone_decides_an_order(arms: list[str], seed: int, block: int) -> None:
    assert order_of(block, arms, seed) == order_of(block, list(arms), seed)


def test_orders_are_random() -> None:
    first = Counter(order_of(0, ["a", "b", "c"], seed) for seed in range(3000))
    assert len(first) == 6
    assert min(first.values()) > 400


@given(max_blocks=st.integers(1, 5000))
def test_looks_rise_and_end_with_the_budget(max_blocks: int) -> None:
    looks = look_blocks(max_blocks)
    assert list(looks) == sorted(set(looks))
    assert looks[-1] == max_blocks
    assert len(looks) <= 20
    assert 0.95 <= level_of(len(looks), 3) < 1


def make_tally(values: dict[str, np.ndarray], margin: float = 0.03) -> Tally:
    trials = [
        Trial(
            arm=arm,
            block=block,
            seconds=1.0,
            cases={
                "case": {
                    "status": "passed",
                    "reason": "",
                    "metrics": {
                        f"m{i}_s": {"samples": [float(one)], "unit": "s", "direction": "lower"}
                        for i, one in enumerate(row)
                    },
                }
            },
        )
        for arm, rows in values.items()
        for block, row in enumerate(rows)
    ]
    return Tally(baseline="old", trials=tuple(trials), margin=margin)


def verdicts(tally: Tally, arm: str, max_blocks: int) -> list[Verdict]:
    """What an experiment says that looks whenever it may."""
    judged = tally.judged()
    looks = look_blocks(max_blocks)
    level = level_of(len(looks), len(judged))
    found = [tally.comparison(arm, one, looks, level) for one in judged]
    return [one.verdict for one in found if one is not None]


def gaussian(random: np.random.Generator, count: int) -> np.ndarray:
    return random.lognormal(0, 0.03, count)


def spiky(random: np.random.Generator, count: int) -> np.ndarray:
    return gaussian(random, count) * np.where(random.random(count) < 0.1, random.uniform(1.15, 1.5, count), 1)


def bimodal(random: np.random.Generator, count: int) -> np.ndarray:
    return gaussian(random, count) * np.where(random.random(count) < 0.4, 1.12, 1)


@pytest.mark.parametrize("noise", [gaussian, spiky, bimodal], ids=["gaussian", "spiky", "bimodal"])
def test_the_baseline_seldom_differs_from_itself(noise: Noise) -> None:
    """One in twenty experiments at most says that anything differs, though it looks six times at two metrics."""
    random = np.random.default_rng(20)
    count, blocks = 250, 28
    drift = np.exp(np.cumsum(random.normal(0, 0.01, (count, blocks, 1)), axis=1))
    alarms = 0
    for one in range(count):
        values = {arm: drift[one] * noise(random, blocks * 2).reshape(blocks, 2) for arm in ("old", "new")}
        alarms += bool({"better", "worse"} & set(verdicts(make_tally(values), "new", blocks)))
    assert alarms <= 0.05 * count


def test_a_real_difference_is_found_and_the_intervals_hold() -> None:
    random = np.random.default_rng(21)
    found = right = 0
    for _ in range(100):
        old, new = gaussian(random, 28), gaussian(random, 28) * 1.08
        tally = make_tally({"old": old.reshape(-1, 1), "new": new.reshape(-1, 1)})
        (one,) = tally.judged()
        looks = look_blocks(28)
        comparison = tally.comparison("new", one, looks, level_of(len(looks), 1))
        assert comparison is not None
        found += comparison.verdict == "worse"
        right += comparison.low <= 1.08 <= comparison.high
    assert found >= 95
    assert right >= 95


def test_what_is_decided_stays_decided() -> None:
    """Intervals of all looks hold at once, so later noise does not take a verdict back."""
    random = np.random.default_rng(22)
    old = gaussian(random, 28)
    new = np.concatenate([gaussian(random, 9) * 1.3, random.lognormal(0, 1.5, 19)])
    tally = make_tally({"old": old.reshape(-1, 1), "new": new.reshape(-1, 1)})
    (one,) = tally.judged()
    looks = look_blocks(28)
    level = level_of(len(looks), 1)
    states = [tally.comparison("new", one, looks[: i + 1], level) for i in range(len(looks))]
    decided = [state is not None and state.verdict == "worse" for state in states]
    assert decided[2]
    assert decided == sorted(decided)
    assert tally.undecided("new", looks, len(looks)) == set()


def test_a_case_that_fails_is_given_up() -> None:
    bad = {"case": {"status": "failed", "reason": "exit code 3", "metrics": {}}}
    good = {
        "case": {
            "status": "passed",
            "reason": "",
            "metrics": {"run_s": {"samples": [1.0], "unit": "s", "direction": "lower"}},
        }
    }
    trials = [Trial(arm="old", block=block, seconds=1, cases=good) for block in range(2)]
    once = Tally(baseline="old", trials=(*trials, Trial(arm="new", block=0, seconds=1, cases=bad)))
    assert once.undecided("new", (), 5) == {"case"}
    twice = Tally(baseline="old", trials=(*once.trials, Trial(arm="new", block=1, seconds=1, cases=bad)))
    assert twice.undecided("new", (), 5) == set()
    assert twice.failures("new", "case") == (2, 0, "failed: exit code 3")


def test_constants_are_the_same_and_differ_at_once() -> None:
    ones = np.ones((4, 1))
    assert verdicts(make_tally({"old": ones, "new": ones}), "new", 4) == ["same"]
    assert verdicts(make_tally({"old": ones, "new": ones * 1.1}), "new", 4) == ["worse"]
