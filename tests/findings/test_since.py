"""The line that a session prints about a case: how its number compares with those before."""

import random

from paceline.findings.since import Past, since
from paceline.history.series import Point
from paceline.model import Measurement


def past(values: list[float], *, higher_is_better: bool = False) -> Past:
    points = [
        Point(
            value,
            (),
            f"{i:040x}",
            f"night-{i}",
            f"{i:032x}",
            f"2026-10-{i + 1:02}T02:00:00Z",
            "passed",
            *"abc",
        )
        for i, value in enumerate(values)
    ]
    return Past(higher_is_better, points, ())


def nights(count: int, level: float = 1.0, noise: float = 0.01, seed: int = 3) -> list[float]:
    drawn = random.Random(seed)
    return [level * (1 + drawn.gauss(0, noise)) for _ in range(count)]


def test_a_clear_loss_is_worse_and_a_gain_better() -> None:
    slow = since(past(nights(20)), Measurement(value=1.3), comparisons=50)
    assert slow.verdict == "worse" and slow.change is not None and 0.25 < slow.change < 0.35
    assert len(slow.values) == 11
    fast = since(past(nights(20), higher_is_better=True), Measurement(value=1.3), comparisons=50)
    assert fast.verdict == "better"


def test_too_few_results_are_drawn_and_not_judged() -> None:
    assert since(past(nights(3)), Measurement(value=2.0), comparisons=1)[1:] == (None, None)


def test_the_level_since_the_last_change_counts() -> None:
    found = since(past([*nights(20), *nights(12, level=2.0, seed=4)]), Measurement(value=2.0), comparisons=1)
    assert found.verdict != "better" and found.change is not None and abs(found.change) < 0.05


def test_of_many_cases_that_did_not_change_hardly_one_is_called_worse() -> None:
    drawn = random.Random(5)
    verdicts = [
        since(
            past(nights(20, noise=0.03, seed=seed)),
            Measurement(value=1 + drawn.gauss(0, 0.03)),
            comparisons=100,
        )
        for seed in range(100)
    ]
    assert sum(one.verdict in ("worse", "better") for one in verdicts) <= 1
