"""The connection to a running Ray cluster, and the actors of slots on its nodes."""

import fcntl
import hashlib
import importlib
import importlib.util
import io
import os
import shutil
import sys
import tarfile
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from paceline.errors import PacelineError, needs_extra
from paceline.numbers import number
from paceline.run.ray.home import knock
from paceline.run.ray.placement import Node, Slot, read_nodes

JOIN_TIMEOUT_S = 60.0
# A client whose server did not start is told so at once, but Ray returns from it only after a minute or two.
CLIENT_JOIN_TIMEOUT_S = 200.0
LONGEST_FAULT = 300
CLIENT_TRIES = 3
CLIENT_FAULTS = ("Starting Ray client server failed", "Proxy failed to Connect to backend")
CLOSE_WAIT_S = 5.0
# The run of a case, and beside it its output and a request to stop.
CONCURRENT_CALLS = 4
POOL_PREFIX = "paceline-pool-"


class Lost(Exception):
    """The process or the machine of a slot is gone."""

    def __init__(self, error: BaseException) -> None:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        super().__init__(lines[0] if lines else type(error).__name__)


class Cluster:
    """While entered, a connection to a running Ray cluster, of which nothing but our own actors is touched."""

    def __init__(self, address: str) -> None:
        with needs_extra("ray", "a pool of machines"):
            import ray
            import ray.exceptions
            import ray.util.scheduling_strategies
        self.ray: Any = ray
        self._address = os.environ.get("RAY_ADDRESS") or address if address == "auto" else address
        self._is_ours = False
        # All ways in which Ray says that somebody on the other side has died.
        self._deaths: tuple[type[BaseException], ...] = (
            ray.exceptions.RayActorError,
            ray.exceptions.ActorUnschedulableError,
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.ObjectLostError,
            ray.exceptions.OutOfMemoryError,
            ray.exceptions.LocalRayletDiedError,
            ConnectionError,
        )

    def __enter__(self) -> Self:
        if not self.ray.is_initialized():
            self._connect()
            self._is_ours = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            self.ray.shutdown()

    def _connect(self) -> None:
        knock(self._address, hint="check --on or `pool.address`")
        for _ in range(CLIENT_TRIES):
            fault = self._join()
            # Ray's client port starts a server for each who comes, and some die of gRPC's threads as they are forked.
            if fault is None or not any(known in str(fault) for known in CLIENT_FAULTS):
                break
            self.ray.shutdown()
        if fault is not None:
            why = " ".join(str(fault).split())[:LONGEST_FAULT] or type(fault).__name__
            raise PacelineError(f"cannot use the Ray cluster at {self._address}: {why}") from fault

    def _join(self) -> BaseException | None:
        """Connect, in a thread that need not be waited for: Ray looks for what it cannot reach for ever."""
        faults: list[BaseException] = []

        def attempt() -> None:
            try:
                self.ray.init(address=self._address, log_to_driver=False, logging_level="ERROR")
            except (OSError, RuntimeError, ValueError, self.ray.exceptions.RayError) as error:
                faults.append(error)

        thread = threading.Thread(target=attempt, name="ray-connect", daemon=True)
        thread.start()
        timeout_s = CLIENT_JOIN_TIMEOUT_S if self._address.startswith("ray://") else JOIN_TIMEOUT_S
        thread.join(timeout_s)
        if thread.is_alive():
            return TimeoutError(f"it did not let us in within {number(timeout_s)} s")
        return faults[0] if faults else None

    def nodes(self) -> list[Node]:
        return read_nodes(self.ray.nodes())

    def is_ready(self, call: Any, timeout_s: float) -> bool:
        """Whether a call has come back, for better or worse."""
        try:
            return bool(self.ray.wait([call], timeout=timeout_s)[0])
        except ConnectionError as error:
            raise Lost(error) from error

    def get(self, call: Any) -> Any:
        """What a call came back with; `Lost` if who was called is gone."""
        try:
            return self.ray.get(call)
        except self._deaths as error:
            raise Lost(error) from error

    def kill(self, actor: Any) -> None:
        with suppress(ConnectionError):  # then it is ended when Ray notices that we are gone
            self.ray.kill(actor)

    def start(self, slot: Slot) -> None:
        """Give a slot its actor, which waits on the slot's node until Ray has what it is to reserve."""
        affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        # By value: a node need not have Paceline.
        self.ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        actor = self.ray.remote(Boot).options(
            num_cpus=slot.reserved.cpus,
            num_gpus=slot.reserved.gpus,
            memory=slot.reserved.memory_bytes or None,
            max_concurrency=CONCURRENT_CALLS,
            max_restarts=0,
            scheduling_strategy=affinity(slot.node.id, soft=False),
        )
        slot.actor = actor.remote()

    def call(self, slot: Slot, name: str, *args: Any) -> Any:
        """Ask the `NodeSlot` of a slot something; `get` has the answer."""
        try:
            return slot.actor.call.remote(name, *args)
        except ConnectionError as error:
            raise Lost(error) from error

    def end(self, slot: Slot) -> None:
        """End a slot with all that it runs."""
        if slot.actor is not None:
            self.kill(slot.actor)

    def close(self, slots: list[Slot]) -> None:
        """End slots, in peace if they answer."""
        with suppress(ConnectionError, Lost):
            if calls := [self.call(slot, "close") for slot in slots if slot.is_ready]:
                self.ray.wait(calls, num_returns=len(calls), timeout=CLOSE_WAIT_S)
        for slot in slots:
            self.end(slot)


class Boot:
    """The actor: it finds the same Paceline on its node as here, or unpacks ours, and passes on what is asked.

    It is sent by value, so neither it nor what it calls uses anything but the standard library.
    """

    def load(self, wanted: str, code: bytes | None = None) -> str:
        """Get ready; "code" if this node has no such Paceline, else what is missing besides, or nothing."""
        if code is None:
            spec = importlib.util.find_spec("paceline")
            if spec is None or spec.origin is None or digest(Path(spec.origin).parent) != wanted:
                return "code"
        home = Path(tempfile.mkdtemp(prefix=POOL_PREFIX))
        # The lock is freed with this process, however it ends; under its name nobody finds it unlocked before.
        owner = (home / "owner.new").open("xb")
        fcntl.flock(owner, fcntl.LOCK_EX)
        (home / "owner.new").rename(home / "owner")
        if code is not None:
            extract(code, home / "code/paceline")
            sys.path.insert(0, str(home / "code"))
            importlib.invalidate_caches()
        try:
            self._slot: Any = importlib.import_module("paceline.run.ray.node").NodeSlot(home, owner)
        except ModuleNotFoundError as error:
            shutil.rmtree(home, ignore_errors=True)
            return f"the Python package {error.name}"
        return ""

    def call(self, name: str, *args: Any) -> Any:
        return getattr(self._slot, name)(*args)


def digest(package: Path) -> str:
    """A hash of a package's source."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def extract(packed: bytes, target: Path) -> None:
    """Unpack what `shipping.pack` made on the driver, never an archive of a stranger."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        # The earliest releases of Python 3.11 know no filters.
        archive.extraction_filter = getattr(tarfile, "tar_filter", None)
        archive.extractall(target)  # noqa: S202
