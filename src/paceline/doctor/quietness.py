"""What the measured noise means for who measures here."""

from collections.abc import Iterator

from paceline.doctor.noise import Noise
from paceline.doctor.remarks import Level, Remark, remark
from paceline.report.format import duration

QUIET_PCT, NOISY_PCT = 2.0, 10.0
"""Spreads at which a change of a few percent takes a handful of repetitions, and at which it drowns."""
NOTED_LATE_S, LATE_S = 0.001, 0.01
COARSE_CLOCK_S = 1e-5
NOTED_SHARE_PCT, HIGH_SHARE_PCT = 1.0, 5.0

_BUSY = "ps -eo pcpu,pid,args --sort=-pcpu | head"


def judge(noise: Noise) -> Iterator[Remark]:
    """A remark for each side of the measurement."""
    yield _spread(noise)
    yield _share(
        "waiting", noise.off_cpu_pct, "the share of the time in which another program had our CPU", _BUSY
    )
    if noise.steal_pct is not None:
        yield _share(
            "stolen", noise.steal_pct, "the share of the time in which the host served other machines", ""
        )
    yield _wake(noise)
    yield _clock(noise)


def level_of(value: float, noted: float, high: float) -> Level:
    return "warn" if value >= high else "note" if value >= noted else "ok"


def _spread(noise: Noise) -> Remark:
    level = level_of(noise.spread_pct, QUIET_PCT, NOISY_PCT)
    told = f"{noise.samples} × {duration(noise.chunk_s)}"
    value = f"±{_percent(noise.spread_pct)} ({told}, slowest +{_percent(noise.slowest_pct)})"
    meaning = (
        "the same work takes the same time"
        if level == "ok"
        else f"the same work differs: a change below about {_percent(2 * noise.spread_pct)} takes many repetitions"
    )
    fix = "" if level == "ok" else "raise repeat: in the suite, and see the section machine"
    return remark("spread", level, value, meaning, fix)


def _share(name: str, percent: float, meaning: str, fix: str) -> Remark:
    level = level_of(percent, NOTED_SHARE_PCT, HIGH_SHARE_PCT)
    return remark(name, level, _percent(percent), meaning, "" if level == "ok" else fix)


def _wake(noise: Noise) -> Remark:
    level = level_of(noise.late_p99_s, NOTED_LATE_S, LATE_S)
    value = f"{duration(noise.late_median_s)} late, one time in a hundred {duration(noise.late_p99_s)}"
    meaning = (
        "a program that waits is woken soon"
        if level == "ok"
        else "a program that waits is woken late: times of requests and locks carry it"
    )
    return remark("waking up", level, value, meaning, "" if level == "ok" else _BUSY)


def _clock(noise: Noise) -> Remark:
    level = level_of(noise.clock_step_s, COARSE_CLOCK_S, 100 * COARSE_CLOCK_S)
    value = f"{noise.clock_step_s * 1e9:.0f} ns"
    meaning = "the shortest time that can be told apart"
    return remark("timer", level, value, meaning, "" if level == "ok" else "measure longer pieces of work")


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.2g} %"
