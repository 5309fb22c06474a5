"""What this process may use: control groups of a container, priority, CPUs, open files, and what Ray needs besides."""

import os
import re
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from paceline.doctor.machine import Machine, Remark, remark
from paceline.numbers import digits, percent, size
from paceline.record.capacity import cgroup_dirs
from paceline.record.environment import container_facts
from paceline.run.ray.home import SHARED_MEMORY, homes, temporary_base
from paceline.run.ray.ports import HIGHEST_PORT, LOWEST_PORT, SMALLEST_CHOICE

NEARLY_ALL = 0.9
FEW_FILES = 1024
NICE_FIELD = 16  # of /proc/self/stat, counted from the one behind the program's name
LEAST_SHARED_MEMORY = 1 << 30


def look(machine: Machine) -> Iterator[Remark]:
    """Limits that are there; a machine without any has little to say here."""
    facts = container_facts(machine.environ, machine.root)
    yield remark("container", "ok", str(facts.get("kind", "none")), "where this runs")
    if "cpu_limit" in facts:
        yield _cpu_quota(machine, float(facts["cpu_limit"]))
    if "memory_limit_bytes" in facts:
        yield from _memory(machine, int(facts["memory_limit_bytes"]))
    for events in _group_texts(machine, "memory.events"):
        match = re.search(r"^oom_kill (\d+)$", events, re.MULTILINE)
        if match and int(match[1]):
            meaning = "processes of this group were killed for want of memory since it was made"
            yield remark("killed", "note", f"{match[1]} times", meaning, "dmesg | grep -i oom")
            break
    yield from _cpus(machine)
    yield from _priority(machine)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY or files > FEW_FILES:
        shown = "unlimited" if files == resource.RLIM_INFINITY else f"{files:,}"
        yield remark("open files", "ok", shown, "enough for a cluster of Ray")
    else:
        yield remark("open files", "note", f"{files:,}", "a Ray cluster needs more", "ulimit -n 65536")


def _group_texts(machine: Machine, *names: str) -> Iterator[str]:
    """What the files of these names in our control groups say."""
    for directory in cgroup_dirs(machine.root):
        yield from (machine.read(f"{directory.relative_to(machine.root)}/{name}") for name in names)


def _cpu_quota(machine: Machine, limit: float) -> Remark:
    value = f"{digits(limit)} CPUs"
    cpus = machine.usable_cpus
    if cpus is not None and limit >= cpus:
        return remark("cpu quota", "ok", value, "not below the CPUs there are")
    for stat in _group_texts(machine, "cpu.stat"):
        counts = dict(re.findall(r"^(nr_periods|nr_throttled) (\d+)$", stat, re.MULTILINE))
        if int(counts.get("nr_periods", 0)):
            value += f", stopped in {counts.get('nr_throttled', 0)} of {counts['nr_periods']} periods"
            break
    meaning = "who uses it up is stopped until the next tenth of a second: times come in steps"
    fix = "docker run --cpuset-cpus=0-1 … instead of --cpus; in Kubernetes whole CPUs with requests = limits"
    return remark("cpu quota", "warn", value, meaning, fix)


def _memory(machine: Machine, limit: int) -> Iterator[Remark]:
    total = machine.kib("MemTotal")
    if total is not None and limit >= total:
        return
    texts = _group_texts(machine, "memory.current", "memory.usage_in_bytes")
    used = next((int(text) for text in texts if re.fullmatch(r"-?\d+", text)), None)
    share = used / limit if used is not None and limit else 0.0
    value = size(limit) + (f", {percent(share)} in use" if used is not None else "")
    if share < NEARLY_ALL:
        yield remark("memory limit", "note", value, "a benchmark that needs more is killed")
        return
    meaning = "next to nothing is left: benchmarks will be slowed down, then killed"
    yield remark("memory limit", "warn", value, meaning, "docker run --memory=… with more")


def _cpus(machine: Machine) -> Iterator[Remark]:
    usable, cpus = machine.usable_cpus, machine.cpus
    if usable is None or cpus is None:
        return
    isolated = machine.read("sys/devices/system/cpu/isolated")
    apart = f"; isolated: {isolated}" if isolated else ""
    if usable < cpus:
        meaning = "pinned or confined: --jobs counts these only"
        yield remark("CPUs", "note", f"{usable} of {cpus}{apart}", meaning)
    else:
        yield remark("CPUs", "ok", f"{cpus}{apart}", "all may be used")


def _priority(machine: Machine) -> Iterator[Remark]:
    fields = machine.read("proc/self/stat").rpartition(")")[2].split()
    if len(fields) <= NICE_FIELD or not re.fullmatch(r"-?\d+", fields[NICE_FIELD]):
        return
    value = f"nice {int(fields[NICE_FIELD])}"
    if int(fields[NICE_FIELD]) <= 0:
        yield remark("priority", "ok", value, "nobody goes first")
    else:
        meaning = "whatever else runs here goes first"
        yield remark("priority", "warn", value, meaning, "start it without nice, from a new shell")


def look_at_ray(machine: Machine) -> Iterator[Remark]:
    """What a Ray cluster of an entry's own needs of the machine."""
    match = re.match(r"(\d+)\s+(\d+)", machine.read("proc/sys/net/ipv4/ip_local_port_range"))
    first = int(match[1]) if match else HIGHEST_PORT
    if first - LOWEST_PORT >= SMALLEST_CHOICE:
        value = f"{first - LOWEST_PORT:,} for clusters"
        yield remark("ports", "ok", value, "none that connections get at random")
    else:
        meaning = "the kernel gives connections the ports that clusters listen on: starts are tried again"
        fix = "sudo sysctl net.ipv4.ip_local_port_range='32768 60999'"
        yield remark("ports", "note", f"connections begin at {first}", meaning, fix)
    yield from _shared_memory(machine.root / SHARED_MEMORY.relative_to("/"))
    base, chosen = temporary_base(machine.environ), machine.environ.get("TMPDIR")
    if chosen and Path(chosen) != base:
        meaning = f"names of Ray's sockets would be too long in it: clusters use {base}"
        yield remark("TMPDIR", "note", chosen, meaning, f"export TMPDIR={base}")
    left = [path for path in homes(base) if not _is_owned(path)]
    if left:
        meaning = "directories of clusters whose runner was killed; the next run removes them"
        yield remark("leftovers", "note", f"{len(left)} in {base}", meaning, "paceline run")
    address = machine.environ.get("RAY_ADDRESS")
    if address:
        meaning = "programs of yours join this cluster; entries with ray: get their own all the same"
        yield remark("RAY_ADDRESS", "note", address, meaning, "unset RAY_ADDRESS")


def _shared_memory(path: Path) -> Iterator[Remark]:
    try:
        total = shutil.disk_usage(path).total
    except OSError:
        return
    value = f"{path} has {size(total)}"
    if total >= LEAST_SHARED_MEMORY:
        yield remark("shared memory", "ok", value, "where Ray keeps its objects")
    else:
        meaning = "Ray keeps its objects on disk instead, which is slow"
        yield remark("shared memory", "warn", value, meaning, "docker run --shm-size=4g …")


def _is_owned(home: Path) -> bool:
    """Whether its owner's process is still there; one that cannot be read is given the benefit of the doubt."""
    match = re.search(r'"pid": (\d+)', (home / "owner").read_text()) if (home / "owner").is_file() else None
    return match is None or os.path.exists(f"/proc/{match[1]}")  # noqa: PTH110
