"""The level that a result must not be much worse than."""

from pathlib import Path

import pytest

from findings_nights import add_nights, noisy
from paceline.findings.detection import detect
from paceline.findings.segments import read_baselines
from paceline.history import open_store
from paceline.judge.requirements import Baseline, judge
from paceline.model import Record, Requirement, Status
from stored_records import case, measured, record

SORT = ("sort", "", "1", "class-1")


@pytest.mark.parametrize(
    ("state", "level"), [(None, 10.0), ("acknowledged", 13.0), ("expected", 13.0), ("false", 13.0)]
)
def test_the_level_is_that_before_a_regression_nobody_has_answered(
    state: str | None, level: float, tmp_path: Path
) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(40, (25, 1.3))})
        detect(store)
        if state:
            store.say(store.findings()[0].id, state, why="so", who="keeper")  # type: ignore[arg-type]
        found = read_baselines(store, {"sort": ["wall_s"], "join": ["wall_s"]}, but="night-40")
    assert list(found) == [SORT] and abs(found[SORT]["wall_s"].level - level) < 0.1


def test_an_improvement_moves_the_level_and_its_own_session_does_not_count(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        add_nights(store, {"sort": noisy(40, (25, 0.5))})
        found = read_baselines(store, {"sort": ["wall_s"]}, but="night-40")
        assert abs(found[SORT]["wall_s"].level - 5.0) < 0.1 and found[SORT]["wall_s"].results == 14


def held(
    value: float, baseline: Baseline | None, direction: str | None = "lower", bound: float = 0.05
) -> Record:
    requirement = Requirement(metric="wall_s", kind="max_regression", bound=bound)
    told = record(
        case=case(requirements=(requirement,)), metrics={"wall_s": measured(value, direction=direction)}
    )
    return judge(told, {"wall_s": baseline} if baseline else {})


def test_results_are_held_against_the_level() -> None:
    level = Baseline(level=10.0, results=5)
    for value, direction, status in (
        (10.4, "lower", Status.PASSED),
        (10.6, "lower", Status.REQUIREMENT_FAILED),
        (9.0, "lower", Status.PASSED),
        (9.4, "higher", Status.REQUIREMENT_FAILED),
        (12.0, "higher", Status.PASSED),
    ):
        judged = held(value, level, direction)
        (check,) = judged.requirements
        assert (judged.status, check.ok) == (status, status.ok)
        assert (check.margin is not None) and (check.margin >= 0) == check.ok
    assert held(10.6, level).reason == (
        "wall_s is 10.6 s, 6 % higher than its level 10 s; at most 5 % are allowed"
    )


def test_without_a_history_it_passes_with_a_note() -> None:
    for baseline, count in (
        (None, "no earlier results"),
        (Baseline(level=1.0, results=1), "1 earlier result,"),
    ):
        judged = held(10.0, baseline)
        assert judged.status is Status.PASSED and count in judged.requirements[0].reason
        assert judged.requirements[0].margin is None


def test_what_cannot_be_judged_fails() -> None:
    level = Baseline(level=10.0, results=5)
    assert "no direction" in held(10.0, level, direction=None).reason
    missing = Requirement(metric="other", kind="max_regression", bound=0.05)
    assert "other is missing" in judge(record(case=case(requirements=(missing,))), {}).reason
    assert held(float("nan"), level).status is Status.REQUIREMENT_FAILED
