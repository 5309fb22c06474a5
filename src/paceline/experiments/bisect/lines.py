"""The way from good to bad, step by step: commits, versions of a package, upgrades of an environment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from paceline.errors import BuildError
from paceline.experiments.bisect.result import Candidate
from paceline.experiments.builds.versions import versions_between
from paceline.experiments.builds.workshop import State
from paceline.experiments.builds.worktrees import resolve, revisions_between, subjects

_SHORT = 10

Line = tuple[State, tuple[State, ...]]
"""The good state, and the states after it up to the bad one."""

Between = Callable[[str, str, str], Sequence[str]]
"""The versions of a package after one up to another; none if they cannot be told."""


def commit_line(repo: Path, good: str, bad: str, *, packages: State | None = None) -> Line:
    """The commits after `good` up to `bad`, each measured in the environment of `packages`."""
    first = resolve(repo, good)
    revisions = revisions_between(repo, good, bad)
    if not revisions:
        raise BuildError(f"there is no commit between {good} and {bad}: they are the same")
    titles = subjects(repo, (first, *revisions))
    states = [_commit_state(revision, titles[revision], packages) for revision in (first, *revisions)]
    return states[0], tuple(states[1:])


def _commit_state(revision: str, title: str, packages: State | None) -> State:
    candidate = Candidate(ident=revision, label=revision[:_SHORT], title=title, kind="commit")
    base = packages or State(candidate=candidate)
    return replace(base, candidate=candidate, revision=revision)


def version_line(
    package: str, versions: Sequence[str], good: str, bad: str, *, others: State | None = None
) -> Line:
    """The versions of a package after `good` up to `bad`, beside the other packages of an environment."""
    first, rest = versions_between(versions, good, bad)
    states = [_version_state(package, version, others) for version in (first, *rest)]
    return states[0], tuple(states[1:])


def _version_state(package: str, version: str, others: State | None) -> State:
    pin = f"{package}=={version}"
    candidate = Candidate(ident=version, label=version, title=pin, kind="version")
    base = others or State(candidate=candidate)
    return replace(base, candidate=candidate, packages=(pin, *_without(base.packages, package)))


def upgrade_line(
    old: Mapping[str, str], new: Mapping[str, str], *, base: State, between: Between | None = None
) -> Line:
    """From the old versions of packages to the new ones, one package after the other, each version by version.

    `base.packages` are those that did not change; `between` tells the versions that lie between two of a package.
    """
    now = dict(old)
    good = Candidate(
        ident="old environment", label="old", title="the packages as they were", kind="environment"
    )
    states = [_pinned(base, now, good)]
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        for version in _versions_on_the_way(name, before, after, between):
            candidate = _upgrade(name, now.get(name), version)
            now = {key: value for key, value in now.items() if key != name}
            now |= {name: version} if version else {}
            states.append(_pinned(base, now, candidate))
    return states[0], tuple(states[1:])


def _versions_on_the_way(
    name: str, old: str | None, new: str | None, between: Between | None
) -> Sequence[str | None]:
    if old is None or new is None or between is None:
        return (new,)
    return between(name, old, new) or (new,)


def _upgrade(name: str, old: str | None, new: str | None) -> Candidate:
    if new is None:
        return Candidate(
            ident=f"without {name}", label=name, title=f"{name} {old} was removed", kind="removal"
        )
    title = f"{name} {old} → {new}" if old else f"{name} {new} was added"
    return Candidate(ident=f"{name}=={new}", label=f"{name} {new}", title=title, kind="version")


def _pinned(base: State, versions: Mapping[str, str], candidate: Candidate) -> State:
    pins = tuple(f"{name}=={version}" for name, version in sorted(versions.items()))
    return replace(base, candidate=candidate, packages=(*pins, *base.packages))


def _without(packages: Sequence[str], package: str) -> tuple[str, ...]:
    return tuple(pin for pin in packages if pin.partition("==")[0] != package)


def joined(first: Line, second: Line) -> Line:
    """Two lines one after the other; the second begins where the first ends."""
    return first[0], (*first[1], *second[1])
