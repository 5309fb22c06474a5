"""Devices of a running execution, seen and changed from another process through two small files of its directory."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from paceline.evals.devices import DevicePool, device_names
from paceline.evals.interfaces import EvalError
from paceline.evals.workers import WorkerSeat
from paceline.record.codec import dump, load
from paceline.record.events import utc_now
from paceline.record.files import JsonLines, Tail, write_atomic
from paceline.record.layout import SLOT_REQUESTS, SLOTS

_LOOK_EVERY_S = 0.5
_SHOW_EVERY_S = 1.0


class SlotFiles:
    """The running execution's side: it shows what devices do, and takes requests to add and remove some."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._requests = Tail(directory / SLOT_REQUESTS)
        self._looked_at = self._shown_at = 0.0

    def requests(self) -> Sequence[Mapping[str, str]]:
        """What was asked since the last time."""
        now = monotonic()
        if now - self._looked_at < _LOOK_EVERY_S:
            return ()
        self._looked_at = now
        return [
            request
            for request in self._requests.read()
            if request.get("do") in ("add", "remove") and "device" in request
        ]

    def show(self, pool: DevicePool, workers: Iterable[WorkerSeat]) -> None:
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


def describe(pool: DevicePool, workers: Iterable[WorkerSeat]) -> list[dict[str, Any]]:
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


def _describe(worker: WorkerSeat) -> dict[str, Any]:
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


def ask(directory: Path, do: str, devices: Iterable[str]) -> None:
    """Ask a running execution to add or remove devices."""
    names = [name if name.startswith("cpu:") else device_names([name])[0] for name in devices]
    with JsonLines(directory / SLOT_REQUESTS) as requests:
        for name in names:
            requests.append({"do": do, "device": name})
