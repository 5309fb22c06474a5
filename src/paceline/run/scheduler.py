"""Which case runs next: needs first, never more than the machine has, never beside an exclusive one."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from paceline.model import Case, Record, Resources, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the machine has to hand out."""

    cpus: float
    memory_bytes: int
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one running case holds: a slot and the GPUs it may see; on a pool, a place on a node."""

    slot: int
    gpus: tuple[str, ...] = ()
    node: str = ""


RunCase = Callable[[Case, Grant], Record]
SkipCase = Callable[[Case, str], Record]


class Accounts(Protocol):
    """Who keeps account of what running cases hold: of one machine, or of many."""

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


class Scheduler:
    """Runs cases on a fixed number of threads, each with a slot of its own."""

    def __init__(
        self, capacity: Capacity | Accounts, jobs: int, run_case: RunCase, stop: threading.Event
    ) -> None:
        self._ledger: Accounts = Ledger(capacity, jobs) if isinstance(capacity, Capacity) else capacity
        self._pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="case")
        self._run_case = run_case
        self._stop = stop
        self._ended: queue.SimpleQueue[tuple[Case, Future[Record]]] = queue.SimpleQueue()
        self._statuses: dict[str, Status] = {}
        self._waiting: dict[str, Case] = {}

    def run(
        self, cases: Iterable[Case], *, kept: Mapping[str, Status], skip: SkipCase
    ) -> Iterator[tuple[Case, Record]]:
        """Yield each case with its record as it ends; after a stop, what has not begun gets none."""
        self._statuses = dict(kept)
        self._waiting = {case.name: case for case in cases if case.name not in kept}
        with self._pool:
            yield from self._skip_hopeless(skip)
            self._start_what_fits()
            while not self._ledger.idle:
                for case, record in self._next_ended():
                    yield case, record
                    if not record.status.ok:
                        yield from self._skip_hopeless(skip)
                self._start_what_fits()

    def _start_what_fits(self) -> None:
        while not self._stop.is_set() and (picked := self._pick()) is not None:
            case, grant = picked
            del self._waiting[case.name]
            future = self._pool.submit(self._run_case, case, grant)
            future.add_done_callback(lambda done, case=case: self._ended.put((case, done)))  # type: ignore[misc]

    def _pick(self) -> tuple[Case, Grant] | None:
        """The first case, in the plan's order, whose needs have passed and which fits beside what runs."""
        if not self._ledger.has_free_slot:
            return None
        for case in self._waiting.values():
            if all(name in self._statuses for name in case.needs):
                grant = self._ledger.take(case)
                if grant is not None:
                    return case, grant
        return None

    def _next_ended(self) -> Iterator[tuple[Case, Record]]:
        """The next case that ends; none if it is time to look for new room before."""
        try:
            case, future = self._ended.get(timeout=self._ledger.refresh_s)
        except queue.Empty:
            return
        self._ledger.give_back(case)
        record = future.result()
        self._statuses[case.name] = record.status
        yield case, record

    def _skip_hopeless(self, skip: SkipCase) -> Iterator[tuple[Case, Record]]:
        """Cases that need one that did not pass, and those that need them in turn."""
        found = True
        while found and not self._stop.is_set():
            hopeless = [(case, name) for case in self._waiting.values() if (name := self._unmet(case))]
            found = bool(hopeless)
            for case, name in hopeless:
                del self._waiting[case.name]
                record = skip(case, f"needs {name}, which ended as {self._statuses[name]}")
                self._statuses[case.name] = record.status
                yield case, record

    def _unmet(self, case: Case) -> str | None:
        return next(
            (name for name in case.needs if name in self._statuses and not self._statuses[name].ok), None
        )
