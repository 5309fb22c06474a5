"""Files that survive a crash: written whole or not at all, or line by line; and a reserve for a full disk."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from paceline.record import below
from paceline.record.below import write_all
from paceline.record.codec import dump, load
from paceline.record.layout import RESERVE


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Write a whole file or nothing into a directory of ours; readers see the old one or the new one."""
    below.write(path.parent, path.name, data, durable=durable)


RESERVE_BYTES = 1 << 20
MAX_LINE_BYTES = 64 << 20


class Reserve:
    """A file that is there only to be removed when space runs out."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def hold(self) -> bool:
        """Take the space; False when the disk does not have it."""
        try:
            fd = below.open_below(self._directory, RESERVE, os.O_WRONLY | os.O_CREAT)
            try:
                os.posix_fallocate(fd, 0, RESERVE_BYTES)
            finally:
                os.close(fd)
        except OSError:
            self.release()
            return False
        return True

    def release(self) -> None:
        with contextlib.suppress(OSError):
            below.remove(self._directory, RESERVE)


class JsonLines:
    """Appends lines to a file, which is opened at the first one; OSError if the disk does not take a line.

    `durable`: each line is on the disk when `append` returns. A torn last line is ended, so that readers skip it;
    `cut` removes it, for files of which every line must be readable.
    """

    def __init__(
        self,
        path: Path,
        *,
        root: Path | None = None,
        durable: bool = False,
        cut: bool = False,
        mode: int = 0o666,
    ) -> None:
        self.path = path
        self._root = root or path.parent
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
            name = str(self.path.relative_to(self._root))
            self._fd = below.open_below(self._root, name, os.O_RDWR | os.O_CREAT | os.O_APPEND, self._mode)
            size = os.fstat(self._fd).st_size
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                if self._cut:
                    os.ftruncate(self._fd, below.read(self._root, name, size).rfind(b"\n") + 1)
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


def append_line(path: Path, value: Any, *, root: Path | None = None, mode: int = 0o666) -> None:
    """Add one line to a file that is not kept open."""
    with JsonLines(path, root=root, mode=mode) as log:
        log.append(value)


def read_lines(path: Path, root: Path | None = None) -> Iterator[dict[str, Any]]:
    """The mappings in a file of JSON lines; torn lines are left out, and a file that is not there is empty."""
    root = root or path.parent
    try:
        file = below.open_file(root, str(path.relative_to(root)))
    except FileNotFoundError:
        return
    with file:
        # A line past the bound is read in parts, none of which is a mapping.
        while line := file.readline(MAX_LINE_BYTES):
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
            with below.open_file(self._path.parent, self._path.name) as file:
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
