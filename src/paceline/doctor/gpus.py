"""NVIDIA GPUs: by NVML where the package for it is installed, else by the program that comes with the driver."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from paceline.doctor.installed import pip_line
from paceline.doctor.machine import Machine, Remark, answer_of, remark
from paceline.numbers import size
from paceline.run import collectors as gpu

ANSWER_S = 20.0  # waking the driver takes some seconds where nobody keeps it awake
BUSY_PCT = 5
_QUERY = "name,memory.total,utilization.gpu,persistence_mode"
# Of NVML's reasons for a lower clock those that are faults: heat, power brake, hardware.
_SLOWED = 0x20 | 0x40 | 0x80 | 0x8


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU; None is what it does not say."""

    index: int
    name: str
    memory_bytes: int | None = None
    utilization_pct: int | None = None
    is_persistent: bool | None = None
    slowed: int | None = None


def look(machine: Machine) -> Iterator[Remark]:
    driver = machine.read("proc/driver/nvidia/version").partition("\n")[0]
    program = shutil.which("nvidia-smi", path=machine.environ.get("PATH", ""))
    found = list(_by_nvml(gpu.nvml())) or (list(_by_program(program)) if program else [])
    if not found and (driver or program):
        meaning = "there is a driver, but no GPU answers"
        yield remark("GPUs", "warn", "none", meaning, "nvidia-smi; in a container: docker run --gpus all …")
    elif not found:
        yield remark("GPUs", "ok", "none", "no NVIDIA driver here")
    elif find_spec("pynvml") is None:
        meaning = "sessions record no metrics of the GPUs without it"
        yield remark("gpu extra", "note", "not installed", meaning, pip_line("paceline[gpu]"))
    for one in found:
        yield from _judge(one)


def _judge(one: Gpu) -> Iterator[Remark]:
    name = f"GPU {one.index}"
    memory = f", {size(one.memory_bytes)}" if one.memory_bytes else ""
    yield remark(name, "ok", f"{one.name}{memory}", "can be used")
    if one.utilization_pct is not None and one.utilization_pct >= BUSY_PCT:
        meaning = "somebody else uses it, and what is measured shares it"
        yield remark(f"{name} use", "warn", f"{one.utilization_pct} %", meaning, "nvidia-smi")
    if one.slowed:
        meaning = "its clock is lowered for heat, power or a fault of the hardware"
        yield remark(f"{name} clock", "warn", "slowed down", meaning, "nvidia-smi -q -d PERFORMANCE")
    if one.is_persistent is False:
        meaning = "the driver is started anew for the first program of each run"
        yield remark(f"{name} driver", "note", "not kept awake", meaning, "sudo nvidia-smi -pm 1")


def _by_nvml(nvml: Any) -> Iterator[Gpu]:
    if nvml is None:
        return
    with suppress(nvml.NVMLError):
        for index in range(nvml.nvmlDeviceGetCount()):
            yield _ask(nvml, index, nvml.nvmlDeviceGetHandleByIndex(index))


def _ask(nvml: Any, index: int, handle: Any) -> Gpu:
    facts: dict[str, Any] = {"name": "unknown"}
    with suppress(nvml.NVMLError):
        name = nvml.nvmlDeviceGetName(handle)
        facts["name"] = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    with suppress(nvml.NVMLError):
        facts["memory_bytes"] = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    with suppress(nvml.NVMLError):
        facts["utilization_pct"] = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    with suppress(nvml.NVMLError):
        facts["is_persistent"] = bool(nvml.nvmlDeviceGetPersistenceMode(handle))
    with suppress(nvml.NVMLError):
        facts["slowed"] = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) & _SLOWED
    return Gpu(index=index, **facts)


def _by_program(program: str) -> Iterator[Gpu]:
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    for index, line in enumerate(answer_of(command, timeout_s=ANSWER_S).splitlines()):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 4:
            name, memory_mib, utilization, persistence = cells
            yield Gpu(
                index=index,
                name=name,
                memory_bytes=int(memory_mib) << 20 if memory_mib.isdecimal() else None,
                utilization_pct=int(utilization) if utilization.isdecimal() else None,
                is_persistent={"Enabled": True, "Disabled": False}.get(persistence),
            )
