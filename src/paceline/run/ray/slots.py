"""The Ray cluster of a pool and the slots on its nodes: actors that hold what cases ask for, kept for the next case."""

import io
import os
import socket
import tarfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Self

import paceline
from paceline.errors import PacelineError, needs_extra
from paceline.model import Resources
from paceline.run.ray import boot as ray_pool_boot
from paceline.run.ray.boot import Boot, digest
from paceline.run.ray.placement import Node, fit, read_nodes

CONNECT_TIMEOUT_S = 5.0
JOIN_TIMEOUT_S = 60.0
# A client whose server did not start is told so at once, but Ray returns from it only after a minute or two.
CLIENT_JOIN_TIMEOUT_S = 200.0
LONGEST_FAULT = 300
CLIENT_TRIES = 3
CLIENT_FAULTS = ("Starting Ray client server failed", "Proxy failed to Connect to backend")
POLL_S = 0.2
CLOSE_WAIT_S = 5.0
# The run of a case, and beside it its output and a request to stop.
CONCURRENT_CALLS = 4


KeepWaiting = Callable[[float], bool]
Introduce = Callable[[dict[str, Any]], str]
"""Told what a node of which nothing was known says of itself; hands back the id of its environment."""


class Lost(Exception):
    """The process or the machine of a slot is gone."""


class Unusable(Exception):
    """A node has not what the pool needs; the message says what."""


class Cluster:
    """While entered, a connection to a running Ray cluster, of which nothing but our own actors is touched."""

    def __init__(self, address: str) -> None:
        self._address = os.environ.get("RAY_ADDRESS") or address if address == "auto" else address
        self._ray = _import_ray()
        self._is_ours = False
        self._boot: Any = None
        # All ways in which Ray says that somebody on the other side has died.
        errors = self._ray.exceptions
        self._deaths: tuple[type[BaseException], ...] = (
            errors.RayActorError,
            errors.ActorUnschedulableError,
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
            errors.LocalRayletDiedError,
            ConnectionError,
        )

    def __enter__(self) -> Self:
        if not self._ray.is_initialized():
            self._connect()
            self._is_ours = True
        self._ray.cloudpickle.register_pickle_by_value(ray_pool_boot)
        self._boot = self._ray.remote(Boot)
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.cloudpickle.unregister_pickle_by_value(ray_pool_boot)
        if self._is_ours:
            self._ray.shutdown()

    def _connect(self) -> None:
        """Ask at the port first: Ray would try for most of a minute."""
        host, colon, port = self._address.rpartition("://")[2].rpartition(":")
        if colon and port.isdecimal():
            try:
                socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
            except OSError as error:
                why = error.strerror or str(error)
                hint = "check --on or `pool.address`"
                raise PacelineError(f"no Ray cluster answers at {self._address}: {why}; {hint}") from error
        fault = self._join()
        for _ in range(CLIENT_TRIES - 1):
            # Ray's client port starts a server for each who comes, and some die of gRPC's threads as they are forked.
            if fault is None or not any(known in str(fault) for known in CLIENT_FAULTS):
                break
            self._ray.shutdown()
            fault = self._join()
        if fault is not None:
            why = " ".join(str(fault).split())[:LONGEST_FAULT] or type(fault).__name__
            raise PacelineError(f"cannot use the Ray cluster at {self._address}: {why}") from fault

    def _join(self) -> BaseException | None:
        """Connect, in a thread that need not be waited for: Ray looks for what it cannot reach for ever."""
        faults: list[BaseException] = []
        errors = (OSError, RuntimeError, ValueError, self._ray.exceptions.RayError)

        def attempt() -> None:
            try:
                self._ray.init(address=self._address, log_to_driver=False, logging_level="ERROR")
            except errors as error:
                faults.append(error)

        thread = threading.Thread(target=attempt, name="ray-connect", daemon=True)
        thread.start()
        timeout_s = CLIENT_JOIN_TIMEOUT_S if self._address.startswith("ray://") else JOIN_TIMEOUT_S
        thread.join(timeout_s)
        if thread.is_alive():
            return TimeoutError(f"it did not let us in within {timeout_s:g} s")
        return faults[0] if faults else None

    def nodes(self) -> list[Node]:
        return read_nodes(self._ray.nodes())

    def start(self, node: Node, held: Resources) -> Any:
        """An actor on this very node; it waits there until Ray has what it is to hold."""
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
        return self._boot.options(
            num_cpus=held.cpus,
            num_gpus=held.gpus,
            memory=held.memory_bytes or None,
            max_concurrency=CONCURRENT_CALLS,
            max_restarts=0,
            scheduling_strategy=strategy,
        ).remote()

    def is_ready(self, call: Any, timeout_s: float) -> bool:
        """Whether a call has come back, for better or worse."""
        try:
            return bool(self._ray.wait([call], timeout=timeout_s)[0])
        except ConnectionError as error:
            raise Lost(_told(error)) from error

    def get(self, call: Any) -> Any:
        """What a call came back with; `Lost` if who was called is gone."""
        try:
            return self._ray.get(call)
        except self._deaths as error:
            raise Lost(_told(error)) from error

    def put(self, data: bytes) -> Any:
        return self._ray.put(data)

    def kill(self, actor: Any) -> None:
        with suppress(ConnectionError):  # then it is ended when Ray notices that we are gone
            self._ray.kill(actor)

    def wait_all(self, calls: list[Any], timeout_s: float) -> None:
        if calls:
            self._ray.wait(calls, num_returns=len(calls), timeout=timeout_s)


