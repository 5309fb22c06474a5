"""The devices that workers sit on: which GPUs are there, and how many workers fit on each, by count and by memory."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.evals.interfaces import EvalError, Waiting
from paceline.run.collectors import nvml

MEMORY_MARGIN = 0.95
"""The share of a device's memory that is given out; the rest is for contexts and fragments."""


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


@dataclass(slots=True, kw_only=True)
class DeviceState:
    """A device and what it carries now: worker number → bytes counted for it."""

    id: str
    visible: str = ""
    """What CUDA calls it, if that is not its id."""
    uuid: str = ""
    memory_bytes: int | None = None
    load: dict[int, int] = field(default_factory=dict)
    removing: bool = False
    faults_in_a_row: int = 0
    reserved_for: int | None = None
    """The number of a stub that is to have the device alone."""

    @property
    def is_cpu(self) -> bool:
        return self.id.partition(":")[0] == "cpu"

    def has_room(self, bytes_wanted: int, *, besides: int | None = None) -> bool:
        """Whether so much fits beside what others hold; an empty device takes anything."""
        others = {worker: held for worker, held in self.load.items() if worker != besides}
        if not others or self.memory_bytes is None:
            return True
        return sum(others.values()) + bytes_wanted <= self.memory_bytes * MEMORY_MARGIN

    def environment(self, workers: int, cpus: int, environ: Mapping[str, str]) -> dict[str, str]:
        """What a worker's process must see before it imports anything."""
        threads = str(max(1, cpus // max(1, workers)))
        limits = {name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name not in environ}
        if self.is_cpu:
            return {"CUDA_VISIBLE_DEVICES": "", **limits}
        order = environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # the driver's, by which indices are looked up
        return {"CUDA_VISIBLE_DEVICES": self.visible or self.id, "CUDA_DEVICE_ORDER": order, **limits}


class DevicePool:
    """All devices of an execution; some may come and others go while it runs."""

    def __init__(
        self,
        ids: Iterable[int | str],
        *,
        max_workers: int,
        memory_bytes: Mapping[str, int] | None = None,
        look_for_gpus: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._memory = {str(name): size for name, size in (memory_bytes or {}).items()}
        self._look = look_for_gpus
        self.max_workers = max_workers
        self.devices: dict[str, DeviceState] = {}
        for name in device_names(ids):
            self.add(name)

    def add(self, name: str) -> DeviceState:
        """Take a device into the pool; one that was to be removed stays."""
        device = self.devices.get(name)
        if device is None:
            device = self.devices[name] = self._find(name)
        device.removing = False
        device.faults_in_a_row = 0
        return device

    def _find(self, name: str) -> DeviceState:
        kind = name.partition(":")[0]
        known_bytes = self._memory.get(name, self._memory.get(kind))
        if kind == "cpu" or not self._look:
            return DeviceState(id=name, memory_bytes=known_bytes)
        visible = visible_name(name, self._environ)
        gpu = find_gpu(visible, list_gpus())
        same = next((one for one in self.devices.values() if gpu.uuid and one.uuid == gpu.uuid), None)
        if same is not None:
            raise EvalError(f"{same.id} and {name} are the same GPU: give it once")
        return DeviceState(
            id=name,
            visible=visible if visible.isdigit() else gpu.uuid,
            uuid=gpu.uuid,
            memory_bytes=gpu.memory_bytes if known_bytes is None else known_bytes,
        )

    def remove(self, name: str) -> DeviceState | None:
        """Give a device no more work; it goes once its last worker is gone."""
        device = self.devices.get(name)
        if device is not None:
            device.removing = True
            self.forget_removed()
        return device

    def forget_removed(self) -> None:
        for name in [name for name, device in self.devices.items() if device.removing and not device.load]:
            del self.devices[name]

    @property
    def usable(self) -> list[DeviceState]:
        return [device for device in self.devices.values() if not device.removing]

    @property
    def workers_per_device(self) -> int:
        return -(-self.max_workers // max(1, len(self.usable)))

    def with_seats(self) -> Sequence[DeviceState]:
        """Where one more worker could be started, the emptiest device first."""
        if sum(len(device.load) for device in self.devices.values()) >= self.max_workers:
            return ()
        free = [device for device in self.usable if len(device.load) < self.workers_per_device]
        return sorted(free, key=lambda device: (len(device.load), -(device.memory_bytes or 0)))

    def fits(self, device: DeviceState, stub: Waiting, worker: int | None = None) -> bool:
        """Whether a stub may run on a device now, in a worker that is there or in a new one."""
        if device.reserved_for not in (None, stub.number):
            return False
        if stub.alone:
            return all(number == worker for number in device.load)
        return device.has_room(stub.memory_bytes, besides=worker)

    def reserve(self, stub: Waiting) -> None:
        """Keep the largest device free for a stub that is to be alone on it; nothing if one is kept already."""
        if any(device.reserved_for is not None for device in self.usable) or not self.usable:
            return
        largest = max(self.usable, key=lambda device: (device.memory_bytes or 0, -len(device.load)))
        largest.reserved_for = stub.number

    def release(self, number: int) -> None:
        for device in self.devices.values():
            if device.reserved_for == number:
                device.reserved_for = None


def device_names(ids: Iterable[int | str]) -> list[str]:
    """Names of devices as asked for: indices, UUIDs, or `cpu`, which may come several times."""
    given = [str(item).strip() for item in ids]
    if not given or not all(given):
        raise EvalError("gpu_ids needs at least one GPU: [0, 1], ['GPU-…'], or ['cpu', 'cpu']")
    cpus = Counter(name for name in given if name == "cpu")["cpu"]
    numbers = iter(range(cpus))
    names = [f"cpu:{next(numbers)}" if name == "cpu" else name for name in given]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise EvalError(f"GPU {twice[0]} is given twice; max_concurrent_runs says how many share a GPU")
    return names


def visible_name(name: str, environ: Mapping[str, str]) -> str:
    """What CUDA calls a device: an index counts among those that are visible here, as in every CUDA program."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not name.isdigit():
        return name
    names = [part.strip() for part in visible.split(",") if part.strip()]
    if int(name) >= len(names):
        raise EvalError(f"GPU {name} is not there: CUDA_VISIBLE_DEVICES={visible!r} shows {len(names)}")
    return names[int(name)]
