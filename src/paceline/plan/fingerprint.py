"""A hash of all that decides a case's result; a resumed session runs a case again when it has changed."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.model import Case
from paceline.record.redact import MASK, is_maskable

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def find_program(argv: Sequence[str], cwd: str | None) -> str | None:
    """The file that a command runs, if it names one by its path; a program found by PATH is the machine's."""
    name = argv[0] if argv else ""
    if "/" not in name or "\x00" in name or "\x00" in (cwd or ""):
        return None
    path = str(Path(cwd or Path.cwd(), name))
    return path if os.path.isfile(path) else None  # noqa: PTH113


class FileHashes:
    """Hashes of files, each file read once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, path: str) -> str:
        """The hash of a file's content; of nothing for a file that cannot be read."""
        if path not in self._known:
            self._known[path] = _hash_file(Path(path))
        return self._known[path]


def fingerprint(
    case: Case, *, script_hash: str = "", secrets: Iterable[str] = (), needs: Iterable[str] = ()
) -> str:
    """The hash of a case whose texts hold marks in place of the session's directories.

    `needs` are the fingerprints of the cases it needs: what they make may be its input. The values of secrets do not
    count: a new token makes no new benchmark.
    """
    content = _decisive(case, script_hash)
    if needed := sorted(needs):
        content["needs"] = needed
    hidden = sorted({value for value in secrets if is_maskable(value)}, key=len, reverse=True)
    if hidden:
        content = _masked(content, hidden)
    return hashlib.sha256(_CANONICAL.encode(content).encode()).hexdigest()


def _decisive(case: Case, script_hash: str) -> dict[str, Any]:
    resources, limits = case.resources, case.limits
    return {
        "name": case.name,
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


def _masked(value: Any, hidden: list[str]) -> Any:
    if isinstance(value, str):
        for secret in hidden:
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {key: _masked(item, hidden) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, hidden) for item in value]
    return value


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):  # the second for a sentinel in the path, which is a problem already
        return ""