def _import_ray() -> Any:
    with needs_extra("ray", "a pool of machines"):
        import ray
        import ray.exceptions
        import ray.util.scheduling_strategies
    return ray


def _told(error: BaseException) -> str:
    """The first line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


@dataclass(slots=True, kw_only=True, eq=False)
class Slot:
    """An actor and what is known of it; `places` are directories of ours that it has a copy of, or sees itself."""

    actor: Any
    node: Node
    held: Resources
    places: dict[str, str] = field(default_factory=dict)
    environment_id: str = ""

    def call(self, name: str, *args: Any) -> Any:
        """Ask the other side something; `Cluster.get` has the answer."""
        try:
            return self.actor.call.remote(name, *args)
        except ConnectionError as error:
            raise Lost(_told(error)) from error


class Slots:
    """All slots of a session. A case gets an idle one of its size on its node, or a new one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._busy: set[Slot] = set()
        self._idle: list[Slot] = []
        self._environments: dict[str, str] = {}
        self._digest = digest(_package())
        self._code: Any = None

    def take(
        self, node: Node, held: Resources, keep_waiting: KeepWaiting, introduce: Introduce
    ) -> Slot | None:
        """A slot, as soon as Ray has room for it; None once `keep_waiting`, told the seconds so far, says no."""
        with self._lock:
            found = next((slot for slot in self._idle if slot.node.id == node.id and slot.held == held), None)
            doomed = [] if found else self._in_the_way(node, held)
            self._idle = [slot for slot in self._idle if slot is not found and slot not in doomed]
            slot = found or Slot(actor=self._cluster.start(node, held), node=node, held=held)
            self._busy.add(slot)
        for other in doomed:
            self._cluster.kill(other.actor)
        try:
            if found is not None or self._get_ready(slot, keep_waiting, introduce):
                return slot
        except (Lost, Unusable):
            self.bury(slot)
            raise
        self.bury(slot)
        return None

    def give_back(self, slot: Slot) -> None:
        with self._lock:
            self._busy.discard(slot)
            self._idle.append(slot)

    def bury(self, slot: Slot) -> None:
        """Let go of one that is gone, or is to go with all that it runs."""
        with self._lock:
            self._busy.discard(slot)
        self._cluster.kill(slot.actor)

    def close(self) -> None:
        """End all of them, in peace if they answer."""
        with self._lock:
            slots = [*self._idle, *self._busy]
            self._idle, self._busy = [], set()
        with suppress(ConnectionError):
            self._cluster.wait_all([slot.actor.close.remote() for slot in slots], CLOSE_WAIT_S)
        for slot in slots:
            self._cluster.kill(slot.actor)

    def _in_the_way(self, node: Node, held: Resources) -> list[Slot]:
        """Idle slots that hold what a new one needs."""
        here = [slot for slot in (*self._busy, *self._idle) if slot.node.id == node.id]
        idle = [slot for slot in self._idle if slot.node.id == node.id]
        doomed: list[Slot] = []
        while idle and not fit([held, *(slot.held for slot in here if slot not in doomed)], node):
            doomed.append(idle.pop(0))
        return doomed

    def _get_ready(self, slot: Slot, keep_waiting: KeepWaiting, introduce: Introduce) -> bool:
        first = slot.actor.load.remote(self._digest)
        if not self._wait(first, keep_waiting):
            return False
        lacking = self._cluster.get(first)
        if lacking == "code":
            lacking = self._cluster.get(slot.actor.load.remote(self._digest, self._packed_code()))
        if lacking:
            raise Unusable(f"{slot.node.name} has not {lacking}; install Paceline there")
        is_new = slot.node.id not in self._environments
        hello = self._cluster.get(slot.call("hello", is_new))
        if is_new:
            self._environments[slot.node.id] = introduce(hello)
        slot.environment_id = self._environments[slot.node.id]
        return True

    def _packed_code(self) -> Any:
        with self._lock:
            if self._code is None:
                self._code = self._cluster.put(_pack_package(_package()))
            return self._code

    def _wait(self, call: Any, keep_waiting: KeepWaiting) -> bool:
        begun = monotonic()
        while not self._cluster.is_ready(call, POLL_S):
            if not keep_waiting(monotonic() - begun):
                return False
        return True


def _package() -> Path:
    return Path(paceline.__file__).parent


def _pack_package(package: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for path in sorted(package.rglob("*.py")):
            archive.add(path, path.relative_to(package.parent), recursive=False)
    return packed.getvalue()
