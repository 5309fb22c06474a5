"""What goes wrong with a stub, by class, and how often each class is tried again."""

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

from paceline.evals.interfaces import TransientFault


class FaultClass(StrEnum):
    """Why an attempt ended without a result."""

    OUT_OF_MEMORY = "out_of_memory"
    CRASH = "crash"
    STARTUP = "startup"
    STALL = "stall"
    TIMEOUT = "timeout"
    NETWORK = "network"
    ERROR = "error"
    """An exception that will come again: wrong arguments, missing data, a bug. Not tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How many times a stub is tried again after a fault of each class."""

    out_of_memory: int = 2
    crash: int = 2
    startup: int = 1
    stall: int = 1
    timeout: int = 1
    network: int = 5
    network_pause_s: float = 2.0
    longest_pause_s: float = 300.0

    def allows(self, fault: FaultClass, earlier: int) -> bool:
        """Whether one more try is due after so many earlier faults of the class."""
        return fault is not FaultClass.ERROR and earlier < int(getattr(self, fault.value))

    def pause_s(self, fault: FaultClass, earlier: int, random: Random) -> float:
        """How long to wait before it; twice as long each time for a network, with some chance in it."""
        if fault is not FaultClass.NETWORK:
            return 0.0
        full = min(self.network_pause_s * 2.0**earlier, self.longest_pause_s)
        return full * (0.5 + random.random() / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The three clocks of a stub: until its model is loaded, from one sample to the next, and all in all."""

    startup_timeout_s: float = 900.0
    stall_timeout_s: float = 1800.0
    timeout_per_benchmark_s: float = 86400.0


_NETWORK_ERRNOS = frozenset(
    {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.ECONNRESET}
)


# Of packages that are not imported for this; the errors of a download are wrapped in others by who asked for it.
_NETWORK_TYPES = frozenset(
    {
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "requests.exceptions.ChunkedEncodingError",
        "httpx.TransportError",
        "httpx2.TransportError",
        "aiohttp.client_exceptions.ClientConnectionError",
    }
)
_OFFLINE = "OfflineModeIsEnabled"
"""The hub's error, a `ConnectionError`, for a user who forbids all connections: it will not go away."""
_BUSY_STATUSES = frozenset({408, 425, 429})
_SERVER_FAULT = 500


def classify(error: BaseException) -> FaultClass:
    """The class of an exception by its type and the types of its causes, never by its words."""
    chain = list(_causes(error))
    kinds = [kind for one in chain for kind in type(one).__mro__]
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in kinds):
        return FaultClass.OUT_OF_MEMORY
    if any(kind.__name__ == _OFFLINE for kind in kinds):
        return FaultClass.ERROR
    return FaultClass.NETWORK if any(map(_is_network, chain)) else FaultClass.ERROR


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and what it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _is_network(error: BaseException) -> bool:
    if isinstance(error, TransientFault | ConnectionError | TimeoutError):
        return True
    if isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS:
        return True
    if any(f"{kind.__module__}.{kind.__qualname__}" in _NETWORK_TYPES for kind in type(error).__mro__):
        return True
    status = getattr(getattr(error, "response", None), "status_code", None)
    return isinstance(status, int) and (status >= _SERVER_FAULT or status in _BUSY_STATUSES)


def kernel_oom_kills() -> int:
    """How many processes the kernel has killed for memory so far; by it a SIGKILL is told from somebody's."""
    vmstat = _counter(Path("/proc/vmstat"), "oom_kill")
    return vmstat + _counter(Path("/sys/fs/cgroup/memory.events"), "oom_kill")


def _counter(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    words = (line.split() for line in lines)
    return next((int(word[1]) for word in words if len(word) == 2 and word[0] == name), 0)
