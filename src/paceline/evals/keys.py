"""What a result depends on, as one hash: equal content is computed once, other content never mistaken for it."""

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from paceline.evals.registry import EvalError

CONTENT_SCHEMA = 1
_SECRETS = frozenset(
    {"api_key", "token", "hf_token", "auth_token", "access_token", "use_auth_token", "password", "secret"}
)
_HASHED_WHOLE_BYTES = 1 << 22
"""Files up to this size are hashed; a larger one counts by size and time, since weights take minutes to read."""


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
