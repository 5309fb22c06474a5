"""What is measured around a run, besides the run itself: the rest of the machine, and NVIDIA GPUs if there are any."""

import csv
import ctypes
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TextIO

from paceline.numbers import digits, percent, size
from paceline.run.conditions import Conditions
from paceline.run.local.process import Sample, Usage
from paceline.run.local.tree import TICKS_PER_S, read_proc

COLUMNS = (
    "timestamp_utc",
    "gpu_id",
    "utilization_gpu_pct",
    "memory_used_bytes",
    "memory_total_bytes",
    "temperature_c",
    "power_draw_w",
)
LIBRARY = "libnvidia-ml.so.1"
_SLOWED = 0x8 | 0x20 | 0x40 | 0x80  # hardware, heat by software, heat by hardware, power brake
HANG_S = 5.0  # a GPU that has fallen off its bus can block a query for good


class _Nvml:
    """The library, started once a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = False
        self._module: Any = None

    def get(self) -> Any:
        """The `pynvml` module ready for use, or None."""
        with self._lock:
            if not self._asked:
                self._asked = True
                self._module = _start_nvml()
            return self._module


def _start_nvml() -> Any:
    try:
        ctypes.CDLL(LIBRARY)  # far cheaper than importing pynvml to be told the same
        import pynvml
    except (OSError, ImportError):
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


_nvml = _Nvml()


def nvml() -> Any:
    """The `pynvml` module ready for use; None where there is no driver."""
    return _nvml.get()


def device_ids() -> tuple[str, ...]:
    """The indices of the GPUs the driver knows."""
    nvml = _nvml.get()
    if nvml is None:
        return ()
    try:
        return tuple(str(index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError:
        return ()


def gpu_memory_warnings(gpus: Sequence[str], threshold: float | None) -> tuple[str, ...]:
    """Before a case: which of its GPUs, of all if it asked for none, have more than that share of their memory in use.

    No threshold, no question. A GPU that does not answer is not one that is free, and is named too.
    """
    library = None if threshold is None else _nvml.get()
    if library is None or threshold is None:
        return ()
    found: list[str] = []
    asking = threading.Thread(
        target=_find_used, args=(library, gpus or device_ids(), threshold, found), daemon=True
    )
    asking.start()
    asking.join(HANG_S)
    return (*found, *(["a query of the GPUs' memory does not return"] if asking.is_alive() else []))


def _find_used(nvml: Any, gpus: Sequence[str], threshold: float, found: list[str]) -> None:
    for gpu in gpus:
        try:
            find = nvml.nvmlDeviceGetHandleByIndex if gpu.isdecimal() else nvml.nvmlDeviceGetHandleByUUID
            memory = nvml.nvmlDeviceGetMemoryInfo(find(int(gpu) if gpu.isdecimal() else gpu))
        except nvml.NVMLError as error:
            found.append(f"the memory in use on GPU {gpu} is not known: {error}")
            continue
        if memory.used > threshold * memory.total:
            found.append(
                f"before it began, {size(memory.used)} of the {size(memory.total)} of GPU {gpu} were in use, "
                f"more than the gpu_mem_use_warning_threshold of {percent(threshold)}"
            )


def gpu_collectors(path: Path, interval_s: float, own: Sequence[str] = ()) -> list["GpuCollector"]:
    """One collector if there is a driver, else none."""
    nvml = _nvml.get()
    return [] if nvml is None else [GpuCollector(path, interval_s, nvml, own)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One GPU at one moment; None is what it does not tell."""

    gpu_id: int
    utilization_gpu_pct: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    temperature_c: float | None
    power_draw_w: float | None


