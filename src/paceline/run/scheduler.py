"""Which case runs next: needs first, never more than the machine has, never beside an exclusive one."""

import os
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from paceline.model import Case, Record, Resources, Status
from paceline.record.capacity import usable_cpus, usable_memory_bytes
from paceline.run.collectors import device_ids
from paceline.run.context import Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the machine has to hand out."""

    cpus: float
    memory_bytes: int
    gpus: tuple[str, ...] = ()


def machine_capacity() -> Capacity:
    """CPUs and memory that this process may use, and the GPUs that are visible to it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        gpus = device_ids()
    else:
        gpus = tuple(part.strip() for part in visible.split(",") if part.strip())
    return Capacity(cpus=usable_cpus(), memory_bytes=usable_memory_bytes(), gpus=gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one running case holds: a slot and the GPUs it may see."""

    slot: int
    gpus: tuple[str, ...] = ()


RunCase = Callable[[Case, Grant], Record]
SkipCase = Callable[[Case, str], Record]


class Accounts(Protocol):
    """Keeps account of what running cases hold: of one machine, or of many."""

    refresh_s: float | None
    """How often to ask again although no case has ended; None if only the end of one makes room."""

    @property
    def idle(self) -> bool:
        """Whether no case runs; then the next one that is asked for must get a grant."""

    @property
    def has_free_slot(self) -> bool:
        """Whether any case could run now."""

    def take(self, case: Case) -> Grant | None:
        """A grant for the case, or None while it does not fit beside what runs."""

    def give_back(self, case: Case) -> None:
        """The case has ended."""


class Ledger:
    """Keeps account of what running cases hold of one machine."""

    refresh_s: float | None = None

    def __init__(self, capacity: Capacity, slots: int) -> None:
        self._capacity = capacity
        self._slots = list(range(slots - 1, -1, -1))
        self._gpus = list(capacity.gpus)
        self._held: dict[str, tuple[Resources, Grant]] = {}

    @property
    def idle(self) -> bool:
        return not self._held

    @property
    def has_free_slot(self) -> bool:
        return bool(self._slots)

    def take(self, case: Case) -> Grant | None:
        """A grant for the case, or None while it does not fit beside what runs."""
        wanted = self._clamped(case.resources)
        if not self._slots or not self._fits(wanted):
            return None
        gpus = tuple(self._gpus[: wanted.gpus])
        del self._gpus[: wanted.gpus]
        grant = Grant(slot=self._slots.pop(), gpus=gpus)
        self._held[case.name] = (wanted, grant)
        return grant

    def give_back(self, case: Case) -> None:
        _, grant = self._held.pop(case.name)
        self._slots.append(grant.slot)
        self._gpus.extend(grant.gpus)

    def _clamped(self, wanted: Resources) -> Resources:
        """A case that asks for more than there is gets the whole machine, and so runs alone."""
        return Resources(
            cpus=min(wanted.cpus, self._capacity.cpus),
            gpus=min(wanted.gpus, len(self._capacity.gpus)),
            memory_bytes=min(wanted.memory_bytes, self._capacity.memory_bytes),
            exclusive=wanted.exclusive,
        )

    def _fits(self, wanted: Resources) -> bool:
        held = [resources for resources, _ in self._held.values()]
        if held and (wanted.exclusive or any(resources.exclusive for resources in held)):
            return False
        cpus = sum(resources.cpus for resources in held) + wanted.cpus
        memory_bytes = sum(resources.memory_bytes for resources in held) + wanted.memory_bytes
        return (
            cpus <= self._capacity.cpus + 1e-9
            and memory_bytes <= self._capacity.memory_bytes
            and wanted.gpus <= len(self._gpus)
        )


def unmet_need(case: Case, statuses: Mapping[str, Status]) -> str:
    """Why a case cannot run: one that it needs has ended and did not pass. Empty if there is none."""
    names = (name for name in case.needs if name in statuses and not statuses[name].ok)
    return next((f"needs {name}, which ended as {statuses[name]}" for name in names), "")


def setup_failed(name: str) -> str:
    """Why no case runs after a data set-up that did not pass."""
    return f"the data set-up {name} did not pass"


class Scheduler:
    """Runs cases on a fixed number of threads: data set-ups one by one, then what is ready and fits."""

    def __init__(
        self, accounts: Accounts, jobs: int, run_case: RunCase, skip_case: SkipCase, stop: Stop
    ) -> None:
        self._accounts = accounts
        self._threads = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="case")
        self._run_case = run_case
        self._skip_case = skip_case
        self._stop = stop
        self._ended: queue.SimpleQueue[tuple[Case, Future[Record]]] = queue.SimpleQueue()
        self._setups: list[Case] = []
        self._waiting: dict[str, Case] = {}
        self._unfinished: set[str] = set()
        self._statuses: dict[str, Status] = {}

    def run(self, cases: Sequence[Case]) -> Iterator[Record]:
        """Yield the record of each case as it ends; after a stop, what has not begun gets none.

        The cases come with needs before those that need them; a need that is not among them has been met.
        """
        self._setups = [case for case in cases if case.kind == "data_setup"]
        self._waiting = {case.name: case for case in cases if case.kind != "data_setup"}
        self._unfinished = set(self._waiting)
        with self._threads, self._ending_the_rest():
            while True:
                while not self._stop.is_set() and (picked := self._pick()) is not None:
                    future = self._threads.submit(self._run_case, *picked)
                    future.add_done_callback(partial(self._note_ended, picked[0]))
                if self._accounts.idle:
                    return
                try:
                    case, future = self._ended.get(timeout=self._accounts.refresh_s)
                except queue.Empty:  # time to look for new room
                    continue
                self._accounts.give_back(case)
                record = future.result()
                yield record
                yield from self._settle(case, record.status)

    @contextmanager
    def _ending_the_rest(self) -> Iterator[None]:
        """After an error, or its threads would be waited for as long as their cases take."""
        try:
            yield
        except BaseException as error:
            if not self._accounts.idle:
                self._stop.fail(error)
            raise

    def _note_ended(self, case: Case, future: "Future[Record]") -> None:
        self._ended.put((case, future))

    def _pick(self) -> tuple[Case, Grant] | None:
        """The next data set-up, else the first case whose needs have passed and which fits beside what runs."""
        if self._setups:
            grant = self._accounts.take(self._setups[0]) if self._accounts.idle else None
            return None if grant is None else (self._setups[0], grant)
        if not self._accounts.has_free_slot:
            return None
        for case in self._waiting.values():
            if self._unfinished.isdisjoint(case.needs):
                grant = self._accounts.take(case)
                if grant is not None:
                    del self._waiting[case.name]
                    return case, grant
        return None

    def _settle(self, case: Case, status: Status) -> Iterator[Record]:
        """Note how a case ended, and skip those that cannot run any more."""
        blocked = ""
        if case.kind == "data_setup":
            self._setups.remove(case)
            blocked = "" if status.ok else setup_failed(case.name)
        else:
            self._unfinished.discard(case.name)
            self._statuses[case.name] = status
        if status.ok or self._stop.is_set():
            return
        for other in (*self._setups, *self._waiting.values()):
            reason = blocked or unmet_need(other, self._statuses)
            if not reason:
                continue
            record = self._skip_case(other, reason)
            if other.kind != "data_setup":
                del self._waiting[other.name]
                self._unfinished.discard(other.name)
                self._statuses[other.name] = record.status
            yield record
        if blocked:
            self._setups = []
