"""NVIDIA GPUs through NVML, where there is a driver; nothing at all, and silently, where there is none."""

import csv
import ctypes
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TextIO

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


def gpu_collectors(path: Path, interval_s: float) -> list["GpuCollector"]:
    """One collector if there is a driver, else none."""
    nvml = _nvml.get()
    return [] if nvml is None else [GpuCollector(path, interval_s, nvml)]


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

    def __init__(self, path: Path, interval_s: float, nvml: Any) -> None:
        self._path = path
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

    def _note(self, text: str) -> None:
        self._warning = self._warning or text

    def _sample_until_end(self) -> None:
        handles = self._handles()
        if not handles:
            return
        try:
            with self._path.open("w", newline="") as file:
                csv.writer(file).writerow(COLUMNS)
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
