"""Process trees as /proc shows them: who descends from whom, what they use, and how to end them all.

Those of an earlier run are found by the mark that every run leaves in its children's environment.

Used by the warden too, so standard library only, and little of it.
"""

# pathlib would take longer to load than all of this module.
# ruff: noqa: PTH116, PTH208
from __future__ import annotations

import os
import signal
import sys
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from resource import struct_rusage
    from typing import Any

    Sample = tuple[float, int, float, int]

RSS_BYTES = 1 if sys.platform == "darwin" else 1024  # what `ru_maxrss` counts in
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MARK = b"PACELINE_RUN_ID="
SWEEP_WAIT_S = 10.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FIRST_INTERVAL_S = 0.01
LAST_INTERVAL_S = 0.1
SLOWEST_INTERVAL_S = 1.0
SAMPLING_SHARE = 0.02  # of one core, at most; a tree of thousands of threads is looked at less often
MAX_SAMPLES = 2000
SMALL_BYTES = 1 << 24  # at least the size of our spawner
FEW_FAULTS = (
    6  # each brings at most 64 KiB, as long as no huge pages are used, which small processes have no room for
)
COUNTING_ERROR_BYTES = 1 << 19  # the kernel counts pages by processor, and adds up now and then


class Process:
    """One line of /proc/PID/stat: what the tree is counted and ended by."""

    __slots__ = ("cpu_ticks", "faults", "group", "memory_bytes", "name", "parent", "pid", "state", "threads")

    def __init__(self, pid: int, stat: bytes) -> None:
        # The name is in parentheses and may hold any byte, parentheses included: the last one closes it.
        close = stat.rindex(b")")
        fields = stat[close + 2 :].split()
        self.pid = pid
        self.name = stat[stat.index(b"(") + 1 : close].decode("utf-8", "replace")
        self.state = fields[0]
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.faults = int(fields[7]) + int(fields[9])
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
    pending: list[tuple[int, Process | None]] = [(pid, None) for pid in find(root, root_threads)]
    while pending:
        pid, parent = pending.pop()
        process = None if pid in seen else look(pid)
        seen.add(pid)
        if process is not None:
            if parent and parent.state == b"D" and parent.memory_bytes == process.memory_bytes:
                process.memory_bytes = (
                    0  # its parent's, which waits until it has a program and memory of its own
                )
            yield process
            pending.extend((child, process) for child in find(pid, process.threads))


def send(signum: int, pid: int) -> None:
    """Signal a process (a group, if negative) that may be gone or may have changed its user."""
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return


def kill_all(find: Callable[[], Iterator[Process]], spared: int | None = None) -> list[Process]:
    """Freeze all that `find` shows until it shows nothing new, then kill it; hands back what was found alive.

    Frozen first because a tree that forks faster than it is killed would never end. Whole groups, because the kernel
    signals a group in one step, forks under way included. A group has only descendants of its session's founder
    in it, so once one member is to go, all are; but not the group `spared`, nor our own.
    """
    found: dict[int, Process] = {}
    kept = {os.getpgrp(), spared}
    groups: set[int] = set()
    for _ in range(100):  # bounded, for a tree that cannot be frozen; it is killed as it was found
        fresh = False
        for process in find():
            if process.alive and process.pid not in found:
                fresh = True
                found[process.pid] = process
                if process.group not in groups | kept:
                    groups.add(process.group)
                    send(signal.SIGSTOP, -process.group)
                send(signal.SIGSTOP, process.pid)
        if not fresh:
            break
    for group in groups:
        send(signal.SIGKILL, -group)
    for pid in found:
        send(signal.SIGKILL, pid)
    return list(found.values())


def sweep(run_ids: Iterable[str]) -> list[int]:
    """Kill this user's processes that carry one of these run ids, with their descendants; hands back their pids."""
    marks = frozenset(MARK + os.fsencode(run_id) for run_id in run_ids)
    ended: set[int] = set()
    until = monotonic() + SWEEP_WAIT_S
    while marks and (found := kill_all(lambda: _marked(marks))):
        ended.update(process.pid for process in found)
        if monotonic() > until:
            break
        _reap(process.pid for process in found)
        # What is being killed is found again until it is gone; the kernel needs a moment for it.
        sleep(0.005)
    return sorted(ended)


