"""From a suspicion to the way between its last good and its first bad point: packages that changed, then commits."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import BuildError
from paceline.experiments.bisect.lines import Line, commit_line, joined, upgrade_line
from paceline.experiments.bisect.result import Candidate
from paceline.experiments.builds.versions import available_versions, versions_between
from paceline.experiments.builds.workshop import State
from paceline.findings.suspects import environment_suspects
from paceline.history.findings import Place

MOST_EXPANDED = 5
"""With more packages than these changed, each is one step, whatever versions lie between."""

_NOBODY = Candidate(ident="", label="")
Environment = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """The way from good to bad; None where nothing that can be tried again changed. `notes` tell what cannot."""

    line: Line | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the two points of a suspicion are known to have been measured in.

    `own` environments hold nothing but the suite's packages, others are this Python with some packages replaced.
    """

    good: Place
    bad: Place
    before: Environment | None
    after: Environment | None
    repo: Path | None
    own: bool = False
    options: tuple[str, ...] = ()


def find_bracket(around: Surroundings) -> Bracket:
    """All that changed, as steps one after the other: first the environment, then the commits."""
    old, new, kept, notes = _packages(around)
    at = around.good.revision if around.repo is not None else ""
    base = State(candidate=_NOBODY, revision=at, packages=kept, overlay=not around.own)
    line: Line | None = None
    if old != new:
        line = upgrade_line(old, new, base=base, between=_finder(around.options, old, new))
        base = line[1][-1]
    has_commits = around.repo is not None and around.good.revision and around.bad.revision
    if has_commits and around.good.revision != around.bad.revision:
        assert around.repo is not None
        try:
            commits = commit_line(around.repo, around.good.revision, around.bad.revision, packages=base)
            line = joined(line, commits) if line else commits
        except BuildError as error:
            notes.append(f"its commits cannot be searched: {error}")
    return Bracket(line=line, notes=tuple(notes))


def _packages(around: Surroundings) -> tuple[dict[str, str], dict[str, str], tuple[str, ...], list[str]]:
    """The packages that changed, before and after; pins of those that did not; what cannot be tried again."""
    before = dict((around.before or {}).get("packages", {}))
    after = dict((around.after or {}).get("packages", {}))
    notes = list(_untried(around))
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    tried = {name for name in changed if _can_try(before.get(name), after.get(name), own=around.own)}
    for name in sorted(changed - tried):
        notes.append(
            f"{name} changed from {before.get(name)} to {after.get(name)}, which cannot be tried again"
        )
    kept: tuple[str, ...] = ()
    if around.own:
        same = {name for name in {*before, *after} - changed if _is_plain(after[name])}
        kept = tuple(f"{name}=={after[name]}" for name in sorted(same))
    old = {name: before[name] for name in tried if name in before}
    new = {name: after[name] for name in tried if name in after}
    return old, new, kept, notes


def _untried(around: Surroundings) -> Iterator[str]:
    """What else was different on the machine: it may be the cause, and cannot be put back from here."""
    for suspect in environment_suspects(around.before, around.after):
        if suspect["kind"] == "environment" and not str(suspect["name"]).startswith(
            ("python.executable", "git.")
        ):
            yield f"{suspect['name']} changed from {suspect['before']} to {suspect['after']}"


def _can_try(old: str | None, new: str | None, *, own: bool) -> bool:
    """Over a Python that has everything, a package can be replaced and not be taken away."""
    if old is None or new is None:
        return own and _is_plain(old or new or "")
    return _is_plain(old) and _is_plain(new)


def _is_plain(version: str) -> bool:
    return bool(version) and not any(mark in version for mark in "/:@ ")


def _finder(
    options: tuple[str, ...], old: Mapping[str, str], new: Mapping[str, str]
) -> Callable[[str, str, str], tuple[str, ...]]:
    """Tells the versions between two, if there are few packages to ask about and the index can be asked."""
    changed = sum(old.get(name) != new.get(name) for name in {*old, *new})

    def find(name: str, good: str, bad: str) -> tuple[str, ...]:
        if changed > MOST_EXPANDED:
            return ()
        try:
            return versions_between(available_versions(name, options), good, bad)[1]
        except (
            BuildError
        ):  # A downgrade, or an index that has forgotten one of them: then it is a single step.
            return ()

    return find
