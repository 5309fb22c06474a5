"""Ports of our own for a Ray cluster, kept from other clusters for as long as it lives."""

import errno
import random
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from paceline.run.local import tree

LOOPBACK = "127.0.0.1"
LOWEST_PORT = 20000  # above the ports that services are known by
HIGHEST_PORT = 65535
SMALLEST_CHOICE = 1000
RAY_CLIENT_PORTS = range(
    23000, 24000
)  # from which Ray takes one for each who comes by `ray://`, without asking us
LISTENING = "0A"


class Ports:
    """Port numbers by purpose; no other cluster of ours gets them until they are released."""

    def __init__(self, numbers: Mapping[str, int], locks: Sequence[socket.socket] = ()) -> None:
        self._numbers = dict(numbers)
        self._locks = list(locks)

    def __getitem__(self, purpose: str) -> int:
        return self._numbers[purpose]

    def taken(self) -> list[int]:
        """Those that somebody listens on."""
        return sorted(number for number in self._numbers.values() if _is_taken(number))

    def held_by_others(self, pids: Iterable[int]) -> list[int]:
        """Those that a process other than these listens on; none where the system does not tell."""
        listeners = {number: inode for number, inode in _listeners() if number in self._numbers.values()}
        ours = {inode for pid in pids for inode in _sockets(pid)} if listeners else set()
        return sorted(number for number, inode in listeners.items() if inode not in ours)

    def release(self) -> None:
        for lock in self._locks:
            lock.close()
        self._locks.clear()


def reserve(purposes: Sequence[str]) -> Ports:
    """A free port for each purpose; OSError when there are not as many."""
    numbers: dict[str, int] = {}
    locks: list[socket.socket] = []
    candidates = _candidates()
    for purpose in purposes:
        for number in candidates:
            lock = _lock(number)
            if lock is not None and not _is_taken(number):
                numbers[purpose] = number
                locks.append(lock)
                break
            if lock is not None:
                lock.close()
    if len(numbers) < len(purposes):
        Ports(numbers, locks).release()
        raise OSError(errno.EADDRINUSE, f"fewer than {len(purposes)} free ports on {LOOPBACK}")
    return Ports(numbers, locks)


def _candidates() -> Iterator[int]:
    """In random order, and not of the ranges from which the kernel and Ray take their own."""
    numbers = [n for n in range(LOWEST_PORT, _first_ephemeral()) if n not in RAY_CLIENT_PORTS]
    random.shuffle(numbers)
    return iter(numbers)


def _first_ephemeral() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return HIGHEST_PORT
    return first if first >= LOWEST_PORT + SMALLEST_CHOICE else HIGHEST_PORT


def _lock(number: int) -> socket.socket | None:
    """A name that one process at a time can hold, gone with it however it ends; None when another holds it.

    A socket in Linux's abstract namespace: it spans users and containers exactly as far as ports do, and needs no
    file. Elsewhere clusters rely on the check of the port itself, and on trying again.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if sys.platform != "linux":
        return lock
    try:
        lock.bind(f"\0paceline-port-{number}")
    except OSError:
        lock.close()
        return None
    return lock


def _listeners() -> Iterator[tuple[int, str]]:
    """The ports that anybody listens on, each with the number of its socket."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in tree.read_proc(name).decode().splitlines()[1:]:
            _, local, _, state, *_rest = fields = line.split()
            if state == LISTENING:
                yield int(local.rpartition(":")[2], 16), fields[9]


def _sockets(pid: int) -> Iterator[str]:
    """The numbers of a process's sockets."""
    with suppress(OSError):  # it has just ended
        for link in list(Path(f"/proc/{pid}/fd").iterdir()):
            with suppress(OSError):  # closed since
                if (name := link.readlink().name).startswith("socket:["):
                    yield name[len("socket:[") : -1]


def _is_taken(number: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of a server that is gone linger for a minute and do no harm; only a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, number))
        except OSError:
            return True
    return False
