"""A little of each part of benchmarks/chaos.py, which counts what is lost, left behind or gets in."""

import subprocess
import sys
from pathlib import Path

import pytest

CHAOS = Path(__file__).parents[2] / "benchmarks/chaos.py"

PARTS = {
    "kills": ["kills", "--kind", "jobs", "--rounds", "6"],
    "hostile": ["hostile", "--rounds", "30", "--seed", "7"],
    "disk": ["disk", "--rounds", "2"],
    "sinks": ["sinks", "--kind", "hang, refuse, lie, crash", "--rounds", "1"],
    "writers": ["writers", "--kind", "sqlite", "--rounds", "30"],
}


def chaos(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, CHAOS, *words], capture_output=True, text=True, timeout=170)


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_lost_left_behind_or_gets_in(part: str) -> None:
    done = chaos(*PARTS[part])
    assert done.returncode == 0, done.stdout + done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith(f"| {part}: ")]
    assert len(table) == 1, done.stdout + done.stderr


def test_a_part_that_is_not_there_is_said() -> None:
    done = chaos("nothing")
    assert done.returncode == 2 and "no such part: nothing" in done.stderr
