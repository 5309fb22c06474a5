"""Process trees as /proc shows them: who descends from whom, and how to end them all.

Used by the warden too, so standard library only, and little of it.
"""

# pathlib would take longer to load than all of this module.
# ruff: noqa: PTH208
from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Process:
    """One line of /proc/PID/stat: what the tree is counted and ended by."""

    __slots__ = ("cpu_ticks", "group", "memory_bytes", "name", "parent", "pid", "state", "threads")

    def __init__(self, pid: int, stat: bytes) -> None:
        # The name is in parentheses and may hold any byte, parentheses included: the last one closes it.
        close = stat.rindex(b")")
        fields = stat[close + 2 :].split()
        self.pid = pid
        self.name = stat[stat.index(b"(") + 1 : close].decode("utf-8", "replace")
        self.state = fields[0]
        self.parent = int(fields[1])
        self.group = int(fields[2])
        # utime, stime, and those of the children it has waited for
        self.cpu_ticks = int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])
        self.threads = int(fields[17])
        self.memory_bytes = int(fields[21]) * PAGE_BYTES

    @property
    def alive(self) -> bool:
        return self.state not in (b"Z", b"X") or self.threads > 1

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def read_proc(path: str) -> bytes:
    """A file of /proc; empty when it or its process is gone, or is not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = chunk = os.read(fd, 65536)
        while chunk:
            chunk = os.read(fd, 65536)
            data += chunk
        return data
    except OSError:
        return b""
    finally:
        os.close(fd)


def look(pid: int) -> Process | None:
    """What the process is doing now, or nothing when it is gone."""
    stat = read_proc(f"/proc/{pid}/stat")
    return Process(pid, stat) if stat else None


def every_process() -> list[Process]:
    """All processes that /proc shows."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    found = [look(int(name)) for name in names if name.isdigit()]
    return [process for process in found if process is not None]


def listed_children(pid: int, threads: int) -> list[int]:
    """Children by the kernel's own lists, which are kept by thread."""
    tasks = [str(pid)]
    if threads > 1:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            return []
    lists = [read_proc(f"/proc/{pid}/task/{task}/children") for task in tasks]
    return [int(child) for line in lists for child in line.split()]


def child_finder() -> Callable[[int, int], list[int]]:
    """How to find a process's children here: kernels built without the lists need a look at every process."""
    if os.access(f"/proc/{os.getpid()}/task/{os.getpid()}/children", os.R_OK):
        return listed_children
    by_parent: dict[int, list[int]] = {}
    for process in every_process():
        by_parent.setdefault(process.parent, []).append(process.pid)
    return lambda pid, _threads: by_parent.get(pid, [])


def descendants(root: int, root_threads: int = 1) -> Iterator[Process]:
    """All below `root`, parents first; a parent can be frozen between being handed out and being asked for children."""
    find = child_finder()
    seen = {root}
    pending = find(root, root_threads)
    while pending:
        pid = pending.pop()
        process = None if pid in seen else look(pid)
        seen.add(pid)
        if process is not None:
            yield process
            pending.extend(find(pid, process.threads))


def send(signum: int, pid: int) -> None:
    """Signal a process (a group, if negative) that may be gone or may have changed its user."""
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return


def kill_all(find: Callable[[], Iterator[Process]]) -> list[Process]:
    """Freeze all that `find` shows until it shows nothing new, then kill it; hands back what was found alive.

    Frozen first because a tree that forks faster than it is killed would never end. Whole groups, because the kernel
    signals a group in one step, forks under way included. A group has only descendants of its session's founder
    in it, so once one member is to go, all are.
    """
    found: dict[int, Process] = {}
    groups = {os.getpgrp()}
    for _ in range(100):  # bounded, for a tree that cannot be frozen; it is killed as it was found
        fresh = False
        for process in find():
            if process.alive and process.pid not in found:
                fresh = True
                found[process.pid] = process
                if process.group not in groups:
                    groups.add(process.group)
                    send(signal.SIGSTOP, -process.group)
                send(signal.SIGSTOP, process.pid)
        if not fresh:
            break
    for group in groups - {os.getpgrp()}:
        send(signal.SIGKILL, -group)
    for pid in found:
        send(signal.SIGKILL, pid)
    return list(found.values())
