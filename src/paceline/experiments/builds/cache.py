"""Directories that are dear to make: made once, by one process at a time, and thrown away when nobody uses them."""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paceline.errors import BuildError
from paceline.record.atomic import write_atomic

KEPT_DAYS = 30
"""After so long without use a directory is removed."""

_MARK, _LOCK = ".complete", ".lock"


def default_cache_dir() -> Path:
    """PACELINE_CACHE, else `~/.cache/paceline`."""
    given = os.environ.get("PACELINE_CACHE")
    return Path(given).absolute() if given else Path.home() / ".cache" / "paceline"


def keep(directory: Path, make: Callable[[int], Mapping[str, Any]]) -> Mapping[str, Any]:
    """The facts about a directory, which `make` makes and tells if it is not there yet.

    The mark that it is complete is written last, beside it; what lies there without one was left by a process that was
    killed. `make` gets the descriptor of the lock, for the programs it starts: while one lives, nobody else begins.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"cannot make {directory.parent}: {error.strerror or error}; set PACELINE_CACHE to another directory"
        ) from error
    with _locked(directory) as lock:
        facts = _read(directory)
        if facts is None:
            shutil.rmtree(directory, ignore_errors=True)
            try:
                facts = make(lock)
            except BaseException:
                shutil.rmtree(directory, ignore_errors=True)
                raise
            write_atomic(_beside(directory, _MARK), json.dumps(dict(facts)).encode())
        else:
            _beside(directory, _MARK).touch()
    prune(directory.parent)
    return facts


def prune(parent: Path, *, older_than_s: float = KEPT_DAYS * 86400) -> list[Path]:
    """Remove what has not been used for so long, unless somebody is about to use it."""
    removed = []
    for mark in parent.glob(f"*{_MARK}"):
        directory = mark.with_name(mark.name.removesuffix(_MARK))
        if _age_s(mark) < older_than_s:
            continue
        with _locked(directory, wait=False) as lock:
            if lock >= 0 and _age_s(mark) >= older_than_s:
                mark.unlink(missing_ok=True)
                shutil.rmtree(directory, ignore_errors=True)
                removed.append(directory)
    return removed


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


@contextmanager
def _locked(directory: Path, *, wait: bool = True) -> Iterator[int]:
    """Hold the directory's lock; without waiting, -1 says that somebody else does."""
    fd = os.open(_beside(directory, _LOCK), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield -1
            return
        yield fd
    finally:
        os.close(fd)


def _read(directory: Path) -> Mapping[str, Any] | None:
    try:
        facts = json.loads(_beside(directory, _MARK).read_bytes())
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and directory.is_dir() else None


def _beside(directory: Path, suffix: str) -> Path:
    return directory.with_name(directory.name + suffix)
