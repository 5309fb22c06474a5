"""Histories of many nights for tests of what is found in them."""

import math
import random
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from git_commands import git
from paceline.history import Store
from paceline.model import Status
from stored_records import ENVIRONMENT, measured, record, session


def noisy(count: int, *steps: tuple[int, float], seed: float = 1, noise: float = 0.01) -> list[float]:
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
    commit_time: str = "",
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
        ancestry = {"branch": branch, "merge_base": merge_base, "commit_time": commit_time}
        store.add(session(number, **told, **ancestry), environment, records)


def make_repository(directory: Path, commits: int, times: Sequence[str] = ()) -> list[str]:
    """A repository of so many more commits, made now or at these times; their names, oldest first."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q", "-b", "main")
    before = git(directory, "for-each-ref", "--format=%(objectname)", "refs/heads/main")
    told, now_s = [], int(time.time())
    for number in range(commits):
        made_s = int(datetime.fromisoformat(times[number]).timestamp()) if times else now_s
        text = f"Change number {number}"
        told += ["commit refs/heads/main", f"committer Demo <demo@example.invalid> {made_s} +0000"]
        told += [f"data {len(text)}", text, *([f"from {before}"] if before and not number else [])]
    git(directory, "fast-import", "--quiet", feed="".join(f"{line}\n" for line in told))
    return (
        git(directory, "rev-list", "--reverse", f"--max-count={commits}", "main").split() if commits else []
    )
