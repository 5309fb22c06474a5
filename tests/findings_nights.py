"""Histories of many nights for tests of what is found in them."""

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from git_commands import git
from paceline.history import Store
from paceline.model import Status
from stored_records import ENVIRONMENT, measured, record, session


def noisy(count: int, *steps: tuple[int, float], seed: int = 1, noise: float = 0.01) -> list[float]:
    """Values of about 10; from each index on they are multiplied by a factor."""
    rng = random.Random(seed)
    return [
        10 * math.prod(factor for at, factor in steps if number >= at) * math.exp(rng.gauss(0, noise))
        for number in range(count)
    ]


def add_nights(
    store: Store,
    cases: Mapping[str, Sequence[float]],
    *,
    first: int = 1,
    direction: str | None = "lower",
    environment: Mapping[str, Any] = ENVIRONMENT,
    failed: Sequence[int] = (),
    revisions: Sequence[str] = (),
    branch: str = "",
    merge_base: str = "",
) -> None:
    """A session for each value of the series; those whose numbers are in `failed` did not pass."""
    for offset in range(max(map(len, cases.values()))):
        number = first + offset
        told = {"revision": revisions[offset]} if revisions else {}
        status = Status.FAILED if number in failed else Status.PASSED
        records = [
            record(
                key,
                number=number,
                metrics={"wall_s": measured(values[offset], direction=direction)},
                environment=environment["id"],
                status=status,
                **told,
            )
            for key, values in cases.items()
            if offset < len(values)
        ]
        ancestry = {"branch": branch, "merge_base": merge_base}
        store.add(session(number, **told, **ancestry), environment, records)


def make_repository(directory: Path, commits: int) -> list[str]:
    """A repository of so many commits, one after the other; their names, oldest first."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q", "-b", "main")
    names = []
    for number in range(commits):
        git(directory, "commit", "-q", "--allow-empty", "-m", f"Change number {number}")
        names.append(git(directory, "rev-parse", "HEAD"))
    return names
