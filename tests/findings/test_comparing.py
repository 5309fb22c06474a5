"""What `compare` calls worse: sure, after all that was looked at, and large enough to matter."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from in_process import Here, make_here
from paceline.findings.between import noise_of
from paceline.history import open_store
from paceline.judge import compare
from paceline.judge.comparison import Noise, compare_sessions, student_tail
from paceline.judge.discoveries import holm
from stored_records import ENVIRONMENT, measured, record, session

METRICS = 60


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return make_here(tmp_path, monkeypatch, capsys)


def noisy(chance: random.Random, level: float, samples: int, *, between: float = 0.01) -> list[float]:
    """The samples of a session: 2 % noise within, and some that all of them share."""
    luck = chance.gauss(0, between)
    return [level * (1 + luck + chance.gauss(0, 0.02)) for _ in range(samples)]


def remember(path: Path, nights: int, factor: float, seed: int, samples: int = 5) -> None:
    """So many nights of sixty metrics; the last one is slower by the factor."""
    chance = random.Random(seed)
    path.unlink(missing_ok=True)
    with open_store(path) as store:
        for number in range(1, nights + 1):
            scale = factor if number == nights else 1.0
            found = {f"part_{i}_s": noisy(chance, scale, samples) for i in range(METRICS)}
            metrics = {name: measured(sorted(one)[2], *one) for name, one in found.items()}
            store.add(session(number), ENVIRONMENT, [record(number=number, metrics=metrics)])


def told(here: Here, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(here.run("compare", "--json", *words).stdout)
    return found


@pytest.mark.parametrize("nights", [2, 13])
def test_two_sessions_of_the_same_thing_are_not_worse(here: Here, nights: int) -> None:
    codes = []
    for seed in range(6):
        remember(here.path / "results/benchmark.db", nights, 1.0, seed)
        codes.append(here.run("compare").returncode)
    assert codes == [0] * 6


@pytest.mark.parametrize("nights", [2, 13])
def test_a_true_change_within_the_margin_passes_and_a_large_one_does_not(here: Here, nights: int) -> None:
    for factor, expected in ((1.01, 0), (1.1, 1)):
        remember(here.path / "results/benchmark.db", nights, factor, 99)
        assert here.run("compare").returncode == expected, factor


def test_the_margin_holds_for_worse() -> None:
    quiet = [100 + i / 1000 for i in range(10)]
    for change, margin, verdict in (
        (1.0012, 0.03, "same"),
        (1.01, 0.05, "same"),
        (1.04, 0.05, "same"),
        (1.06, 0.05, "worse"),
        (1.04, 0.03, "worse"),
        (0.96, 0.03, "better"),
        (1.0012, 0.0, "worse"),
    ):
        found = compare(quiet, [change * one for one in quiet], margin=margin, paired=True)
        assert found.verdict == verdict, (change, margin)


def test_the_gate_is_set_by_fail_above(here: Here) -> None:
    quiet = [1 + i / 10_000 for i in range(8)]
    with open_store(here.path / "results/benchmark.db") as store:
        for number in range(1, 14):
            values = [one * (1.06 if number == 13 else 1.0) * (1 + number % 3 / 1000) for one in quiet]
            metrics = {"wall_s": measured(values[4], *values)}
            store.add(session(number), ENVIRONMENT, [record(number=number, metrics=metrics)])
    for share, code in (("3%", 1), ("5%", 1), ("0.05", 1), ("8%", 0), ("8 %", 0)):
        done = here.run("compare", "--fail-above", share)
        assert done.returncode == code, share
    done = here.run("compare", "--fail-above", "lots")
    assert done.returncode == 2 and "write it like 5%" in done.stderr


@pytest.mark.parametrize("low", [0.0, 0.5])
def test_columns_and_change_are_one_estimator(here: Here, low: float) -> None:
    chance = random.Random(4)
    with open_store(here.path / "results/benchmark.db") as store:
        for number in (1, 2):
            skewed = [low + chance.lognormvariate(0, 1) if i else low for i in range(20)]
            metrics = {"wall_s": measured(sorted(skewed)[10], *skewed)}
            store.add(session(number), ENVIRONMENT, [record(number=number, metrics=metrics)])
    (one,) = told(here, "night-1", "night-2")["comparisons"]
    assert one["candidate"] / one["baseline"] == pytest.approx(one["ratio"])


def test_one_run_a_side_is_judged_by_what_the_history_knows(here: Here) -> None:
    chance = random.Random(1)
    with open_store(here.path / "results/benchmark.db") as store:
        for number in range(1, 14):
            value = chance.gauss(1, 0.01) * (0.1 if number == 13 else 1)
            store.add(session(number), ENVIRONMENT, [record(value=value, number=number)])
    (one,) = told(here)["comparisons"]
    assert (one["verdict"], one["noise_between_sessions"], one["samples"]) == ("better", "history", [1, 1])
    (one,) = told(here, "last", "night-4")["comparisons"]
    assert one["verdict"] == "worse"
    assert "noise between sessions is not known" not in here.run("compare").stdout


def test_it_is_said_that_the_noise_between_sessions_is_not_known(here: Here) -> None:
    remember(here.path / "results/benchmark.db", 2, 1.0, 5)
    done = here.run("compare")
    assert "the noise between sessions is not known: 1.5 % is assumed" in done.stdout
    assert {one["noise_between_sessions"] for one in told(here)["comparisons"]} == {"assumed"}


def test_rows_that_nothing_follows_from_are_one_line(here: Here) -> None:
    with open_store(here.path / "results/benchmark.db") as store:
        for number in (1, 2):
            steady, wild = (1.0, 1.001, 1.002), (0.001, 0.004, 0.02)
            metrics = {"wall_s": measured(1.0, *steady), "cpu_system_s": measured(0.004, *wild)}
            store.add(session(number), ENVIRONMENT, [record(number=number, metrics=metrics)])
    done = here.run("compare", "night-1", "night-2")
    assert "cpu_system_s" not in done.stdout and "… 1 more: --all" in done.stdout
    assert "cpu_system_s" in here.run("compare", "night-1", "night-2", "--all").stdout
    assert "cpu_system_s" not in here.run("compare", "night-1", "night-2", "--markdown").stdout
    assert len(told(here, "night-1", "night-2")["comparisons"]) == 2


def test_noise_is_that_between_changes_and_no_single_night() -> None:
    chance = random.Random(3)
    steady = [chance.gauss(100, 1) for _ in range(30)]
    known = noise_of(steady)
    assert known is not None and known.relative == pytest.approx(0.01, rel=0.4) and known.freedom == 29
    for others in ([*(0.5 * one for one in steady), *steady], [*steady[:20], 200.0, *steady[21:]]):
        found = noise_of(others)
        assert found is not None and found.relative is not None and found.relative < 2 * 0.01
    assert noise_of(steady[:5]) is None
    counted = noise_of([7.0] * 20)
    assert counted is not None and counted.relative == 0


def test_a_level_that_changed_among_few_nights_is_not_noise() -> None:
    """Else the regression that a comparison is asked about would hide itself."""
    source = random.Random(5)
    few = [source.gauss(1, 0.01) for _ in range(8)] + [source.gauss(1.25, 0.01) for _ in range(5)]
    known = noise_of(few)
    assert known is not None and known.relative is not None and 0.005 < known.relative < 0.05


def test_sessions_are_as_sure_as_sessions_differ() -> None:
    chance = random.Random(2)
    old, new = ([[chance.gauss(level, 0.1) for _ in range(50)]] for level in (100, 106))
    loud = Noise(relative=0.05, absolute=5.0, freedom=29)
    quiet = Noise(relative=0.005, absolute=0.5, freedom=29)
    assert compare_sessions(old, new, noise=loud).verdict == "inconclusive"
    assert compare_sessions(old, new, noise=quiet).verdict == "worse"
    # Three sessions a side know it themselves.
    olds, news = ([[level + shift] * 4 for shift in (-3, 0, 3)] for level in (100, 106))
    assert compare_sessions(olds, news).verdict == "inconclusive"


def test_students_tail_and_holms_correction() -> None:
    for t, freedom, tail in ((2.2281, 10, 0.025), (12.7062, 1, 0.025), (1.96, 1e9, 0.025), (0.0, 5, 0.5)):
        assert student_tail(t, freedom) == pytest.approx(tail, rel=1e-3)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([]) == ()
