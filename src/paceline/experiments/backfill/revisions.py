"""Which revisions of a repository are meant, and in which order they are measured."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from paceline.errors import BuildError, PacelineError
from paceline.experiments.builds.build import ask_repository, is_ancestor, resolve

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which revisions a user asks for: `A..B` with both ends, single ones with commas between, or tags by a glob.

    `last` keeps the newest of them, alone those of HEAD; `every` each n-th, counted from the newest; `most` as many
    as are spread best.
    """

    revisions: str = ""
    tags: str = ""
    last: int | None = None
    every: int = 1
    most: int | None = None


def choose(repo: Path, wanted: Wanted) -> tuple[str, ...]:
    """The revisions in the order in which they are measured: the ends first, then what halves the widest gap."""
    if wanted.revisions and wanted.tags:
        raise PacelineError("--revisions and --tags are two ways to say it: give one of them")
    if wanted.tags:
        found = _tagged(repo, wanted.tags)
    elif wanted.revisions:
        found = _named(repo, wanted.revisions)
    else:
        found = _lines(repo, "rev-list", "--first-parent", "--reverse", f"--max-count={wanted.last}", "HEAD")
    if wanted.last is not None:
        found = found[-wanted.last :]
    found = found[:: -wanted.every][::-1]
    return tuple(spread(found)[: wanted.most])


def spread(items: Sequence[_Item]) -> list[_Item]:
    """The items in an order of which every beginning lies as evenly as can be: last, first, then halves."""
    if len(items) < 2:
        return list(items)
    order = [len(items) - 1, 0]
    gaps = [(-(len(items) - 1), 0)]  # the widest first; of equals, the oldest
    while gaps:
        width, start = heapq.heappop(gaps)
        if width == -1:
            break
        middle = start - width // 2
        order.append(middle)
        heapq.heappush(gaps, (start - middle, start))
        heapq.heappush(gaps, (middle - (start - width), middle))
    return [items[place] for place in order]


def _named(repo: Path, text: str) -> list[str]:
    """`A..B` along the first parents, or single revisions; oldest first."""
    if "..." in text:
        raise PacelineError(f"--revisions {text}: write A..B for all from A to B; A...B is something else")
    found: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dots, last = part.partition("..")
        if not dots:
            found.append(resolve(repo, part))
            continue
        start, end = resolve(repo, first or "HEAD"), resolve(repo, last or "HEAD")
        if not is_ancestor(repo, start, end):
            raise BuildError(
                f"--revisions {part}: {first} is no ancestor of {last or 'HEAD'} in {repo}: name one that it came from"
            )
        found += [start, *_lines(repo, "rev-list", "--first-parent", "--reverse", f"{start}..{end}")]
    return in_order(repo, found)


def _tagged(repo: Path, glob: str) -> list[str]:
    lines = _lines(
        repo, "for-each-ref", "--format=%(refname:strip=2)%00%(objectname)%00%(*objectname)", "refs/tags"
    )
    fields = [line.split("\0") for line in lines]
    found = [peeled or plain for name, plain, peeled in fields if fnmatchcase(name, glob)]
    if not found:
        known = ", ".join(name for name, _, _ in fields[-5:]) or "none at all"
        raise BuildError(f"{repo} has no tag like {glob!r}, only {known}: fetch them, or give another --tags")
    return in_order(repo, [resolve(repo, one) for one in found])


def in_order(repo: Path, revisions: Sequence[str]) -> list[str]:
    """Each revision once, none before one that it builds upon."""
    wanted = set(revisions)
    words = ("rev-list", "--date-order", "--reverse", "--stdin")
    listed = ask_repository(repo, *words, feed="".join(f"{one}\n" for one in sorted(wanted))).split()
    return [one for one in listed if one in wanted]


def _lines(repo: Path, *words: str) -> list[str]:
    return ask_repository(repo, *words).splitlines()
