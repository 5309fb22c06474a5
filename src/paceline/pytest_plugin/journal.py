"""What was measured so far, on the disk, until the history has it: nothing is lost when pytest or a worker dies.

A journal lies beside the database (`benchmark.db.<session>.jsonl`). Its first line tells of the session and where it
ran; each further one of a test that started, of one that ended without a word, or holds a record. A run that ends well
removes its journal. One that is left is taken in by the next run with the same database.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError
from paceline.history.urls import parse_target, without_password
from paceline.record.codec import dump, load

FORMAT = "paceline pytest journal"
SUFFIX = ".jsonl"


class Journal:
    """Lines of one run of pytest, as far as a disk takes them, in a file that is locked by it."""

    def __init__(self, candidates: Iterable[Path], header: Mapping[str, Any]) -> None:
        self.header = dump({"format": FORMAT, "schema": 1, **header})
        self.path: Path | None = None
        self._fd: int | None = None
        for path in candidates:
            if self._open(path):
                break

    def _open(self, path: Path) -> bool:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError:
            return False
        with suppress(
            OSError
        ):  # Some network file systems have no locks; then nobody else looks there either.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path, self._fd = path, fd
        self._put(self.header)
        return self._fd is not None

    def write(self, line: str) -> None:
        self._put(line.encode())

    def _put(self, line: bytes) -> None:
        """One system call a line, so that a kill leaves whole lines; a full disk ends the file, not the run."""
        if self._fd is not None:
            try:
                os.write(self._fd, line + b"\n")
            except OSError:
                self.close()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def remove(self) -> None:
        self.close()
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()


def candidates(database: str, directory: Path, session_id: str) -> Iterator[Path]:
    """Where a journal may lie: beside the database, where pytest was started, where temporary files are."""
    for base in _bases(database, directory):
        yield base.with_name(f"{base.name}.{session_id}{SUFFIX}")


def abandoned(database: str, directory: Path) -> Iterator[tuple[Path, dict[str, Any], list[str]]]:
    """Journals of runs that ended before this database had taken them in: path, header, lines."""
    for base in _bases(database, directory):
        for path in sorted(base.parent.glob(f"{_literal(base.name)}.*{SUFFIX}")):
            if not _is_in_use(path):
                with suppress(OSError, ValueError):
                    header, lines = read(path)
                    if header.get("database") == shown(database):
                        yield path, header, lines


def shown(database: str) -> str:
    """The database without a password."""
    try:
        return str(parse_target(database))
    except PacelineError:
        return without_password(database)


def _bases(database: str, directory: Path) -> Iterator[Path]:
    with suppress(PacelineError):
        target = parse_target(database)
        if target.path is not None:
            yield target.path
    yield directory / "benchmark"
    yield Path(tempfile.gettempdir(), f"paceline-{os.getuid()}-benchmark")


def _literal(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _is_in_use(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return os.fstat(fd).st_uid != os.getuid()  # What others left where all may write is none of ours.
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def read(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Header and lines of a journal; raises `ValueError` if it is none."""
    first, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    header = load(first.encode())
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path} is no journal of a pytest run")
    return header, lines