def marked_by(run_id: str) -> list[int]:
    """This user's processes that carry a run's id, and their descendants."""
    return [process.pid for process in _marked(frozenset({MARK + os.fsencode(run_id)}))]


def _marked(marks: frozenset[bytes]) -> Iterator[Process]:
    """Who carries a mark, and all below them: a child may have been given another environment."""
    spared = _self_and_ancestors()
    for process in every_process():
        if process.pid in spared or not process.alive or not _carries(process.pid, marks):
            continue
        yield process
        yield from (below for below in descendants(process.pid, process.threads) if below.pid not in spared)


def _carries(pid: int, marks: frozenset[bytes]) -> bool:
    environment = read_proc(f"/proc/{pid}/environ")
    if MARK not in environment or marks.isdisjoint(environment.split(b"\0")):
        return False
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.getuid()
    except OSError:
        return False


def _self_and_ancestors() -> set[int]:
    spared: set[int] = set()
    pid = os.getpid()
    while pid and (process := look(pid)):
        spared.add(pid)
        pid = process.parent
    return spared


def _reap(pids: Iterable[int]) -> None:
    """Those of them that are our own children would stay as zombies."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue


class Watch:
    """What a run used: exact totals of what has ended, and samples of what has not."""

    def __init__(self, started: float, first_look_s: float = FIRST_INTERVAL_S) -> None:
        self.started = started
        self.samples: list[Sample] = []
        self.user_s = self.system_s = 0.0
        self.read_bytes = self.write_bytes = self.waits = self.preemptions = 0
        self._from_to: tuple[float, float] | None = None  # by the clock of the spawner
        self._unknown_below_bytes: int | None = None
        self._largest_bytes = 0  # of a single process, as the kernel counted it
        self._largest_sum_bytes = 0  # of several, as they were seen together
        self.program = b""  # the file that the command runs
        # Of the command, when it was last seen, and its page faults by then.
        self._small_peak: tuple[int, int] | None = None
        self._memory_time = 0.0  # byte-seconds
        self._last: tuple[float, int] | None = None
        self._interval_s = FIRST_INTERVAL_S
        self._spacing_s = 0.0
        self.next_at = started + first_look_s

    def add_main(self, report: dict[str, Any]) -> None:
        """Count the command itself, by what its spawner found."""
        from resource import struct_rusage

        self._from_to = (report["started"], report["ended"])
        own_bytes = _peak_in(report["own_status"])
        if own_bytes is not None:
            self._unknown_below_bytes = own_bytes + COUNTING_ERROR_BYTES
        elif sys.platform == "darwin":
            self._unknown_below_bytes = 0
        usage = struct_rusage(report["usage"])
        if self._small_peak and usage.ru_minflt + usage.ru_majflt > self._small_peak[1] + FEW_FAULTS:
            self._small_peak = None
        self.add_ended(report["io"], usage)

    def add_ended(self, io: bytes, usage: struct_rusage) -> None:
        """Count a process we reap: with it come the descendants it had itself waited for."""
        self.user_s += usage.ru_utime
        self.system_s += usage.ru_stime
        self.waits += usage.ru_nvcsw
        self.preemptions += usage.ru_nivcsw
        self._largest_bytes = max(self._largest_bytes, usage.ru_maxrss * RSS_BYTES)
        # Bytes through read and write calls: what reaches the disk depends on what the cache held before.
        for line in io.splitlines()[:2]:
            name, _, count = line.partition(b":")
            if name == b"rchar":
                self.read_bytes += int(count)
            else:
                self.write_bytes += int(count)

    def sample(self, tree: list[Process]) -> tuple[int, int]:
        """Look at the whole tree; memory is the sum of resident sets, which counts shared pages once a process."""
        now = monotonic()
        memory = sum(process.memory_bytes for process in tree)
        cpu_s = sum(process.cpu_ticks for process in tree) / TICKS_PER_S + self.user_s + self.system_s
        if memory:  # a process that just ended, or is being replaced by another program, shows none
            self._advance(now - self.started, memory)
        if len(tree) > 1:
            self._largest_sum_bytes = max(self._largest_sum_bytes, memory)
        self._small_peak = self._look_closely(*tree) if len(tree) == 1 else None
        self._keep((round(now - self.started, 4), memory, round(cpu_s, 3), len(tree)))
        return memory, len(tree)

    def _look_closely(self, process: Process) -> tuple[int, int] | None:
        """The peak of a small command and its page faults before; not if it has become another program meanwhile."""
        if not 0 < process.memory_bytes < SMALL_BYTES or not _is_same_file(process.pid, self.program):
            return None
        peak_bytes = _peak_in(read_proc(f"/proc/{process.pid}/status"))
        return (
            (peak_bytes, process.faults) if peak_bytes and _is_same_file(process.pid, self.program) else None
        )

    def _keep(self, sample: Sample) -> None:
        """Store it, unless it is too near to the last; when there are too many, every second one goes."""
        if self.samples and sample[0] < self.samples[-1][0] + self._spacing_s:
            return
        self.samples.append(sample)
        if len(self.samples) >= MAX_SAMPLES:
            del self.samples[::2]
            self._spacing_s = 2 * max(self._interval_s, self._spacing_s)

    def _advance(self, elapsed_s: float, memory: int) -> None:
        then_s, before = self._last or (0.0, memory)
        self._memory_time += (elapsed_s - then_s) * (before + memory) / 2
        self._last = (elapsed_s, memory)

    def schedule(self, cost_s: float, *, soon: bool) -> None:
        """Often at first, since most runs are short; then less, and never for more than its share of a core."""
        self._interval_s = min(1.5 * self._interval_s, LAST_INTERVAL_S)
        share_s = min(cost_s / SAMPLING_SHARE, SLOWEST_INTERVAL_S)
        self.next_at = monotonic() + (FIRST_INTERVAL_S if soon else max(self._interval_s, share_s))

    @property
    def peak_bytes(self) -> int | None:
        """The largest sum seen, or the largest single process if that was more.

        The kernel's figure for a spawned process begins with the size of the one that spawned it, so up to that it
        says nothing. Then a look at it while it lived does, if it has hardly touched a new page after that.
        """
        peak = max(self._largest_sum_bytes, self._largest_bytes)
        if self._unknown_below_bytes is not None and peak > self._unknown_below_bytes:
            return peak
        return self._small_peak[0] if self._small_peak else None

    def mean_bytes(self, wall_s: float) -> int | None:
        """By the samples; None where none of them saw memory."""
        if self._last is None:
            return None
        self._advance(max(wall_s, self._last[0]), self._last[1])
        return int(self._memory_time / self._last[0])

    def report(self, *, cut_short: bool) -> dict[str, Any]:
        begun, ended = self._from_to or (self.started, monotonic())
        # A deadline counts from when the command was asked for, which is a little earlier.
        wall_s = ended - (self.started if cut_short else begun)
        return {
            "wall_s": wall_s,
            "cpu_user_s": self.user_s,
            "cpu_system_s": self.system_s,
            "peak_memory_bytes": self.peak_bytes,
            "mean_memory_bytes": self.mean_bytes(wall_s),
            "io_read_bytes": self.read_bytes,
            "io_write_bytes": self.write_bytes,
            "voluntary_context_switches": self.waits,
            "involuntary_context_switches": self.preemptions,
            "samples": [(min(t_s, wall_s), *rest) for t_s, *rest in self.samples],
        }


def _is_same_file(pid: int, program: bytes) -> bool:
    """Whether a process runs this program: what it was before, or a script's interpreter, had another peak."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/exe"), os.stat(program))
    except OSError:
        return False


def _peak_in(status: bytes) -> int | None:
    """The largest resident set, by a /proc/PID/status."""
    _, found, rest = status.partition(b"VmHWM:")
    return int(rest.split(None, 1)[0]) * 1024 if found else None
