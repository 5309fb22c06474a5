"""A fingerprint is a hash of all that decides a case's result; a resumed session runs a case again when it has changed.

It is made of true values; only a secret counts as the name of its variable, since a new token makes no new benchmark.
Formula 1 masked secrets instead, and took more for one: with `MAX_TOKENS: "4096"` no 4096 counted. Records hold the
number of their formula; those of formula 1 are kept for as long as formula 1 says so. Where no secret is, both agree.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from paceline.model import Case
from paceline.record import below
from paceline.record.redact import MASK, is_maskable, secrets_of

FORMULA = 2

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_FORMER_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "WEBHOOK", "CREDENTIAL")


class Fingerprints(NamedTuple):
    """Of one case, by the formula of today and by formula 1."""

    now: str = ""
    former: str = ""


class SecretNames(NamedTuple):
    """The variables that a suite marks as secret, and those that formula 1 took for marked."""

    now: Collection[str] = ()
    former: Collection[str] = ()


_NO_NAMES = SecretNames()


def fingerprint(
    case: Case,
    *,
    script_hash: str = "",
    variables: Mapping[str, str] | None = None,
    names: SecretNames = _NO_NAMES,
    needs: Iterable[Fingerprints] = (),
    placeholders: Mapping[str, str] | None = None,
) -> Fingerprints:
    """The hashes of a case whose texts hold marks in place of the session's directories.

    `variables` are those that were put into its texts; `needs` are the fingerprints of the cases it needs, since what
    they make may be its input. `placeholders` stand for paths that do not count.
    """
    used = (*(variables or {}).items(), *case.env.items())
    hidden = {secret: f"${{{name}}}" for name, text in used for secret in secrets_of(name, text, names.now)}
    hidden |= placeholders or {}
    former = dict.fromkeys(_formerly_secret(case.env, variables or {}, names.former), MASK)
    content, needed = _decisive(case, script_hash), tuple(needs)
    now = _hash(content, hidden, [one.now for one in needed])
    is_same = hidden == former and all(one.now == one.former for one in needed)
    return Fingerprints(now, now if is_same else _hash(content, former, [one.former for one in needed]))


def _formerly_secret(
    env: Mapping[str, str], variables: Mapping[str, str], marked: Collection[str]
) -> Iterator[str]:
    found = [value for name, value in variables.items() if name in marked]
    for name, value in (*variables.items(), *env.items()):
        upper = name.upper()
        found += [value] if any(word in upper for word in _FORMER_WORDS) else []
    return filter(is_maskable, found)


def _hash(content: Mapping[str, Any], hidden: Mapping[str, str], needs: list[str]) -> str:
    content = {**content, "needs": sorted(needs)} if needs else content
    if hidden:
        content = _replaced(content, sorted(hidden.items(), key=lambda item: len(item[0]), reverse=True))
    return hashlib.sha256(_CANONICAL.encode(content).encode()).hexdigest()


def _replaced(value: Any, hidden: list[tuple[str, str]]) -> Any:
    if isinstance(value, str):
        for secret, mark in hidden:
            value = value.replace(secret, mark)
        return value
    if isinstance(value, Mapping):
        return {key: _replaced(item, hidden) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, hidden) for item in value]
    return value


def _decisive(case: Case, script_hash: str) -> dict[str, Any]:
    resources, limits = case.resources, case.limits
    return {
        "name": case.declared_name,  # records of before have it in their fingerprints
        "params": dict(case.params),
        "version": case.version,
        "argv": list(case.argv),
        "script": script_hash,
        "env": dict(case.env),
        "cwd": case.cwd,
        "results_path": case.results_path,
        "timeout_s": case.timeout_s,
        "resources": [
            float(resources.cpus),
            resources.gpus,
            resources.memory_bytes,
            resources.exclusive,
            *([dict(resources.labels)] if resources.labels else []),
        ],
        "limits": [limits.processes, limits.memory_bytes],
        "cluster": case.cluster,
        "requirements": [
            [one.metric, one.kind, one.bound, one.tolerance, one.severity] for one in case.requirements
        ],
        "repeat": case.repeat,
        "warmup": case.warmup,
    }


class FileHashes:
    """Hashes of files, each file read once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, path: str) -> str:
        """The hash of a file's content; of nothing for a file that cannot be read."""
        if path not in self._known:
            self._known[path] = ""
            # A ValueError is for a sentinel in the path, which is a problem already.
            with suppress(OSError, ValueError), below.open_given(Path(path)) as file:
                self._known[path] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._known[path]
