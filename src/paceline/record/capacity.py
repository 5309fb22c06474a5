"""What this process may use of its machine: CPUs and memory, by its affinity and the control groups that it is in."""

import math
import os
from pathlib import Path

ROOT = Path("/")
UNLIMITED_BYTES = 1 << 60  # version 1 of control groups says "no limit" by a huge number


def usable_cpus(root: Path = ROOT) -> float:
    """As many as it can keep busy: those that it may run on, or the tightest quota above it if that is less."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, cgroup_limits(root).get("cpu_limit", math.inf))


def whole_cpus() -> int:
    """For how many workers there are CPUs, at least one."""
    return max(1, int(usable_cpus()))


def limited_cpus() -> int | None:
    """The same where that is less than the machine has; None where whoever counts its CPUs is right."""
    whole = whole_cpus()
    return whole if whole < (os.cpu_count() or 1) else None


def usable_memory_bytes(root: Path = ROOT) -> int:
    """The machine's memory, or the tightest limit above this process if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(min(total, cgroup_limits(root).get("memory_limit_bytes", math.inf)))


def cgroup_limits(root: Path) -> dict[str, float]:
    """The tightest limits of this process's control groups, version 2 or 1."""
    limits: dict[str, float] = {}
    for directory in cgroup_dirs(root):
        quota, _, period = read_system(directory / "cpu.max").partition(" ")
        quota = quota or read_system(directory / "cpu.cfs_quota_us")
        period = period or read_system(directory / "cpu.cfs_period_us")
        memory = read_system(directory / "memory.max") or read_system(directory / "memory.limit_in_bytes")
        if quota.isdecimal() and period.isdecimal() and int(period):
            limits["cpu_limit"] = min(int(quota) / int(period), limits.get("cpu_limit", math.inf))
        if memory.isdecimal() and int(memory) < UNLIMITED_BYTES:
            limits["memory_limit_bytes"] = min(int(memory), limits.get("memory_limit_bytes", math.inf))
    return limits


def cgroup_dirs(root: Path) -> list[Path]:
    """The directories of this process's control groups, and of all above them."""
    directories = []
    for line in read_system(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        base = root / "sys/fs/cgroup" / controllers
        inside = base / group.lstrip("/")
        directories += [path for path in (inside, *inside.parents) if path.is_relative_to(base)]
    return directories


def read_system(path: str | Path) -> str:
    """What the kernel or the system says in a file, nothing where it is not there or not ours to read."""
    try:
        return Path(path).read_text(errors="replace").strip("\0\n ")
    except OSError:
        return ""
