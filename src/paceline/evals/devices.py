"""The devices that workers sit on: which GPUs are there, and how many workers fit on each, by count and by memory.

Devices of a running execution are seen and changed from another process through two small files of its directory.
"""

import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from paceline import numbers
from paceline.evals.interfaces import EvalError, Waiting
from paceline.record.codec import dump, load
from paceline.record.events import utc_now
from paceline.record.files import JsonLines, Tail, write_atomic
from paceline.record.layout import EVENTS, SLOT_REQUESTS, SLOTS
from paceline.run.collectors import nvml

if TYPE_CHECKING:
    from paceline.evals.workers import WorkerSeat

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
    """Several GPUs that one model is spread over are one device, their ids joined by commas."""
    visible: str = ""
    """What CUDA calls it, if that is not its id."""
    uuids: tuple[str, ...] = ()
    memory_bytes: int | None = None
    load: dict[int, int] = field(default_factory=dict)
    removing: bool = False
    faults_in_a_row: int = 0
    reserved_for: int | None = None
    """The number of a stub that is to have the device alone."""

    @property
    def is_cpu(self) -> bool:
        return self.id.partition(":")[0] == "cpu"

    @property
    def count(self) -> int:
        """How many GPUs it is."""
        return self.id.count(",") + 1

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
        on_cluster: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._memory = {str(name): size for name, size in (memory_bytes or {}).items()}
        self._look, self._on_cluster = look_for_gpus, on_cluster
        self.max_workers = max_workers
        self.devices: dict[str, DeviceState] = {}
        names = device_names(ids)
        for name in names:
            self._take(name, look=look_for_gpus)
        self._each = -(-max_workers // len(names))
        """Workers that a device is meant for."""

    def add(self, name: str) -> DeviceState:
        """Take one more device into the pool, with as many workers as each has; one that was to be removed stays."""
        known = self.devices.get(name)
        if known is not None and not known.removing:
            raise EvalError(f"{name} is in the pool already")
        if name == "cpu":
            taken = {one.id for one in self.devices.values()}
            name = next(free for number in range(len(taken) + 1) if (free := f"cpu:{number}") not in taken)
        device = self._take(name, look=not self._on_cluster)
        self.max_workers += self._each
        return device

    def _take(self, name: str, *, look: bool) -> DeviceState:
        device = self.devices.get(name)
        if device is None:
            device = self.devices[name] = self._find(name, look=look)
        device.removing = False
        device.faults_in_a_row = 0
        return device

    def _find(self, name: str, *, look: bool) -> DeviceState:
        kind = name.partition(":")[0]
        known_bytes = self._memory.get(name, self._memory.get(kind))
        if kind == "cpu" or not look:
            return DeviceState(id=name, memory_bytes=known_bytes)
        parts = [visible_name(one, self._environ) for one in name.split(",")]
        known = list_gpus()
        gpus = [find_gpu(one, known) for one in parts]
        uuids = tuple(gpu.uuid for gpu in gpus if gpu.uuid)
        if len(set(uuids)) < len(uuids):
            raise EvalError(f"{name} names one GPU twice")
        same = next((one for one in self.devices.values() if set(one.uuids) & set(uuids)), None)
        if same is not None:
            raise EvalError(f"{same.id} and {name} are the same GPU: give it once")
        sizes = [gpu.memory_bytes for gpu in gpus if gpu.memory_bytes is not None]
        seen_bytes = sum(sizes) if len(sizes) == len(gpus) else None
        return DeviceState(
            id=name,
            visible=",".join(
                one if one.isdigit() else gpu.uuid for one, gpu in zip(parts, gpus, strict=True)
            ),
            uuids=uuids,
            memory_bytes=seen_bytes if known_bytes is None else known_bytes,
        )

    def remove(self, name: str) -> DeviceState | None:
        """Give a device no more work; it goes once its last worker is gone."""
        device = self.devices.get(name)
        if device is not None:
            device.removing = True
            self.forget_removed()
        return device

    def give_up(self, name: str) -> None:
        """The same because a user asks for it: its workers are not to be started elsewhere."""
        device = self.devices.get(name)
        if device is None or device.removing:
            raise EvalError(f"{name} is not in the pool; it has: {', '.join(self.devices)}")
        if len(self.usable) == 1:
            raise EvalError(f"{name} is the last device: interrupt the execution instead")
        self.remove(name)
        self.max_workers = max(1, self.max_workers - self._each)

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
        if sum(len(device.load) for device in self.usable) >= self.max_workers:
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


def device_names(ids: Iterable[int | str], per_model: int = 1) -> list[str]:
    """Names of devices: indices, UUIDs, or `cpu`, which may come several times; `per_model` GPUs are one."""
    given = [str(item).replace(" ", "") for item in ids]
    if not given or not all(given):
        raise EvalError("gpu_ids needs at least one GPU: [0, 1], ['GPU-…'], or ['cpu', 'cpu']")
    if per_model > 1:
        if len(given) % per_model or any(name.startswith("cpu") or "," in name for name in given):
            raise EvalError(f"gpus_per_model: {per_model} divides no {len(given)} gpu_ids of single GPUs")
        given = [",".join(given[start : start + per_model]) for start in range(0, len(given), per_model)]
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


_LOOK_EVERY_S = 0.5
_SHOW_EVERY_S = 1.0
_ANSWER_S = 15.0


class SlotFiles:
    """The running execution's side: it shows what devices do, and takes requests to add and remove some."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._requests = Tail(directory / SLOT_REQUESTS)
        self._looked_at = self._shown_at = 0.0

    def requests(self) -> Sequence[Mapping[str, str]]:
        """What was asked since the last time; the answers are in the execution's events, by the requests' ids."""
        now = monotonic()
        if now - self._looked_at < _LOOK_EVERY_S:
            return ()
        self._looked_at = now
        return [
            request
            for request in self._requests.read()
            if request.get("do") in ("add", "remove") and "device" in request
        ]

    def show(self, pool: DevicePool, workers: "Iterable[WorkerSeat]") -> None:
        """Write down what devices do, now and then; a full disk costs the view only."""
        now = monotonic()
        if now - self._shown_at < _SHOW_EVERY_S:
            return
        self._shown_at = now
        with suppress(OSError):
            data = dump({"time": utc_now(), "devices": describe(pool, workers)}, pretty=True)
            write_atomic(self._directory / SLOTS, data, durable=False)

    def forget(self) -> None:
        """The execution has ended, and its devices do nothing any more."""
        (self._directory / SLOTS).unlink(missing_ok=True)


def describe(pool: DevicePool, workers: "Iterable[WorkerSeat]") -> list[dict[str, Any]]:
    """Each device with its workers and what they do."""
    seats = list(workers)
    return [
        {
            "device": device.id,
            "removing": device.removing,
            "memory_bytes": device.memory_bytes,
            "memory_given_bytes": sum(device.load.values()),
            "workers": [_describe(worker) for worker in seats if worker.device is device],
        }
        for device in pool.devices.values()
    ]


def _describe(worker: "WorkerSeat") -> dict[str, Any]:
    lease = worker.lease
    return {
        "worker": worker.number,
        "pid": worker.pid,
        "stub": lease.job.stub.name if lease else None,
        "known": lease.known if lease else 0,
        "total": lease.total if lease else 0,
    }


def read_slots(directory: Path) -> list[dict[str, Any]]:
    """The devices of an execution as it last showed them."""
    try:
        data = load((directory / SLOTS).read_bytes())
        devices: list[dict[str, Any]] = data["devices"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvalError(f"{directory} shows no slots: no execution runs there") from error
    return devices


def ask(directory: Path, do: str, device: str) -> str:
    """Ask a running execution to `add` or `remove` a device; what it did. What it cannot do is raised."""
    request = secrets.token_hex(8)
    with JsonLines(directory / SLOT_REQUESTS) as requests:
        requests.append({"do": do, "device": device, "id": request})
    events, until = Tail(directory / EVENTS), monotonic() + _ANSWER_S
    while monotonic() < until:
        for event in events.read():
            if event.get("request") == request:
                if event["event"] == "slots_refused":
                    raise EvalError(f"{directory.name} refuses to {do} {device}: {event['reason']}")
                return f"{event['device']} {'added' if do == 'add' else 'leaves'}: {event['workers']} workers in all"
        time.sleep(0.05)
    raise EvalError(
        f"{directory.name} did not answer within {numbers.number(_ANSWER_S)} s: it has ended, or is about to"
    )
