"""The repository of a year: a line of small commits, several a night, with merges, and branches beside it."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

FIRST_NIGHT = datetime(2025, 1, 6, 2, tzinfo=UTC)
MERGES = 0.25
"""The share of the commits of the main line that merge a side of one or two commits."""
BRANCH_COMMITS = 2
_NIGHTLY_COMMITS = (1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A feature branch: where it left the line, its commits, and the nights on which it was measured."""

    name: str
    base: int
    commits: tuple[str, ...]
    nights: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The first-parent line of the default branch, oldest first, and which of its commits each night measures."""

    root: Path
    commits: tuple[str, ...]
    newest: tuple[int, ...]
    branches: tuple[Branch, ...]

    def first_night(self, commit: int) -> int:
        """The first night that has a commit."""
        return next(night for night, newest in enumerate(self.newest) if newest >= commit)


def time_of(night: int, minutes: int = 0) -> datetime:
    return FIRST_NIGHT + timedelta(days=night, minutes=minutes)


def make_line(root: Path, rng: np.random.Generator, nights: int, branches: list[tuple[int, ...]]) -> Line:
    """A repository with the commits of so many nights; each branch is measured on the nights given for it."""
    newest = np.cumsum(rng.choice(_NIGHTLY_COMMITS, nights)) - 1
    stream = _Stream()
    main: list[int] = []
    bases = [int(newest[several[0] - 1]) for several in branches]
    for night in range(nights):
        while len(main) <= newest[night]:
            minutes = -600 + 60 * (len(main) - (int(newest[night - 1]) if night else -1))
            merged = stream.side(main[-1], night, minutes) if main and rng.random() < MERGES else 0
            main.append(stream.commit("main", night, minutes, main[-1] if main else 0, merged))
    tips: list[list[int]] = []
    for number, (base, several) in enumerate(zip(bases, branches, strict=True)):
        parent, commits = main[base], []
        for _ in range(BRANCH_COMMITS):
            parent = stream.commit(f"feature-{number}", several[0] - 1, -30, parent)
            commits.append(parent)
        tips.append(commits)
    names = stream.write(root)
    return Line(
        root=root,
        commits=tuple(names[mark] for mark in main),
        newest=tuple(map(int, newest)),
        branches=tuple(
            Branch(
                name=f"feature-{number}",
                base=base,
                commits=tuple(names[mark] for mark in marks),
                nights=several,
            )
            for number, (base, several, marks) in enumerate(zip(bases, branches, tips, strict=True))
        ),
    )


class _Stream:
    """What `git fast-import` reads: a thousand commits in a moment."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0

    def commit(self, branch: str, night: int, minutes: int, parent: int = 0, merged: int = 0) -> int:
        """Add a commit; its mark."""
        self._count += 1
        text = f"{'Merge' if merged else 'Change'} number {self._count}"
        moment = int(time_of(night, minutes).timestamp())
        self._lines += [
            f"commit refs/heads/{branch}",
            f"mark :{self._count}",
            f"committer Demo <demo@example.invalid> {moment} +0000",
            f"data {len(text)}",
            text,
            *([f"from :{parent}"] if parent else []),
            *([f"merge :{merged}"] if merged else []),
            "M 100644 inline work.txt",
            f"data {len(text)}",
            text,
        ]
        return self._count

    def side(self, parent: int, night: int, minutes: int) -> int:
        """A side of one or two commits that is about to be merged."""
        tip = self.commit("side", night, minutes - 20, parent)
        return self.commit("side", night, minutes - 10, tip) if self._count % 2 else tip

    def write(self, root: Path) -> dict[int, str]:
        """Make the repository; the names of the commits by their marks."""
        root.mkdir(parents=True)
        _git(root, "init", "-q", "-b", "main")
        marks = root / ".git" / "marks"
        _git(root, "fast-import", "--quiet", f"--export-marks={marks}", feed="\n".join(self._lines) + "\n")
        _git(root, "update-ref", "-d", "refs/heads/side")
        return dict(_marks(marks))


def _marks(path: Path) -> Iterator[tuple[int, str]]:
    for line in path.read_text().splitlines():
        mark, name = line.split()
        yield int(mark[1:]), name


def _git(directory: Path, *words: str, feed: str = "") -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", "-C", str(directory), *words], input=feed.encode(), check=True, env=env)