class GpuCollector:
    """Samples every GPU while entered, into a CSV file; a failure is one warning and never more.

    All GPUs, whatever CUDA_VISIBLE_DEVICES says: a benchmark that uses one it was not given should show.
    """

    def __init__(self, path: Path, interval_s: float, nvml: Any, own: Sequence[str] = ()) -> None:
        self._path = path
        self._own = frozenset(int(name) for name in own if name.isdecimal())
        self._disturbances: dict[str, None] = {}
        self._interval_s = interval_s
        self._nvml = nvml
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_end, name="gpu-collector", daemon=True)
        self._warning = ""
        self._peak_memory_bytes: int | None = None
        self._utilization_sum = 0.0
        self._utilization_count = 0
        self._peak_temperature_c: float | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(HANG_S)
        if self._thread.is_alive():
            self._note("a query of the driver does not return")

    def metrics(self) -> Mapping[str, float]:
        """Peaks and means over the run; memory is the sum over all GPUs."""
        found: dict[str, float] = {}
        if self._peak_memory_bytes is not None:
            found["gpu_peak_memory_bytes"] = self._peak_memory_bytes
        if self._utilization_count:
            found["gpu_mean_utilization_pct"] = self._utilization_sum / self._utilization_count
        if self._peak_temperature_c is not None:
            found["gpu_peak_temperature_c"] = self._peak_temperature_c
        return found

    def warnings(self) -> tuple[str, ...]:
        return (f"GPU statistics are incomplete: {self._warning}",) if self._warning else ()

    def disturbances(self) -> tuple[str, ...]:
        """What kept the run's own GPUs from being its alone, or from their full clock."""
        return tuple(self._disturbances)

    def _look_for_others(self, handles: list[Any]) -> None:
        """Note who is on the run's GPUs before it could be there itself."""
        for index in sorted(self._own & {*range(len(handles))}):
            with suppress(self._nvml.NVMLError):
                if users := self._nvml.nvmlDeviceGetComputeRunningProcesses(handles[index]):
                    self._disturbances[f"GPU {index} was in use by {len(users)} other processes"] = None

    def _look_for_slowdown(self, handles: list[Any]) -> None:
        for index in sorted(self._own & {*range(len(handles))}):
            with suppress(self._nvml.NVMLError):
                reasons = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handles[index])
                if reasons & _SLOWED:
                    self._disturbances[f"GPU {index} slowed down its clock"] = None

    def _note(self, text: str) -> None:
        self._warning = self._warning or text

    def _sample_until_end(self) -> None:
        handles = self._handles()
        if not handles:
            return
        try:
            with self._path.open("w", newline="") as file:
                csv.writer(file).writerow(COLUMNS)
                self._look_for_others(handles)
                self._sample(handles, file)
                while not self._ended.wait(self._interval_s):
                    self._sample(handles, file)
                self._sample(handles, file)
        except OSError as error:
            self._note(f"{self._path.name}: {error.strerror or error}")

    def _handles(self) -> list[Any]:
        try:
            count = self._nvml.nvmlDeviceGetCount()
            return [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        except self._nvml.NVMLError as error:
            self._note(f"the GPUs cannot be listed: {error}")
            return []

    def _sample(self, handles: list[Any], file: TextIO) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        readings = [self._read(index, handle) for index, handle in enumerate(handles)]
        self._count(readings)
        self._look_for_slowdown(handles)
        writer = csv.writer(file)
        for reading in readings:
            # A value a GPU does not tell is an empty cell.
            writer.writerow([now, *(getattr(reading, column) for column in COLUMNS[1:])])
        file.flush()

    def _count(self, readings: list[Reading]) -> None:
        memory = [reading.memory_used_bytes for reading in readings if reading.memory_used_bytes is not None]
        if memory:
            self._peak_memory_bytes = max(self._peak_memory_bytes or 0, sum(memory))
        for reading in readings:
            if reading.utilization_gpu_pct is not None:
                self._utilization_sum += reading.utilization_gpu_pct
                self._utilization_count += 1
            if reading.temperature_c is not None:
                self._peak_temperature_c = max(self._peak_temperature_c or 0.0, reading.temperature_c)

    def _read(self, index: int, handle: Any) -> Reading:
        nvml = self._nvml
        memory = self._ask(index, "memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        rates = self._ask(index, "utilization", lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        power_mw = self._ask(index, "power", lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        sensor = nvml.NVML_TEMPERATURE_GPU
        return Reading(
            gpu_id=index,
            utilization_gpu_pct=None if rates is None else rates.gpu,
            memory_used_bytes=None if memory is None else memory.used,
            memory_total_bytes=None if memory is None else memory.total,
            temperature_c=self._ask(
                index, "temperature", lambda: nvml.nvmlDeviceGetTemperature(handle, sensor)
            ),
            power_draw_w=None if power_mw is None else power_mw / 1000,
        )

    def _ask(self, index: int, what: str, query: Callable[[], Any]) -> Any:
        try:
            return query()
        except self._nvml.NVMLError as error:
            # Many cards have no power sensor, and say so; that is no failure.
            if error.value != self._nvml.NVML_ERROR_NOT_SUPPORTED:
                self._note(f"{what} of GPU {index}: {error}")
            return None


__all__ = ["Collector", "GpuCollector", "SystemCollector", "make_collectors", "write_samples"]

PRESSURES = ("cpu", "io", "memory")
MEASURABLE_S = 0.1  # the kernel counts a core's busy time in steps of 10 ms
DISTURBING_LOAD = 0.5  # a CPU
LOAD_MEMORY_S = 180.0  # after three minutes, 5 % of a load is left in the one-minute average

_SOME_TOTAL = re.compile(rb"some .*total=(\d+)")


class Collector(Protocol):
    """Measures something while it is entered; it never fails a run."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def metrics(self) -> Mapping[str, float]: ...
    def warnings(self) -> tuple[str, ...]: ...
    def disturbances(self) -> tuple[str, ...]: ...


def make_collectors(
    run_dir: Path, *, gpu_interval_s: float | None, gpus: Sequence[str] = ()
) -> list[Collector]:
    """Those that this machine has a use for; no interval, no GPU statistics. `gpus` are those that the run has."""
    return [*gpu_collectors(run_dir / "gpustats.csv", gpu_interval_s, gpus)] if gpu_interval_s else []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """The machine at one moment, as far as it tells (containers and other systems tell less)."""

    at: float
    busy_s: float | None
    stolen_s: float
    own_cpu_s: float
    throttled: int
    pressure_us: Mapping[str, int]


def _snapshot() -> _Snapshot:
    busy_s, stolen_s = _busy_s()
    return _Snapshot(
        at=time.monotonic(),
        busy_s=busy_s,
        stolen_s=stolen_s,
        own_cpu_s=time.process_time(),
        throttled=_throttled(),
        pressure_us={name: total for name in PRESSURES if (total := _pressure_us(name)) is not None},
    )


def _throttled() -> int:
    """How often a core has slowed down for its heat since boot, as far as that is counted."""
    return sum(int(text) for path in _throttle_counts() if (text := read_proc(path).strip()).isdigit())


@cache
def _throttle_counts() -> tuple[str, ...]:
    return tuple(
        map(str, Path("/sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
    )


def _busy_s() -> tuple[float | None, float]:
    """CPU time spent by all processes since boot, with what other machines on the same host stole, and that alone."""
    fields = read_proc("/proc/stat").partition(b"\n")[0].split()
    if len(fields) < 9 or fields[0] != b"cpu":
        return None, 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in fields[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S, steal / TICKS_PER_S


def _pressure_us(name: str) -> int | None:
    """For how long, since boot, some process has waited for this resource."""
    found = _SOME_TOTAL.search(read_proc(f"/proc/pressure/{name}"))
    return int(found[1]) if found else None


class SystemCollector:
    """Load, pressure, and what other processes used meanwhile: whether a run was disturbed.

    `cpus` are those that the run's case has reserved: what runs of ours beside each other use is as planned. So is what
    runs of the same session in other processes may use, `beside_cpus`.
    """

    _last_ended: ClassVar[float | None] = None
    _running: ClassVar[list["SystemCollector"]] = []
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, cpus: float = 1, beside_cpus: float = 0.0) -> None:
        self._cpus = cpus
        self._unseen = beside_cpus
        self._beside = 0.0
        self._load: float | None = None
        self._load_is_ours = False

    def __enter__(self) -> Self:
        ended = SystemCollector._last_ended
        self._load_is_ours = ended is not None and time.monotonic() - ended < LOAD_MEMORY_S
        self._load = _load()
        with SystemCollector._lock:
            running = SystemCollector._running
            running.append(self)
            total = sum(one._cpus for one in running)
            for one in running:
                one._beside = max(one._beside, total - one._cpus)
        self._before = self._after = _snapshot()
        return self

    def __exit__(self, *_: object) -> None:
        self._after = _snapshot()
        SystemCollector._last_ended = self._after.at
        with SystemCollector._lock:
            SystemCollector._running.remove(self)

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

    def warnings(self) -> tuple[str, ...]:
        """One line if the machine was busy before; whether that disturbed the run is known from what ran beside it."""
        cpus = os.cpu_count() or 1
        # Right after a run of ours the load average tells of that run, not of others.
        if self._load is None or self._load_is_ours or self._load <= DISTURBING_LOAD * cpus:
            return ()
        return (
            f"the machine was busy before the run: a load average of {digits(self._load)} on {cpus} CPUs",
        )

    def conditions(self, usage: Usage) -> Conditions:
        """What else went on; `usage` is what the run itself used."""
        before, after = self._before, self._after
        elapsed_s = after.at - before.at
        pressure_us = after.pressure_us.get("memory", 0) - before.pressure_us.get("memory", 0)
        return Conditions(
            elapsed_s=elapsed_s,
            others_s=max(0.0, (self._others_s(usage) or 0.0) - (self._beside + self._unseen) * elapsed_s),
            stolen_s=after.stolen_s - before.stolen_s,
            memory_wait_s=pressure_us / 1e6,
            throttled=after.throttled - before.throttled,
        )

    def _others_s(self, usage: Usage) -> float | None:
        """The CPU time of all processes but ours."""
        before, after = self._before, self._after
        if before.busy_s is None or after.busy_s is None:
            return None
        ours_s = usage.cpu_user_s + usage.cpu_system_s + after.own_cpu_s - before.own_cpu_s
        return max(0.0, after.busy_s - before.busy_s - ours_s)

    def _other_cores(self, usage: Usage) -> float | None:
        others_s, elapsed_s = self._others_s(usage), self._after.at - self._before.at
        return None if others_s is None or elapsed_s < MEASURABLE_S else round(others_s / elapsed_s, 3)


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
