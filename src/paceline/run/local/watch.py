"""What a process tree uses: exact totals of what has ended, and samples of what has not.

Used by the warden, so standard library only, and little of it.
"""

from __future__ import annotations

import os
from time import monotonic

from paceline.run.local.tree import Process, read_proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from resource import struct_rusage
    from typing import Any

    Sample = tuple[float, int, float, int]

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FIRST_INTERVAL_S = 0.01
LAST_INTERVAL_S = 0.1
SLOWEST_INTERVAL_S = 1.0
SAMPLING_SHARE = 0.02  # of one core, at most; a tree of thousands of threads is looked at less often
MAX_SAMPLES = 2000


class Watch:
    """What a run used: exact totals of what has ended, and samples of what has not."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.samples: list[Sample] = []
        self.user_s = self.system_s = 0.0
        self.read_bytes = self.write_bytes = self.waits = self.preemptions = self._largest_bytes = 0
        self._memory_time = 0.0  # byte-seconds
        self._peak_bytes = 0
        self._last = (0.0, 0)
        self._interval_s = FIRST_INTERVAL_S
        self._spacing_s = 0.0
        self.next_at = started + FIRST_INTERVAL_S

    def add_ended(self, io: bytes, usage: struct_rusage) -> None:
        """Count a process we reap: with it come the descendants it had itself waited for."""
        self.user_s += usage.ru_utime
        self.system_s += usage.ru_stime
        self.waits += usage.ru_nvcsw
        self.preemptions += usage.ru_nivcsw
        self._largest_bytes = max(self._largest_bytes, usage.ru_maxrss * 1024)
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
        self._peak_bytes = max(self._peak_bytes, memory)
        self._keep((round(now - self.started, 4), memory, round(cpu_s, 3), len(tree)))
        return memory, len(tree)

    def _keep(self, sample: Sample) -> None:
        """Store it, unless it is too near to the last; when there are too many, every second one goes."""
        if self.samples and sample[0] < self.samples[-1][0] + self._spacing_s:
            return
        self.samples.append(sample)
        if len(self.samples) >= MAX_SAMPLES:
            del self.samples[::2]
            self._spacing_s = 2 * max(self._interval_s, self._spacing_s)

    def _advance(self, elapsed_s: float, memory: int) -> None:
        then_s, before = self._last
        before = before if self._peak_bytes else memory
        self._memory_time += (elapsed_s - then_s) * (before + memory) / 2
        self._last = (elapsed_s, memory)

    def schedule(self, cost_s: float, *, soon: bool) -> None:
        """Often at first, since most runs are short; then less, and never for more than its share of a core."""
        self._interval_s = min(1.5 * self._interval_s, LAST_INTERVAL_S)
        share_s = min(cost_s / SAMPLING_SHARE, SLOWEST_INTERVAL_S)
        self.next_at = monotonic() + (FIRST_INTERVAL_S if soon else max(self._interval_s, share_s))

    @property
    def peak_bytes(self) -> int:
        """The largest sum seen, or the largest single process if that was more.

        The kernel's figure for a spawned process begins with the size of the one that spawned it, so up to our own
        size it says nothing, and the samples are taken if any of them saw memory.
        """
        says_nothing = bool(self._peak_bytes) and self._largest_bytes <= own_peak_bytes()
        return self._peak_bytes if says_nothing else max(self._peak_bytes, self._largest_bytes)

    def mean_bytes(self, wall_s: float) -> int:
        if not self._peak_bytes:
            return self.peak_bytes
        self._advance(max(wall_s, self._last[0]), self._last[1])
        return int(self._memory_time / self._last[0])

    def report(self, wall_s: float) -> dict[str, Any]:
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
            "samples": self.samples,
        }


def own_peak_bytes() -> int:
    """Our largest resident set, by /proc because getrusage's begins with the runner's."""
    _, found, rest = read_proc("/proc/self/status").partition(b"VmHWM:")
    return int(rest.split(None, 1)[0]) * 1024 if found else 0
