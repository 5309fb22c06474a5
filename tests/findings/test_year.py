"""The book-keeping of benchmarks/year.py: what it counts as found, and what as a false alarm."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NIGHTS, SERIES, STEP = 32, 12, 20


@pytest.fixture(scope="module")
def year() -> Iterator[ModuleType]:
    """The benchmark, which finds its parts by the path."""
    path = sys.path.copy()
    sys.path.insert(0, str(BENCHMARKS))
    import year  # type: ignore[import-not-found]

    yield year
    sys.path[:] = path


@pytest.fixture
def spend(year: ModuleType, tmp_path: Path) -> Any:
    """Spends a small year in which one commit makes the first case slower by a quarter; its book."""
    from year_parts.world import Event  # type: ignore[import-not-found]

    def spend(detector: str = "ours", *, confirms: bool = False) -> Any:
        world = year.make_world(tmp_path / "repository", nights=NIGHTS, series=SERIES, seed=7)
        track = world.tracks[0]
        commit = world.line.newest[STEP]
        step = Event(number=0, effect=0.25, tracks=frozenset({0}), night=STEP, commit=commit)
        world = replace(world, events=(step,), missing=frozenset(), versions=(world.versions[0],) * NIGHTS)
        assert track.family == "normal" and world.line.first_night(commit) == STEP
        with year.in_our_place(year.OWN.get(detector)):
            return year.Year(world, f"{tmp_path}/benchmark.db", tmp_path, confirms=confirms).run()

    return spend


def test_a_step_that_was_planted_is_counted_as_found(year: ModuleType, spend: Any) -> None:
    book = spend()
    assert year.reported_within(book, 0.05, 7, ["normal"]) == year.Share(1, 1)
    (alarm,) = [one for one in book.alarms if one.track.number == 0]
    assert alarm.event is book.world.events[0] and STEP <= alarm.night < STEP + 7
    assert alarm not in year.false_alarms(book)
    assert book.trials == 0 and not book.inquiries


def test_its_culprit_is_held_against_the_truth_and_its_runs_are_counted(year: ModuleType, spend: Any) -> None:
    book = spend(confirms=True)
    named = [one for one in book.inquiries.values() if one.track.number == 0 and one.culprit]
    assert named and all(one.is_right and one.changed and one.runs > 0 for one in named)
    assert year.culprits(book)["right"].count >= 1 and book.trials > 0


def test_a_detector_that_always_alarms_is_counted_as_wrong(year: ModuleType, spend: Any) -> None:
    book = spend("always")
    figures = year.summary(book)
    quiet = {one.number for one in book.world.tracks if one.family != "drift"} - {0}
    assert {one.track.number for one in year.false_alarms(book)} & quiet
    assert figures["false_alarms"] == sum(count for count, _ in figures["false_alarms_by_family"].values())
    months = NIGHTS / 30.4
    rate = 1000 * figures["false_alarms"] / len(book.world.tracks) / months
    assert figures["false_alarms_a_month"] == pytest.approx(rate)
    assert book.red_nights > 0


def test_a_detector_that_never_alarms_finds_nothing(year: ModuleType, spend: Any) -> None:
    book = spend("never")
    assert not book.alarms and book.red_nights == 0
    assert year.reported_within(book, 0.05, 7, ["normal"]) == year.Share(0, 1)
    assert year.summary(book)["false_alarms_a_month"] == 0


def test_the_same_seed_gives_the_same_year(year: ModuleType, tmp_path: Path) -> None:
    first, second = (
        year.make_world(tmp_path / name, nights=60, series=20, seed=3) for name in ("one", "two")
    )
    assert first.events == second.events and first.line.commits == second.line.commits
    assert any(one.undone for one in first.events) or first.events
