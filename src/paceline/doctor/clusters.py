"""What a Ray cluster of an entry's own needs of the machine."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from paceline.doctor.machine import Machine
from paceline.doctor.remarks import Remark, remark
from paceline.report.format import size
from paceline.run.ray.home import SHARED_MEMORY, homes, temporary_base
from paceline.run.ray.ports import HIGHEST_PORT, LOWEST_PORT, SMALLEST_CHOICE

LEAST_SHARED_MEMORY = 1 << 30


def look(machine: Machine) -> Iterator[Remark]:
    yield _ports(machine)
    yield from _shared_memory(machine.root / SHARED_MEMORY.relative_to("/"))
    yield from _temporary(machine)
    address = machine.environ.get("RAY_ADDRESS")
    if address:
        meaning = "programs of yours join this cluster; entries with ray: get their own all the same"
        yield remark("RAY_ADDRESS", "note", address, meaning, "unset RAY_ADDRESS")


def _ports(machine: Machine) -> Remark:
    match = re.match(r"(\d+)\s+(\d+)", machine.read("proc/sys/net/ipv4/ip_local_port_range"))
    first = int(match[1]) if match else HIGHEST_PORT
    if first - LOWEST_PORT >= SMALLEST_CHOICE:
        return remark(
            "ports", "ok", f"{first - LOWEST_PORT:,} for clusters", "none that connections get at random"
        )
    meaning = "the kernel gives connections the ports that clusters listen on: starts are tried again"
    fix = "sudo sysctl net.ipv4.ip_local_port_range='32768 60999'"
    return remark("ports", "note", f"connections begin at {first}", meaning, fix)


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


def _temporary(machine: Machine) -> Iterator[Remark]:
    base = temporary_base(machine.environ)
    chosen = machine.environ.get("TMPDIR")
    if chosen and Path(chosen) != base:
        meaning = f"names of Ray's sockets would be too long in it: clusters use {base}"
        yield remark("TMPDIR", "note", chosen, meaning, f"export TMPDIR={base}")
    left = [path for path in homes(base) if not _is_owned(path)]
    if left:
        meaning = "directories of clusters whose runner was killed; the next run removes them"
        yield remark("leftovers", "note", f"{len(left)} in {base}", meaning, "paceline run")


def _is_owned(home: Path) -> bool:
    """Whether its owner's process is still there; one that cannot be read is given the benefit of the doubt."""
    match = re.search(r'"pid": (\d+)', (home / "owner").read_text()) if (home / "owner").is_file() else None
    return match is None or os.path.exists(f"/proc/{match[1]}")  # noqa: PTH110
