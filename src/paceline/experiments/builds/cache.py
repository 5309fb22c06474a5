"""Directories that are expensive to make: made once, by one process at a time, and removed when nobody uses them.

Also the programs that fill them: builds, whose output goes to a log, and questions, whose output is the answer.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paceline.errors import BuildError
from paceline.numbers import number
from paceline.record.files import lock_file, write_atomic

KEPT_DAYS = 30
"""After so long without use a directory is removed."""

_MARK, _LOCK = ".complete", ".lock"
_SHOWN_LINES = 4


def default_cache_dir() -> Path:
    """PACELINE_CACHE, else `~/.cache/paceline`."""
    given = os.environ.get("PACELINE_CACHE")
    return Path(given).absolute() if given else Path.home() / ".cache" / "paceline"


def make_once(directory: Path, make: Callable[[int], Mapping[str, Any]]) -> Mapping[str, Any]:
    """The facts about a directory, which `make` makes and returns if it is not there yet.

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
    """Hold the directory's lock; without waiting, -1 means that another process has it."""
    try:
        fd = lock_file(_beside(directory, _LOCK), wait=wait)
    except BlockingIOError:
        yield -1
        return
    try:
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


def run_logged(
    words: Sequence[str | Path],
    *,
    what: str,
    log: Path,
    lock: int,
    env: Mapping[str, str],
    cwd: Path | None = None,
    timeout_s: float | None = None,
) -> None:
    """Run a program that builds something; a BuildError has its last lines if it fails.

    It holds our lock too: if we are killed, nobody builds in the same place before it has ended.
    """
    argv = [str(word) for word in words]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        file.write(f"$ {' '.join(argv)}  # in {cwd or Path.cwd()}\n".encode(errors="replace"))
        file.flush()
        start = file.tell()
        try:
            done = subprocess.run(
                argv,
                check=False,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                pass_fds=(lock,),
            )
        except OSError as error:
            raise BuildError(f"{what}: cannot run {argv[0]}: {error.strerror or error}") from error
        except subprocess.TimeoutExpired as error:
            raise BuildError(
                f"{what}: {argv[0]} took longer than {number(error.timeout / 3600)} h"
            ) from error
    if done.returncode:
        printed = log.read_bytes()[start:].decode(errors="replace").splitlines()
        tail = " / ".join([line.strip() for line in printed if line.strip()][-_SHOWN_LINES:])
        raise BuildError(
            f"{what} failed: {argv[0]} exited with {done.returncode}: {tail or 'it printed nothing'}; "
            f"the whole log is in {log}"
        )


def ask(
    words: Sequence[str | Path],
    *,
    feed: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    lock: int | None = None,
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program for what it prints; `feed` is what it reads. Whether it failed is for the caller to judge."""
    try:
        return subprocess.run(
            [str(word) for word in words],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            input=feed,
            env=env,
            cwd=cwd,
            timeout=timeout_s,
            pass_fds=() if lock is None else (lock,),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"cannot run {words[0]}: {getattr(error, 'strerror', None) or error}") from error
