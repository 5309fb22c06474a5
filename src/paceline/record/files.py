"""Files that survive a crash: written whole or not at all, or line by line; and a reserve for a full disk."""

import contextlib
import itertools
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from paceline.record import below
from paceline.record.codec import dump, load
from paceline.record.layout import RESERVE, names_in

log = logging.getLogger(__name__)

# A process id alone does not tell two runners apart: containers that share a disk often have the same.
RUNNER = secrets.token_hex(8)
_PREFIX = ".tmp-"
_counter = itertools.count()


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Write a whole file or nothing; readers see the old one or the new one."""
    with open_atomic(path, durable=durable) as write:
        for part in (data,) if isinstance(data, bytes) else data:
            write(part)


@contextmanager
def open_atomic(path: Path, *, durable: bool = True) -> Iterator[Callable[[bytes], None]]:
    """The same for a file that is written piece by piece, each by a call of what this hands out."""
    temporary = f"{path.parent}/{_PREFIX}{RUNNER}-{os.getpid()}-{next(_counter)}"
    try:
        with open(temporary, "xb", buffering=0) as file:  # noqa: PTH123
            yield partial(write_all, file.fileno())
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105 - a Path object more would cost as much as the call
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, by as many system calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def is_temporary(name: str) -> bool:
    """Whether a file of this name was being written when its runner was killed."""
    return name.startswith(_PREFIX)


def remove_temporary_files(directory: Path) -> None:
    for name in names_in(directory):
        if is_temporary(name):
            (directory / name).unlink(missing_ok=True)


RESERVE_BYTES = 1 << 20


class Reserve:
    """A file that is there only to be removed when space runs out."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / RESERVE

    def hold(self) -> bool:
        """Take the space; False when the disk does not have it."""
        try:
            with self._path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        except OSError:
            self.release()
            return False
        return True

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


class JsonLines:
    """Appends lines to a file, which is opened at the first one; OSError if the disk does not take a line.

    `durable`: each line is on the disk when `append` returns. A torn last line is ended, so that readers skip it;
    `cut` removes it, for files of which every line must be readable.
    """

    def __init__(self, path: Path, *, durable: bool = False, cut: bool = False, mode: int = 0o666) -> None:
        self.path = path
        self._durable = durable
        self._cut = cut
        self._mode = mode
        self._fd: int | None = None
        self._is_torn = False

    def append(self, value: Any) -> None:
        """Add a line, by one system call unless the disk takes less."""
        line = dump(value) + b"\n"
        fd = self.open()
        before, self._is_torn = b"\n" if self._is_torn else b"", True
        write_all(fd, before + line)
        self._is_torn = False
        if self._durable:
            os.fsync(fd)

    def open(self) -> int:
        """Open and repair the file now; its descriptor, for a lock."""
        if self._fd is None:
            self._fd = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, self._mode
            )
            size = os.fstat(self._fd).st_size
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                if self._cut:
                    os.ftruncate(self._fd, self.path.read_bytes().rfind(b"\n") + 1)
                else:
                    os.write(self._fd, b"\n")
        return self._fd

    def sync(self) -> None:
        """Wait until all lines so far are on the disk."""
        os.fsync(self.open())

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def append_line(path: Path, value: Any, *, mode: int = 0o666) -> None:
    """Add one line to a file that is not kept open."""
    with JsonLines(path, mode=mode) as log:
        log.append(value)


_MAX_LINE_BYTES = 64 << 20


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The mappings in a file of JSON lines; torn lines are left out, and a file that is not there is empty.

    So is what follows a line that is longer than any of ours, and (logged) what is not a file.
    """
    try:
        file = below.open_file(path.parent, path.name)
    except FileNotFoundError:
        return
    except below.Refused as error:
        log.warning("%s counts as empty: %s", path, error)
        return
    with file:
        while (line := file.readline(_MAX_LINE_BYTES)) and len(line) < _MAX_LINE_BYTES:
            value = _parse(line)
            if value is not None:
                yield value


class Tail:
    """The lines that are added to a file of JSON lines while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> list[dict[str, Any]]:
        """Those that are complete and were not read before."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        return [value for line in whole.splitlines() if (value := _parse(line)) is not None]


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        value = load(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
