"""How Paceline's own benchmarks measure: in turn with a yardstick, with the bytecode that a user's machine has."""

import os
import resource
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Reading = TypeVar("Reading")


def in_turn(rounds: int, *measures: Callable[[], Reading]) -> list[list[Reading]]:
    """The readings of each measure; they swap places every round, so that a change of load meets all of them.

    One round more goes before, which only warms the caches.
    """
    readings: list[list[Reading]] = [[] for _ in measures]
    for number in range(rounds + 1):
        turns = list(zip(measures, readings, strict=True))
        for measure, kept in turns if number % 2 else reversed(turns):
            reading = measure()
            if number:
                kept.append(reading)
    return readings


def environment(*left_out: str) -> dict[str, str]:
    """Our own variables, but bytecode is written and used as on any user's machine."""
    unwanted = {"PYTHONDONTWRITEBYTECODE", *left_out}
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def cpu_s_of(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> float:
    """User and system seconds of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def in_memory() -> Path | None:
    """A file system in memory if there is one: what it costs to make a file on a disk depends on the disk's past."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else None
