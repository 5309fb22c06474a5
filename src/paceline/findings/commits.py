"""What a git repository knows of the revisions in the history: their order, and what lies between two of them."""

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from paceline.errors import PacelineError
from paceline.history.places import CommitPlace, Tag
from paceline.record.events import iso_time
from paceline.record.repository import (
    DEFAULT_BRANCH,
    ask_git,
    default_branch,
    find_top,
    is_bare,
    is_shallow,
)

MOST_COMMITS = 50
"""Commits of a bracket that are listed by name; of more, the newest."""
_TIMEOUT_S = 60
_REVISION = re.compile(r"[0-9a-fA-F]{7,64}")
_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://)?(?:[^@/\s]*@)?(?P<host>[\w.-]+\.[a-z]{2,})(?::\d+)?[:/](?P<path>[\w.~/-]+)"
)
"""An address such as git@host:owner/name; a login in it is left out."""
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
    """A repository on this machine; what git cannot tell is unknown, never an error.

    `branch` is the default branch, where somebody says which one it is.
    """

    def __init__(self, root: Path, branch: str = "") -> None:
        self.root = root
        self.branch = os.environ.get(DEFAULT_BRANCH) or branch
        self._between: dict[tuple[str, str], Commits] = {}
        self._known: tuple[list[str], dict[str, CommitPlace]] = ([], {})

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
        wanted = sorted({one for one in revisions if _REVISION.fullmatch(one)})
        state = [*wanted, *self._ask("for-each-ref", "--format=%(objectname) %(refname) %(symref)")]
        state += self._ask("rev-parse", "--verify", "--quiet", "HEAD")
        if state != self._known[0]:
            self._known = state, self._order(wanted)
        return self._known[1]

    def _order(self, revisions: list[str]) -> dict[str, CommitPlace]:
        full = self._full_names(revisions)
        if not full:
            return {}
        listed = [
            (name, seconds)
            for seconds, _, name in (
                line.partition(" ")
                for line in self._ask(
                    *("rev-list", "--date-order", "--reverse", "--timestamp", "--stdin"),
                    feed=sorted(set(full.values())),
                )
            )
        ]
        places, main = {name: place for place, (name, _) in enumerate(listed)}, self._main_line()
        there = {name for name in full.values() if name in places}
        tags = self._tags_by_place(places, listed, sorted(places[name] for name in there & main or there))
        return {
            short: CommitPlace(
                repository=listed[0][0],
                place=places[name],
                is_main=name in main,
                commit_time=_time(listed[places[name]][1]),
                tags=tuple(tags.get(places[name], ())),
            )
            for short, name in full.items()
            if name in there
        }

    def _tags_by_place(
        self, places: Mapping[str, int], listed: Sequence[tuple[str, str]], measured: Sequence[int]
    ) -> dict[int, list[Tag]]:
        """The tags of the commits up to the newest measured one, each at the first measured one that has it."""
        tags: dict[int, list[Tag]] = {}
        lines = self._ask(
            "for-each-ref", "--format=%(refname:short) %(objectname) %(*objectname)", "refs/tags"
        )
        named = ((words[0], places.get(words[-1])) for words in map(str.split, lines))
        for place, name in sorted((place, name) for name, place in named if place is not None):
            if (after := bisect_left(measured, place)) < len(measured):
                tags.setdefault(measured[after], []).append(Tag(name, _time(listed[place][1])))
        return tags

    def _main_line(self) -> frozenset[str]:
        """The default branch with each merge as one step; that of HEAD where no branch is the default."""
        _, *tips = default_branch(self.root, {DEFAULT_BRANCH: self.branch})
        if is_bare(self.root) and not self.branch:
            tips = ["HEAD"]  # a bare clone has the default branch of what it was cloned from there
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

    def read(self, path: str) -> str:
        """A file of the newest commit; empty if there is none."""
        return "\n".join(self._ask("show", f"HEAD:{path}"))

    def web_address(self) -> str:
        """Where the repository is looked at in a browser, by its remote; empty if that is not to be known."""
        remote = "".join(self._ask("config", "--get", "remote.origin.url"))
        found = _REMOTE.fullmatch(remote.removesuffix(".git").rstrip("/"))
        return f"https://{found['host']}/{found['path']}" if found else ""

    def _ask(self, *words: str, feed: Iterable[str] = ()) -> list[str]:
        return (ask_git(self.root, *words, feed=feed, timeout_s=_TIMEOUT_S) or "").splitlines()


def open_repository(path: Path) -> Repository:
    """The repository that somebody named, which must be one."""
    found = find_repository(path)
    if found is None and is_bare(path):
        found = Repository(path.absolute())
    if found is None:
        raise PacelineError(f"{path} is in no git repository: give --repo a directory that is")
    return found


def _time(seconds: str) -> str:
    try:
        return iso_time(datetime.fromtimestamp(int(seconds), UTC))
    except (ValueError, OverflowError, OSError):  # a commit may claim any time
        return ""


def find_repository(path: Path, branch: str = "") -> Repository | None:
    """The repository that a directory lies in, if there is one."""
    root = find_top(path.absolute())
    return None if root is None else Repository(root, branch)
