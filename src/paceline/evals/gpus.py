"""GPUs by index, UUID or MIG instance: whether they are there, and how large they are."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from paceline.evals.registry import EvalError
from paceline.run.gpu import nvml


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, or an instance of one, as the driver knows it."""

    index: int | None
    uuid: str
    memory_bytes: int | None


def list_gpus() -> list[Gpu]:
    """All GPUs and MIG instances; none without a driver."""
    library = nvml()
    if library is None:
        return []
    try:
        return list(_gpus(library))
    except library.NVMLError:
        return []


def _gpus(library: Any) -> Iterator[Gpu]:
    for index in range(library.nvmlDeviceGetCount()):
        handle = library.nvmlDeviceGetHandleByIndex(index)
        yield _gpu(library, handle, index)
        for instance in _mig_handles(library, handle):
            yield _gpu(library, instance, None)


def _gpu(library: Any, handle: Any, index: int | None) -> Gpu:
    try:
        memory_bytes = int(library.nvmlDeviceGetMemoryInfo(handle).total)
    except library.NVMLError:
        memory_bytes = None
    try:
        uuid = str(library.nvmlDeviceGetUUID(handle))
    except library.NVMLError:
        uuid = ""
    return Gpu(index=index, uuid=uuid, memory_bytes=memory_bytes)


def _mig_handles(library: Any, handle: Any) -> Iterator[Any]:
    try:
        count = library.nvmlDeviceGetMaxMigDeviceCount(handle)
    except library.NVMLError:
        return  # a card that cannot be split
    for number in range(count):
        try:
            yield library.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except library.NVMLError:
            continue  # an instance that was not made


def find_gpu(device: str, known: Iterable[Gpu]) -> Gpu:
    """The GPU that a user calls so; one that is not there is an error before anything runs."""
    known = list(known)
    for gpu in known:
        by_index = gpu.index is not None and device == str(gpu.index)
        if by_index or (gpu.uuid and len(device) > 4 and gpu.uuid.startswith(device)):
            return gpu
    if not known:
        raise EvalError(f"GPU {device}: no NVIDIA driver or GPU is here; gpu_ids=['cpu'] runs without one")
    names = ", ".join(str(gpu.uuid if gpu.index is None else gpu.index) for gpu in known)
    raise EvalError(f"GPU {device} is not there; known: {names}")
