"""What was measured in a test as metrics: value, unit, direction and every sample."""

import numbers
import statistics
from collections.abc import Mapping, Sequence
from functools import lru_cache
from time import perf_counter_ns
from typing import Any

from paceline.metrics import describe
from paceline.model import Measurement, Metric, Scalar
from paceline.pytest_plugin.measuring import NS, Measured

TIMER_MARGIN = 100
"""Rounds shorter than this many times the timer's own cost get a warning."""

_LOWER_BYTES, _LOWER_S = ("bytes", "lower"), ("s", "lower")
_OWN_METRICS: Mapping[str, tuple[str, Any]] = {
    "duration": _LOWER_S,
    "average_memory": _LOWER_BYTES,
    "peak_memory": _LOWER_BYTES,
    "peak_memory_sampled": _LOWER_BYTES,
    "compute_time": _LOWER_S,
    "compute_cpu_time": _LOWER_S,
    "disk_spill_time": _LOWER_S,
    "serializing_time": _LOWER_S,
    "transfer_time": _LOWER_S,
    "shuffle_disk_time": _LOWER_S,
    "disk_spill_bytes": _LOWER_BYTES,
    "scheduler_cpu_avg": ("cores", "lower"),
    "scheduler_memory_max": _LOWER_BYTES,
    "worker_max_tick": _LOWER_S,
    "scheduler_max_tick": _LOWER_S,
}
# Attributes that say which, not how much.
_LABELS = frozenset({"cluster_id", "session_id", "id"})


def measurements_of(measured: Measured) -> dict[str, Measurement]:
    """All metrics with their samples; what a fixture of the user's sets wins."""
    found = {name: _measurement(name, (value,)) for name, value in measured.metrics.items()}
    if measured.regions:
        found["duration"] = _measurement("duration", measured.regions)
    prefix = "bench_duration" if measured.regions else "duration"
    for number, samples in enumerate(filter(None, measured.rounds), start=1):
        name = prefix if number == 1 else f"{prefix}_{number}"
        found[name] = _measurement(name, samples, metric=describe("duration"))
        if min(samples) < TIMER_MARGIN * timer_cost_s():
            measured.warn(
                f"{name}: a round is so short that the timer's own {timer_cost_s() * 1e9:.0f} ns count; "
                "let the function do its work many times"
            )
    for name, value in measured.values.items():
        if is_metric(name, value):
            found[name] = _measurement(name, value if isinstance(value, list | tuple) else (value,))
    return found


def is_metric(name: str, value: object) -> bool:
    if name in _LABELS:
        return False
    many = value if isinstance(value, list | tuple) and value else (value,)
    return all(isinstance(one, numbers.Real) and not isinstance(one, bool) for one in many)


def _measurement(name: str, samples: Sequence[Any], metric: Metric | None = None) -> Measurement:
    unit, direction = _meaning(name, metric)
    numbers_: tuple[Scalar, ...] = tuple(_number(value) for value in samples)
    value: Any = numbers_[0] if len(numbers_) == 1 else statistics.median(map(float, samples))
    return Measurement(value=value, unit=unit, direction=direction, samples=numbers_)


def _meaning(name: str, metric: Metric | None) -> tuple[str | None, Any]:
    if name in _OWN_METRICS:
        return _OWN_METRICS[name]
    known = metric or describe(name)
    return known.unit, known.direction


def _number(value: Any) -> int | float:
    if type(value) is float or type(value) is int:
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


@lru_cache(maxsize=1)
def timer_cost_s() -> float:
    """What reading the clock twice costs."""
    readings = []
    for _ in range(50):
        started_ns = perf_counter_ns()
        readings.append(perf_counter_ns() - started_ns)
    return statistics.median(readings) * NS
