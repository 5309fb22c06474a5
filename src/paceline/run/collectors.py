"""What is measured around a run, besides the run itself: the rest of the machine, and the GPUs."""

import csv
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, Self

from paceline.run.gpu import GpuCollector, gpu_collectors
from paceline.run.local.process import Sample, Usage
from paceline.run.local.tree import TICKS_PER_S, read_proc

__all__ = ["Collector", "GpuCollector", "SystemCollector", "make_collectors", "write_samples"]

PRESSURES = ("cpu", "io", "memory")
MEASURABLE_S = 0.1  # the kernel counts a core's busy time in steps of 10 ms
JUDGEABLE_S = 0.5
DISTURBING_CORES = 0.25
DISTURBING_LOAD = 0.5  # a CPU
LOAD_MEMORY_S = 180.0  # after three minutes, 5 % of a load is left in the one-minute average

_SOME_TOTAL = re.compile(rb"some .*total=(\d+)")


class Collector(Protocol):
    """Measures something while it is entered; it never fails a run."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def metrics(self) -> Mapping[str, float]: ...
    def warnings(self) -> tuple[str, ...]: ...


def make_collectors(run_dir: Path, *, gpu_interval_s: float | None) -> list[Collector]:
    """Those that this machine has a use for; no interval, no GPU statistics."""
    return [*gpu_collectors(run_dir / "gpustats.csv", gpu_interval_s)] if gpu_interval_s else []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """The machine at one moment, as far as it tells (containers and other systems tell less)."""

    at: float
    busy_s: float | None
    own_cpu_s: float
    pressure_us: Mapping[str, int]


def _snapshot() -> _Snapshot:
    return _Snapshot(
        at=time.monotonic(),
        busy_s=_busy_s(),
        own_cpu_s=time.process_time(),
        pressure_us={name: total for name in PRESSURES if (total := _pressure_us(name)) is not None},
    )


def _busy_s() -> float | None:
    """CPU time spent by all processes since boot, with what other machines on the same host stole from us."""
    fields = read_proc("/proc/stat").partition(b"\n")[0].split()
    if len(fields) < 9 or fields[0] != b"cpu":
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in fields[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def _pressure_us(name: str) -> int | None:
    """For how long, since boot, some process has waited for this resource."""
    found = _SOME_TOTAL.search(read_proc(f"/proc/pressure/{name}"))
    return int(found[1]) if found else None


class SystemCollector:
    """Load, pressure, and what other processes used meanwhile: whether a run was disturbed."""

    _last_ended: ClassVar[float | None] = None

    def __init__(self) -> None:
        self._load: float | None = None
        self._load_is_ours = False

    def __enter__(self) -> Self:
        ended = SystemCollector._last_ended
        self._load_is_ours = ended is not None and time.monotonic() - ended < LOAD_MEMORY_S
        self._load = _load()
        self._before = self._after = _snapshot()
        return self

    def __exit__(self, *_: object) -> None:
        self._after = _snapshot()
        SystemCollector._last_ended = self._after.at

    def metrics(self, usage: Usage) -> Mapping[str, float]:
        """What was seen; `usage` is what the run itself used, and so no disturbance."""
        elapsed_s = self._after.at - self._before.at
        found: dict[str, float] = {}
        if self._load is not None:
            found["load_before"] = self._load
        others = self._other_cores(usage)
        if others is not None:
            found["other_cpu_cores"] = others
        for name, before_us in self._before.pressure_us.items():
            after_us = self._after.pressure_us.get(name, before_us)
            if elapsed_s > 0:
                found[f"{name}_pressure_pct"] = round((after_us - before_us) / elapsed_s / 1e4, 3)
        return found

    def warnings(self, usage: Usage) -> tuple[str, ...]:
        """One line if the run was disturbed."""
        signs = []
        others = self._other_cores(usage)
        if (
            others is not None
            and others > DISTURBING_CORES
            and self._after.at - self._before.at >= JUDGEABLE_S
        ):
            signs.append(f"other processes used {others:.2f} CPU cores on average")
        cpus = os.cpu_count() or 1
        # Right after a run of ours the load average tells of that run, not of others.
        if self._load is not None and not self._load_is_ours and self._load > DISTURBING_LOAD * cpus:
            signs.append(f"the load average was {self._load:.2f} on {cpus} CPUs before it began")
        return (f"the run was disturbed: {'; '.join(signs)}",) if signs else ()

    def _other_cores(self, usage: Usage) -> float | None:
        before, after = self._before, self._after
        elapsed_s = after.at - before.at
        if before.busy_s is None or after.busy_s is None or elapsed_s < MEASURABLE_S:
            return None
        ours_s = usage.cpu_user_s + usage.cpu_system_s + after.own_cpu_s - before.own_cpu_s
        return round(max(0.0, after.busy_s - before.busy_s - ours_s) / elapsed_s, 3)


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def write_samples(path: Path, samples: Sequence[Sample]) -> str:
    """The samples of a run as CSV, if it was long enough to have any; what went wrong, or an empty text."""
    if not samples:
        return ""
    try:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("t_s", "memory_bytes", "cpu_s", "processes"))
            writer.writerows(samples)
    except OSError as error:
        return f"{path.name} is incomplete: {error.strerror or error}"
    return ""
