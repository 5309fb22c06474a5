"""What a result depends on, as one hash: equal content is computed once, other content never mistaken for it.

Results of a stub lie in model / attention / benchmark_subset, as readable as their names.
"""

import hashlib
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
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


def files_sha256(files: Iterable[Path], root: Path) -> str:
    """A hash of some files: their names below a directory (or alone, if they are elsewhere), and their contents."""
    digest = hashlib.sha256()
    for file in sorted(set(files)):
        name = file.relative_to(root) if file.is_relative_to(root) else file.name
        digest.update(f"{name}\0{_file_content(file)}\n".encode())
    return digest.hexdigest()


def directory_files(path: Path) -> list[Path]:
    """All files of a directory, hidden ones left out."""
    found = [path] if path.is_file() else path.rglob("*")
    return [file for file in found if file.is_file() and not file.name.startswith(".")]


_MODEL_SUFFIXES = frozenset(
    {".json", ".jinja", ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".model", ".tiktoken", ".py", ".npz"}
)
_MODEL_TEXTS = frozenset({"merges.txt", "vocab.txt", "spiece.txt"})


def model_files(path: Path) -> list[Path]:
    """The files of a model's directory that decide what it says: not its README, licence and pictures."""
    found = directory_files(path)
    return [file for file in found if file.suffix in _MODEL_SUFFIXES or file.name in _MODEL_TEXTS]


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


_COMMIT = re.compile(r"[0-9a-f]{40}")
_ASK_TIMEOUT_S = 10.0


def resolve_revision(kind: str, name: str, revision: str | None) -> str | None:
    """The commit of a `model` or a `dataset`; None where it is not known.

    A branch such as `main` is the commit that this machine has a copy of, so that results of one machine are of one
    commit until somebody downloads another; the hub is asked where there is no copy.
    """
    if revision is not None and _COMMIT.fullmatch(revision):
        return revision
    place = cached_snapshot(kind, name, revision)
    if place is not None and place.is_dir():
        return place.name
    return _ask(kind, name, revision)


def cached_snapshot(kind: str, name: str, revision: str | None) -> Path | None:
    """Where the copy of a revision would lie on this machine."""
    copies = _cache() / f"{kind}s--{name.replace('/', '--')}"
    wanted = revision or "main"
    try:
        commit = (copies / "refs" / wanted).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        commit = wanted
    return copies / "snapshots" / commit


def _cache() -> Path:
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()


def _ask(kind: str, name: str, revision: str | None) -> str | None:
    """What the hub says; nothing where it cannot be reached, and the download will tell what is wrong."""
    if "/" not in name or os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0"):
        return None
    try:
        from huggingface_hub import HfApi
    except ImportError:
        return None
    # The hub's own errors are OSErrors.
    faults: tuple[type[Exception], ...] = (OSError, ValueError, *_transport_errors())
    try:
        found = HfApi().repo_info(name, repo_type=kind, revision=revision, timeout=_ASK_TIMEOUT_S)
    except faults:
        return None
    return str(found.sha) if found.sha else None


def _transport_errors() -> Iterator[type[Exception]]:
    """Those of the HTTP library that the hub's client uses, which is one or the other by its version."""
    for name in ("httpx2", "httpx"):
        if (module := sys.modules.get(name)) is not None:
            yield module.HTTPError
