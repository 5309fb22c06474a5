"""What this process may use: control groups of a container, priority, CPUs, open files."""

import re
import resource
from collections.abc import Iterator

from paceline.doctor.machine import Machine
from paceline.doctor.remarks import Remark, remark
from paceline.record.environment import cgroup_dirs, container_facts
from paceline.report.format import size

NEARLY_ALL = 0.9
FEW_FILES = 1024
NICE_FIELD = 16  # of /proc/self/stat, counted from the one behind the program's name


def look(machine: Machine) -> Iterator[Remark]:
    """Limits that are there; a machine without any has little to say here."""
    facts = container_facts(machine.environ, machine.root)
    yield remark("container", "ok", str(facts.get("kind", "none")), "where this runs")
    if "cpu_limit" in facts:
        yield _cpu_quota(machine, float(facts["cpu_limit"]))
    if "memory_limit_bytes" in facts:
        yield from _memory(machine, int(facts["memory_limit_bytes"]))
    yield from _killed(machine)
    yield from _affinity(machine)
    yield from _nice(machine)
    yield _open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _cpu_quota(machine: Machine, limit: float) -> Remark:
    value = f"{limit:.3g} CPUs"
    cpus = machine.usable_cpus
    if cpus is not None and limit >= cpus:
        return remark("cpu quota", "ok", value, "not below the CPUs there are")
    throttled = _throttled(machine)
    meaning = "who uses it up is stopped until the next tenth of a second: times come in steps"
    return remark(
        "cpu quota",
        "warn",
        f"{value}{throttled}",
        meaning,
        "docker run --cpuset-cpus=0-1 … instead of --cpus; in Kubernetes whole CPUs with requests = limits",
    )


def _throttled(machine: Machine) -> str:
    """How often the quota has stopped somebody, where it is told."""
    for directory in cgroup_dirs(machine.root):
        stat = machine.read(f"{directory.relative_to(machine.root)}/cpu.stat")
        found = dict(re.findall(r"^(nr_periods|nr_throttled) (\d+)$", stat, re.MULTILINE))
        if int(found.get("nr_periods", 0)):
            return f", stopped in {found.get('nr_throttled', 0)} of {found['nr_periods']} periods"
    return ""


def _memory(machine: Machine, limit: int) -> Iterator[Remark]:
    total = machine.kib("MemTotal")
    if total is not None and limit >= total:
        return
    used = _first_number(machine, "memory.current", "memory.usage_in_bytes")
    share = used / limit if used is not None and limit else 0.0
    value = size(limit) + (f", {share * 100:.0f} % in use" if used is not None else "")
    if share < NEARLY_ALL:
        yield remark("memory limit", "note", value, "a benchmark that needs more is killed")
        return
    meaning = "next to nothing is left: benchmarks will be slowed down, then killed"
    yield remark("memory limit", "warn", value, meaning, "docker run --memory=… with more")


def _killed(machine: Machine) -> Iterator[Remark]:
    for directory in cgroup_dirs(machine.root):
        events = machine.read(f"{directory.relative_to(machine.root)}/memory.events")
        match = re.search(r"^oom_kill (\d+)$", events, re.MULTILINE)
        if match and int(match[1]):
            meaning = "processes of this group were killed for want of memory since it was made"
            yield remark("killed", "note", f"{match[1]} times", meaning, "dmesg | grep -i oom")
            return


def _first_number(machine: Machine, *names: str) -> int | None:
    for directory in cgroup_dirs(machine.root):
        for name in names:
            number = machine.number(f"{directory.relative_to(machine.root)}/{name}")
            if number is not None:
                return number
    return None


def _affinity(machine: Machine) -> Iterator[Remark]:
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


def _nice(machine: Machine) -> Iterator[Remark]:
    fields = machine.read("proc/self/stat").rpartition(")")[2].split()
    if len(fields) <= NICE_FIELD or not re.fullmatch(r"-?\d+", fields[NICE_FIELD]):
        return
    nice = int(fields[NICE_FIELD])
    if nice <= 0:
        yield remark("priority", "ok", f"nice {nice}", "nobody goes first")
        return
    meaning = "whatever else runs here goes first"
    yield remark("priority", "warn", f"nice {nice}", meaning, "start it without nice, from a new shell")


def _open_files(limit: int) -> Remark:
    if limit == resource.RLIM_INFINITY or limit > FEW_FILES:
        shown = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit:,}"
        return remark("open files", "ok", shown, "enough for a cluster of Ray")
    meaning = "a Ray cluster needs more"
    return remark("open files", "note", f"{limit:,}", meaning, "ulimit -n 65536")
