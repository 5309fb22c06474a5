"""The way from good to bad, step by step: commits, versions of a package, upgrades of an environment.

Between two points of the history all that changed is tried: first the packages, then the commits.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paceline.errors import BuildError
from paceline.experiments.builds.build import Candidate, resolve, revisions_between, subjects
from paceline.experiments.builds.environments import available_versions
from paceline.finding import Place
from paceline.findings.suspects import environment_suspects

MOST_EXPANDED = 5
"""With more packages than these changed, each is one step, whatever versions lie between."""

_SHORT = 10

Steps = tuple[Candidate, tuple[Candidate, ...]]
"""The good candidate, and those after it up to the bad one."""

Environment = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """The steps from good to bad; None where nothing that can be tried again changed. `notes` say what cannot."""

    steps: Steps | None
    notes: tuple[str, ...] = ()


def find_bracket(
    good: Place,
    bad: Place,
    environments: tuple[Environment | None, Environment | None],
    *,
    repo: Path | None,
    own: bool = False,
    options: Sequence[str] = (),
) -> Bracket:
    """All that changed between two points, as steps one after the other: first the environment, then the commits.

    `own` environments hold nothing but the suite's packages, others are this Python with some packages replaced.
    """
    old, new, unchanged, notes = _packages(*environments, own=own)
    at = good.revision if repo is not None else ""
    base = Candidate(ident="", label="", revision=at, packages=unchanged, overlay=not own)
    steps: Steps | None = None
    if old != new:
        steps = _upgrade_steps(old, new, base, options)
        base = steps[1][-1]
    if repo is not None and good.revision and bad.revision and good.revision != bad.revision:
        try:
            commits = commit_steps(repo, good.revision, bad.revision, base=base)
            steps = (steps[0], (*steps[1], *commits[1])) if steps else commits
        except BuildError as error:
            notes.append(f"its commits cannot be searched: {error}")
    return Bracket(steps=steps, notes=tuple(notes))


def commit_steps(repo: Path, good: str, bad: str, *, base: Candidate | None = None) -> Steps:
    """The commits after `good` up to `bad`, each measured in the environment of `base`."""
    revisions = (resolve(repo, good), *revisions_between(repo, good, bad))
    if len(revisions) == 1:
        raise BuildError(f"there is no commit between {good} and {bad}: they are the same")
    titles = subjects(repo, revisions)
    base = base or Candidate(ident="", label="")
    first, *rest = (
        replace(
            base,
            ident=revision,
            label=revision[:_SHORT],
            title=titles[revision],
            kind="commit",
            revision=revision,
        )
        for revision in revisions
    )
    return first, tuple(rest)


def version_steps(package: str, versions: Sequence[str], good: str, bad: str) -> Steps:
    """The versions of a package after `good` up to `bad`, each in an environment with nothing else."""
    oldest, newer = versions_between(versions, good, bad)
    first, *rest = (
        Candidate(ident=version, label=version, title=pin, kind="version", packages=(pin,))
        for version in (oldest, *newer)
        for pin in (f"{package}=={version}",)
    )
    return first, tuple(rest)


def versions_between(versions: Sequence[str], good: str, bad: str) -> tuple[str, tuple[str, ...]]:
    """The good version, and those after it up to the bad one.

    A version may be named by its beginning: `2026.1` is the oldest 2026.1.x as good, and the newest as bad.
    """
    first, last = _find(versions, good, newest=False), _find(versions, bad, newest=True)
    if first >= last:
        raise BuildError(
            f"the good version {versions[first]} does not come before the bad one {versions[last]}: swap them"
        )
    return versions[first], tuple(versions[first + 1 : last + 1])


def _find(versions: Sequence[str], wanted: str, *, newest: bool) -> int:
    exact = [index for index, version in enumerate(versions) if _trimmed(version) == _trimmed(wanted)]
    within = [index for index, version in enumerate(versions) if version.startswith(f"{wanted}.")]
    found = exact or within
    if not found:
        raise BuildError(f"there is no version {wanted}: the newest are {', '.join(versions[-8:])}")
    return found[-1 if newest else 0]


def _trimmed(version: str) -> str:
    """A version without zeros at its end, which mean nothing: 1.0 is 1.0.0."""
    return re.sub(r"(\.0)+$", "", version.strip())


def _upgrade_steps(
    old: Mapping[str, str], new: Mapping[str, str], base: Candidate, options: Sequence[str]
) -> Steps:
    """From the old versions of packages to the new ones, one package after the other, each version by version.

    `base.packages` are those that did not change.
    """

    def pinned(**named: str) -> Candidate:
        pins = tuple(f"{name}=={version}" for name, version in sorted(now.items()))
        return replace(base, packages=(*pins, *base.packages), **named)  # type: ignore[arg-type]

    now = dict(old)
    first = pinned(
        ident="old environment", label="old", title="the packages as they were", kind="environment"
    )
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    expand = len(changed) <= MOST_EXPANDED
    rest = []
    for name in changed:
        for version in _versions_on_the_way(name, old.get(name), new.get(name), options, expand=expand):
            before = now.pop(name, None)
            if version is None:
                title = f"{name} {before} was removed"
                rest.append(pinned(ident=f"without {name}", label=name, title=title, kind="removal"))
                continue
            now[name] = version
            title = f"{name} {before} → {version}" if before else f"{name} {version} was added"
            label = f"{name} {version}"
            rest.append(pinned(ident=f"{name}=={version}", label=label, title=title, kind="version"))
    return first, tuple(rest)


def _versions_on_the_way(
    name: str, old: str | None, new: str | None, options: Sequence[str], *, expand: bool
) -> Sequence[str | None]:
    """The versions after the old one up to the new one; only the new one where the others cannot be known."""
    if old is None or new is None or not expand:
        return (new,)
    try:
        return versions_between(available_versions(name, options), old, new)[1]
    except BuildError:  # A downgrade, or an index that has forgotten one of them: then it is a single step.
        return (new,)


def _packages(
    first: Environment | None, second: Environment | None, *, own: bool
) -> tuple[dict[str, str], dict[str, str], tuple[str, ...], list[str]]:
    """The packages that changed, before and after; pins of those that did not; what cannot be tried again."""
    # What else was different on the machine may be the cause, and cannot be put back from here.
    notes = [
        f"{suspect['name']} changed from {suspect['before']} to {suspect['after']}"
        for suspect in environment_suspects(first, second)
        if suspect["kind"] == "environment"
        and not str(suspect["name"]).startswith(("python.executable", "git."))
    ]
    before = dict((first or {}).get("packages", {}))
    after = dict((second or {}).get("packages", {}))
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    # Over a Python that has everything, a package can be replaced and not be taken away.
    tried = {
        name
        for name in changed
        if (own or (name in before and name in after))
        and all(_is_plain(versions[name]) for versions in (before, after) if name in versions)
    }
    for name in sorted(changed - tried):
        notes.append(
            f"{name} changed from {before.get(name)} to {after.get(name)}, which cannot be tried again"
        )
    unchanged: tuple[str, ...] = ()
    if own:
        same = {name for name in {*before, *after} - changed if _is_plain(after[name])}
        unchanged = tuple(f"{name}=={after[name]}" for name in sorted(same))
    old = {name: before[name] for name in tried if name in before}
    new = {name: after[name] for name in tried if name in after}
    return old, new, unchanged, notes


def _is_plain(version: str) -> bool:
    return bool(version) and not any(mark in version for mark in "/:@ ")
