"""What a result depends on, as one hash: equal content is computed once, other content never mistaken for it.

Results of a stub lie in model / attention / benchmark_subset, as readable as their names.
"""

import hashlib
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from paceline.evals.interfaces import EvalError
from paceline.record.layout import is_session

CONTENT_SCHEMA = 1
_SECRETS = frozenset(
    {"api_key", "token", "hf_token", "auth_token", "access_token", "use_auth_token", "password", "secret"}
)
_HASHED_WHOLE_BYTES = 1 << 22
"""Files up to this size are hashed; a larger one counts by size and time, since weights take minutes to read."""

SPEC = "spec.json"
_OTHER = re.compile(r"[^\w.+=,@\[\]()]", re.ASCII)
_MAX_BYTES = 120
_EXECUTION = re.compile(r"execution_\d{8}_\d{6}.*")


def written(value: Any, where: str) -> Any:
    """A value as JSON has it, with one form for equal values; what has no such form is an error."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, Mapping):
        return {str(key): _member(str(key), item, where) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if type(value).__module__ == "torch" and str(value).startswith("torch."):
        return str(value).removeprefix("torch.")  # a dtype, which libraries take by its name as well
    raise EvalError(f"{where}: {value!r} cannot be written down: give numbers, texts, lists and mappings")


def _member(key: str, value: Any, where: str) -> Any:
    """One item of a mapping; what is written down is no place for secrets."""
    if key.lower() in _SECRETS and isinstance(value, str):
        raise EvalError(f"{where}.{key} would be written down: put the secret into an environment variable")
    return written(value, f"{where}.{key}")


def content_key(content: Mapping[str, Any]) -> str:
    """The hash of all that decides a result."""
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def files_sha256(path: Path) -> str:
    """A hash of a file or of all files of a directory: names and contents."""
    root = path if path.is_dir() else path.parent
    files = sorted(found for found in root.rglob("*") if found.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(root)}\0{_file_content(file)}\n".encode())
    return digest.hexdigest()


def _file_content(path: Path) -> str:
    try:
        status = path.stat()
        if status.st_size > _HASHED_WHOLE_BYTES:
            return f"{status.st_size} {status.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise EvalError(f"cannot read {path}: {error.strerror or error}") from error


def sanitize(name: str) -> str:
    """A name as one part of a path: `meta-llama/Llama-3.1-8B` becomes `meta_llama_Llama_3.1_8B`."""
    plain = _OTHER.sub("_", name).lstrip(".") or "_"
    if _EXECUTION.fullmatch(plain):
        plain = f"_{plain}"  # or the directory of a model would be taken for one of an execution
    if len(plain) <= _MAX_BYTES:
        return plain
    return f"{plain[: _MAX_BYTES - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def stub_path(model: str, attention: str, task: str) -> Path:
    """The path below the results directory that a stub has if nobody else has it."""
    return Path(sanitize(model), sanitize(attention), sanitize(task))


class Places:
    """Gives each stub its directory: the one that holds its key already, else a free one."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._given: dict[Path, str] = {}

    def find(self, path: Path, key: str) -> Path:
        """The plain path, or the one with the key's first letters if another content has the plain one."""
        if is_session(self._root / path.parts[0]):
            raise EvalError(
                f"{self._root / path.parts[0]} is a session, where no results can lie: choose another base_result_dir"
            )
        suffixed = path.with_name(f"{path.name}-{key[:8]}")
        owners = {candidate: self._owner(candidate) for candidate in (path, suffixed)}
        for candidate, owner in owners.items():
            if owner == key:
                return self._give(candidate, key)
        for candidate, owner in owners.items():
            if owner is None:
                return self._give(candidate, key)
        raise EvalError(f"{self._root / suffixed} holds something else: move it away")

    def _give(self, path: Path, key: str) -> Path:
        if path in self._given:
            raise EvalError(f"{path} is asked for twice: the matrix has the same stub two times")
        self._given[path] = key
        return self._root / path

    def _owner(self, path: Path) -> str | None:
        """The key that a directory belongs to; None if it is free, a text that is no key if it is a stranger's."""
        return self._given.get(path) or directory_key(self._root / path)


def directory_key(directory: Path) -> str | None:
    """The key of the stub in a directory; None if there is no directory or nothing but leftovers in it."""
    try:
        spec = orjson.loads((directory / SPEC).read_bytes())
    except FileNotFoundError:
        return "unknown" if _has_content(directory) else None
    except (OSError, ValueError):
        return "unreadable"
    return str(spec.get("key")) if isinstance(spec, Mapping) else "unreadable"


def _has_content(directory: Path) -> bool:
    try:
        return any(not entry.name.startswith(".tmp-") for entry in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return directory.exists()
