"""What may have caused a change: the commits in its bracket, and what else was different on the machine."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from paceline.finding import Place
from paceline.findings.commits import Repository
from paceline.record.environment import IN_PART, MOMENTARY

Suspect = Mapping[str, Any]

MOST_PACKAGES = 100
# Facts of an environment that are compared by themselves, or are no facts.
_APART = frozenset(
    {"id", "class_id", "comparable", "packages", "git", "config_git", "variables", "captured_at", IN_PART}
)
# Most variables are other every night (job numbers, paths); these are known to change how fast programs run.
_TELLING = re.compile(
    r"(OMP|MKL|OPENBLAS|BLIS|NUMEXPR|NUMBA|POLARS|DUCKDB|ARROW|DASK|RAY|CUDA|NVIDIA|NCCL|TORCH|PYTORCH|JAX|XLA|TF"
    r"|MALLOC|GLIBC|LD|PYTHON|JAVA|JVM|GO)_?[A-Z0-9_]*|GOMAXPROCS|GOGC"
)


def commit_suspects(repository: Repository | None, good: Place, bad: Place) -> Iterator[Suspect]:
    """The commits after the last good revision, newest first; the bracket itself where no repository can tell."""
    if not good.revision or not bad.revision or good.revision == bad.revision:
        return
    commits = repository.between(good.revision, bad.revision) if repository else None
    if commits is None or not commits.listed:
        yield {"kind": "commits", "from": good.revision, "to": bad.revision}
        return
    for commit in commits.listed:
        told = {"revision": commit.revision, "subject": commit.subject}
        yield {"kind": "commit", **told, "author": commit.author, "time": commit.time}
    more = commits.count - len(commits.listed)
    if more > 0:
        yield {"kind": "commits", "from": good.revision, "to": commits.listed[-1].revision, "count": more}


def environment_suspects(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Iterator[Suspect]:
    """What differs between two environments: packages, then facts such as kernel, Python or processor.

    Of one that another tool described in part, what it does not name is unknown, not absent.
    """
    if before is None or after is None:
        return
    in_both = bool(before.get(IN_PART) or after.get(IN_PART))
    changes = list(_differences(before.get("packages", {}), after.get("packages", {}), in_both=in_both))
    for name, old, new in changes[:MOST_PACKAGES]:
        yield {"kind": "package", "name": name, "before": old, "after": new}
    if len(changes) > MOST_PACKAGES:
        yield {"kind": "packages", "count": len(changes) - MOST_PACKAGES}
    for name, old, new in _differences(_facts(before), _facts(after), in_both=in_both):
        yield {"kind": "environment", "name": name, "before": old, "after": new}


def _differences(
    before: Mapping[str, Any], after: Mapping[str, Any], *, in_both: bool
) -> Iterator[tuple[str, Any, Any]]:
    for name in sorted(before.keys() & after.keys() if in_both else before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _facts(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The lasting facts by dotted names. The revision of the suite is told by the commits, that of a second
    repository is a fact."""
    facts = {name: fact for name, fact in environment.items() if name not in _APART | MOMENTARY}
    if "config_git" in environment and "git" in environment:
        facts["git"] = {"revision": environment["git"].get("revision")}
    variables = environment.get("variables", {})
    facts["variables"] = {name: variables[name] for name in variables if _TELLING.fullmatch(name)}
    return dict(_flat(facts, ""))


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, inner in value.items():
        yield from _flat(inner, f"{name}.{key}" if name else str(key))
