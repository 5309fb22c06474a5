"""What a git repository knows of the revisions in the history: their order, and what lies between two of them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from paceline.errors import PacelineError
from paceline.history.places import CommitPlace
from paceline.record.repository import ask_git, default_branch, find_top, is_shallow

MOST_COMMITS = 50
"""Commits of a bracket that are listed by name; of more, the newest."""
_TIMEOUT_S = 60
_REVISION = re.compile(r"[0-9a-fA-F]{7,64}")
_FORMAT = "%H%x1f%an%x1f%cI%x1f%s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit that may have caused a change."""

    revision: str
    author: str
    time: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """What lies after one revision, up to another, newest first; `count` of them, of which some are listed."""

    count: int = 0
    listed: tuple[Commit, ...] = ()


class Repository:
    """A repository on this machine; what git cannot tell is unknown, never an error."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._between: dict[tuple[str, str], Commits] = {}

    @cached_property
    def is_shallow(self) -> bool:
        """Whether it has only the newest commits."""
        return is_shallow(self.root)

    def order(self, revisions: Iterable[str]) -> dict[str, CommitPlace]:
        """The places of the revisions that it knows: no commit comes before one that it builds upon.

        A shallow clone does not know what its oldest commits build upon, so it gives no order.
        """
        if self.is_shallow:
            return {}
        full = self._full_names(sorted({one for one in revisions if _REVISION.fullmatch(one)}))
        if not full:
            return {}
        listed = self._ask(
            "rev-list", "--date-order", "--reverse", "--stdin", feed=sorted(set(full.values()))
        )
        places, main = {name: place for place, name in enumerate(listed)}, self._main_line()
        return {
            short: CommitPlace(repository=listed[0], place=places[name], is_main=name in main)
            for short, name in full.items()
            if name in places
        }

    def _main_line(self) -> frozenset[str]:
        """The default branch with each merge as one step; that of HEAD where no branch is the default."""
        _, *tips = default_branch(self.root)
        return frozenset(self._ask("rev-list", "--first-parent", *(tips or ["HEAD"])))

    def _full_names(self, revisions: list[str]) -> dict[str, str]:
        answers = self._ask("cat-file", "--batch-check=%(objectname) %(objecttype)", feed=revisions)
        pairs = zip(revisions, (answer.split(" ") for answer in answers), strict=False)
        return {revision: answer[0] for revision, answer in pairs if answer[1:2] == ["commit"]}

    def between(self, good: str, bad: str) -> Commits:
        """The commits that are in `bad` and not in `good`."""
        if not (_REVISION.fullmatch(good) and _REVISION.fullmatch(bad)) or good == bad:
            return Commits()
        if (good, bad) not in self._between:
            self._between[good, bad] = self._commits(f"{good}..{bad}")
        return self._between[good, bad]

    def _commits(self, bracket: str) -> Commits:
        count = "".join(self._ask("rev-list", "--count", bracket))
        lines = self._ask("log", f"--max-count={MOST_COMMITS}", f"--format={_FORMAT}", bracket)
        fields = [line.split("\x1f") for line in lines]
        listed = [Commit(revision=f[0], author=f[1], time=f[2], subject=f[3]) for f in fields if len(f) == 4]
        return Commits(count=int(count) if count.isdecimal() else len(listed), listed=tuple(listed))

    def resolve(self, name: str) -> str:
        """The full name of the commit that a revision, branch or tag means; empty if it means none."""
        if not name or name.startswith("-"):
            return ""
        return "".join(self._ask("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"))

    def _ask(self, *words: str, feed: Iterable[str] = ()) -> list[str]:
        return (ask_git(self.root, *words, feed=feed, timeout_s=_TIMEOUT_S) or "").splitlines()


def open_repository(path: Path) -> Repository:
    """The repository that somebody named, which must be one."""
    found = find_repository(path)
    if found is None:
        raise PacelineError(f"{path} is in no git repository: give --repo a directory that is")
    return found


def find_repository(path: Path) -> Repository | None:
    """The repository that a directory lies in, if there is one."""
    root = find_top(path.absolute())
    return None if root is None else Repository(root)
