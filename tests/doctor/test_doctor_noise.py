"""The measurement of noise, and what its numbers lead to."""

import pytest

from paceline.doctor import noise, tuning
from paceline.doctor.noise import Noise, Spin, measure, stolen_pct, summarise

QUIET = Noise(
    samples=200,
    chunk_s=0.005,
    spread_pct=0.4,
    slowest_pct=3.0,
    off_cpu_pct=0.1,
    preemptions=1,
    steal_pct=0.0,
    late_median_s=6e-5,
    late_p99_s=2e-4,
    clock_step_s=6e-8,
)
BUSY = Noise(
    samples=80,
    chunk_s=0.005,
    spread_pct=41.0,
    slowest_pct=300.0,
    off_cpu_pct=35.0,
    preemptions=90,
    steal_pct=12.0,
    late_median_s=2e-3,
    late_p99_s=3e-2,
    clock_step_s=1e-2,
)


def test_it_measures_and_ends() -> None:
    found = measure(lambda: "", spin_s=0.02, naps=3)
    assert found.samples >= 1
    assert found.chunk_s > 0
    assert found.clock_step_s > 0
    assert found.steal_pct is None
    assert found.spread_pct >= 0 and found.slowest_pct >= 0
    assert 0 <= found.late_median_s <= found.late_p99_s


def test_one_slow_moment_does_not_make_a_quiet_machine_noisy() -> None:
    spun = Spin(times_s=(*([0.005] * 99), 0.5), wall_s=1.0, cpu_s=0.99, preemptions=1)
    found = summarise(spun, [0.0001] * 100, steal_pct=0.0, clock_step_s=1e-7)
    assert found.spread_pct == 0
    assert found.slowest_pct == pytest.approx(9900)
    assert found.off_cpu_pct == pytest.approx(1)


def test_half_of_the_time_elsewhere_is_noise() -> None:
    spun = Spin(times_s=(0.005, 0.010) * 50, wall_s=1.0, cpu_s=0.5, preemptions=50)
    found = summarise(spun, [0.02], steal_pct=None, clock_step_s=1e-7)
    assert found.spread_pct == pytest.approx(25)
    assert {one.name: one.level for one in tuning.judge_noise(found)} == {
        **{"spread": "warn", "waiting": "warn", "waking up": "warn", "timer": "ok"}
    }


@pytest.mark.parametrize(("found", "level"), [(QUIET, "ok"), (BUSY, "warn")])
def test_every_side_is_judged(found: Noise, level: str) -> None:
    remarks = list(tuning.judge_noise(found))
    assert [one.name for one in remarks] == ["spread", "waiting", "stolen", "waking up", "timer"]
    assert {one.level for one in remarks} == {level}


def test_the_spread_says_which_changes_it_hides() -> None:
    spread = next(tuning.judge_noise(BUSY))
    assert spread.value == "±41 % for nine in ten (80 × 5 ms, slowest +300 %)"
    assert "below about 82 %" in spread.meaning


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1", "cpu  20 0 20 150 0 0 0 10 0 0", 10.0),
        ("cpu  10 0 10 80 0 0 0 0 5 5", "cpu  10 0 10 80 0 0 0 0 9 9", None),
        ("", "cpu  10 0 10 80 0 0 0 0 0 0", None),
        ("cpu 1 2", "cpu 3 4", None),
        ("intr 1 2 3 4 5 6 7 8 9", "intr 2 3 4 5 6 7 8 9 10", None),
    ],
)
def test_time_that_the_host_took(before: str, after: str, share: float | None) -> None:
    assert stolen_pct(before, after) == (None if share is None else pytest.approx(share))


def test_quantiles_of_one_value() -> None:
    assert noise.quantile([3.0], 0.05) == noise.quantile([3.0], 0.99) == 3.0
