"""Changes of a series are described soundly, whatever its numbers are."""

from hypothesis import example, given
from hypothesis import strategies as st

from findings_nights import noisy
from paceline.findings.segments import Judged, describe
from paceline.history.series import Points
from paceline.judge import ChangePoint, change_points
from paceline.judge.changes import Analysis
from stored_records import made_series


def judged(values: list[float], found: tuple[ChangePoint, ...] | None = None) -> Judged:
    found = change_points(values) if found is None else found
    series = made_series(values)
    return Judged(
        key=series.key, epoch=0, direction="lower", points=Points(series), analysis=Analysis(changes=found)
    )


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=8, max_size=40),
    st.floats(-1e6, 1e6),
    st.integers(3, 5),
)
@example([-1.0, 0.0, -1.0, -1.0, -1.0, 1.0, 1e-142, 0.0], 0.0, 3)
def test_any_series_is_described(values: list[float], shift: float, at: int) -> None:
    shifted = [value + (shift if i >= at else 0.0) for i, value in enumerate(values)]
    for change in describe(judged(shifted)):
        if change is not None:
            assert change.low <= change.effect <= change.high
            assert 0 <= change.last_good < change.index <= change.first_bad < len(values) or (
                change.last_good < change.first_bad
            )
            assert 0 <= change.p_value <= 1 and change.verdict in ("better", "worse")


def test_a_clear_step_is_between_two_neighbours() -> None:
    (change,) = describe(judged(noisy(40, (25, 1.5))))
    assert change is not None
    assert (change.index, change.last_good, change.first_bad, change.undone_at) == (25, 24, 25, None)


def test_an_unclear_step_has_a_wider_bracket_around_it() -> None:
    hits = found = 0
    for seed in range(60):
        for change in describe(judged(noisy(60, (40, 1.08), seed=seed, noise=0.04))):
            assert change is not None
            found += 1
            hits += change.last_good < 40 <= change.first_bad
    assert hits >= 0.93 * found > 0, "the change lies in its bracket in nineteen of twenty cases"


def test_values_below_zero_rise_for_the_worse() -> None:
    values = [-10.0 + value / 100 for value in noisy(20)] + [
        -5.0 + value / 100 for value in noisy(20, seed=2)
    ]
    (change,) = describe(judged(values))
    assert change is not None and change.verdict == "worse" and change.effect > 0


def test_a_change_too_small_to_matter_is_none() -> None:
    assert describe(judged(noisy(60, (30, 1.002), noise=0.0001))) == [None]
