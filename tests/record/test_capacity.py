"""What this process may use: never more than its control groups allow, however deep it is in them."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from paceline.record.capacity import usable_cpus, usable_memory_bytes

ALL_CPUS = len(os.sched_getaffinity(0))
ALL_MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20

TIGHT_INSIDE = {
    "proc/self/cgroup": "0::/pod/box\n",
    "sys/fs/cgroup/pod/cpu.max": "90000 100000\n",
    "sys/fs/cgroup/pod/memory.max": "max\n",
    "sys/fs/cgroup/pod/box/cpu.max": "50000 100000\n",
    "sys/fs/cgroup/pod/box/memory.max": f"{64 * MIB}\n",
}
TIGHT_ABOVE = {
    **TIGHT_INSIDE,
    "sys/fs/cgroup/pod/cpu.max": "25000 50000\n",
    "sys/fs/cgroup/pod/memory.max": f"{64 * MIB}\n",
    "sys/fs/cgroup/pod/box/cpu.max": "max 100000\n",
    "sys/fs/cgroup/pod/box/memory.max": "max\n",
}
SEEN_FROM_WITHIN = {
    "proc/self/cgroup": "0::/\n",
    "sys/fs/cgroup/cpu.max": "50000 100000\n",
    "sys/fs/cgroup/memory.max": f"{64 * MIB}\n",
}
VERSION_1 = {
    "proc/self/cgroup": "4:memory:/docker/box\n3:cpu,cpuacct:/docker/box\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{64 * MIB}\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
}
UNLIMITED = {
    "proc/self/cgroup": "4:memory:/box\n3:cpu:/box\n0::/box\n",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/box/cpu.max": "max 100000\n",
    "sys/fs/cgroup/box/memory.max": "max\n",
}
BEYOND_THE_MACHINE = {
    "proc/self/cgroup": "0::/\n",
    "sys/fs/cgroup/cpu.max": "99900000 100000\n",
    "sys/fs/cgroup/memory.max": f"{1 << 59}\n",
}
GARBAGE = {
    "proc/self/cgroup": "x\n0::/\n",
    "sys/fs/cgroup/cpu.max": "50000 0\n",
    "sys/fs/cgroup/memory.max": "\n",
}


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("files", [TIGHT_INSIDE, TIGHT_ABOVE, SEEN_FROM_WITHIN, VERSION_1])
def test_the_tightest_limit_counts(tmp_path: Path, files: Mapping[str, str]) -> None:
    root = write_tree(tmp_path, files)
    assert (usable_cpus(root), usable_memory_bytes(root)) == (0.5, 64 * MIB)


@pytest.mark.parametrize("files", [{}, UNLIMITED, BEYOND_THE_MACHINE, GARBAGE])
def test_without_a_limit_it_is_the_machine(tmp_path: Path, files: Mapping[str, str]) -> None:
    root = write_tree(tmp_path, files)
    assert (usable_cpus(root), usable_memory_bytes(root)) == (ALL_CPUS, ALL_MEMORY)


def test_affinity_counts_too() -> None:
    program = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + SHOW
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[0]) <= 1


SHOW = """
from paceline.run.scheduler import machine_capacity
capacity = machine_capacity()
print(capacity.cpus, capacity.memory_bytes)
"""


def make_group(hierarchy: str, limits: Mapping[str, str]) -> Path | None:
    """A control group below our own with these limits; None where we may not make one, or not with them."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    ours = next((group for _, names, group in lines if hierarchy in names.split(",")), None)
    base = Path("/sys/fs/cgroup", hierarchy)
    if ours is None or not (base / "cgroup.procs").exists():  # not the root of a hierarchy
        return None
    path = base / ours.lstrip("/") / f"paceline-test-{uuid.uuid4().hex}"
    try:
        path.mkdir()
    except OSError:
        return None
    try:
        for name, value in limits.items():
            with (path / name).open("r+") as file:  # which makes none
                file.write(value)
    except OSError:
        path.rmdir()
        return None
    return path


@pytest.fixture
def half_a_cpu() -> Iterator[Path]:
    """A control group with this quota, of version 2 or else 1. A limit of memory is left to invented trees."""
    version_1 = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}
    group = make_group("", {"cpu.max": "50000 100000"}) or make_group("cpu", version_1)
    if group is None:
        pytest.skip("this user may not make control groups with a quota here")
    yield group
    group.rmdir()


def joining(group: Path) -> str:
    return f"open({str(group / 'cgroup.procs')!r}, 'r+').write('0')\n"


def test_a_real_control_group_counts(half_a_cpu: Path) -> None:
    program = joining(half_a_cpu) + SHOW
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "0.5"


def test_cases_side_by_side_are_as_many_as_the_group_has_cpus(half_a_cpu: Path, tmp_path: Path) -> None:
    """Two that run at once would both see the other's mark."""
    code = (
        "import pathlib, sys, time; here = pathlib.Path(sys.argv[1]); mine = here / sys.argv[2]; mine.touch(); "
        "time.sleep(0.5); others = [path for path in here.glob('at_work_*') if path != mine]; "
        "mine.unlink(); sys.exit(len(others))"
    )
    words = [[sys.executable, "-c", code, str(tmp_path), f"at_work_{number}"] for number in range(3)]
    entries = [{"name": f"e{number}", "command": command} for number, command in enumerate(words)]
    suite = {"results_dir": str(tmp_path / "results"), "entries": entries}
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    run = "import runpy, sys; sys.argv[1:] = ['run', 'suite.json', '--jobs', '3', '--no-history']\n"
    program = f"{joining(half_a_cpu)}{run}runpy.run_module('paceline', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
