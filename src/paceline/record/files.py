"""Files that survive a crash: written whole or not at all, or line by line; locks; and a reserve for a full disk."""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterable, Iterator
from errno import EBADF, ENOLCK, EOPNOTSUPP
from pathlib import Path
from typing import Any, Self

from paceline.record import below
from paceline.record.below import write_all
from paceline.record.codec import dump, load
from paceline.record.layout import RESERVE

log = logging.getLogger(__name__)


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Write a whole file or nothing into a directory of ours; readers see the old one or the new one."""
    below.write(path.parent, path.name, data, durable=durable)


# NFS answers EBADF when what is open for reading only, as a directory always is, is to be locked alone.
_NO_LOCKS = frozenset({ENOLCK, EOPNOTSUPP, EBADF})


def lock_file(
    path: Path,
    *,
    root: Path | None = None,
    wait: bool = False,
    shared: bool = False,
    optional: bool = False,
    mode: int = 0o666,
) -> int:
    """Lock a file, which is made if need be; the descriptor holds the lock until all its copies are closed.

    See `lock_fd`. A shared lock needs no right to write, and a file that is there.
    """
    root = root or path.parent
    flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    fd = below.open_below(root, str(path.relative_to(root)), flags, mode)
    try:
        lock_fd(fd, wait=wait, shared=shared, optional=optional)
    except BaseException:
        os.close(fd)
        raise
    return fd


def lock_fd(fd: int, *, wait: bool = False, shared: bool = False, optional: bool = False) -> None:
    """Lock what is open; BlockingIOError if another has it and we do not wait.

    `optional`: a file system that has no locks is no error; nobody is kept out then.
    """
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if not optional or error.errno not in _NO_LOCKS:
            raise


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
    `cut` removes it, for files of which every line must be readable. `alone`: the file is locked while it is open;
    BlockingIOError if another process has it.
    """

    def __init__(
        self,
        path: Path,
        *,
        root: Path | None = None,
        durable: bool = False,
        cut: bool = False,
        alone: bool = False,
        mode: int = 0o666,
    ) -> None:
        self.path = path
        self._root = root or path.parent
        self._durable = durable
        self._cut = cut
        self._alone = alone
        self._mode = mode
        self._fd: int | None = None
        self._is_torn = False

    def append(self, value: Any) -> None:
        """Add a value as a line."""
        self.write(dump(value))

    def write(self, line: bytes) -> None:
        """Add a line that is JSON already, by one system call unless the disk takes less."""
        fd = self.open()
        before = b"\n" if self._is_torn else b""
        try:
            write_all(fd, before + line + b"\n")
        except BaseException:
            self._is_torn = True
            raise
        self._is_torn = False
        if self._durable:
            os.fsync(fd)

    def open(self) -> int:
        """Open and repair the file now; its descriptor."""
        if self._fd is None:
            name = str(self.path.relative_to(self._root))
            fd = below.open_below(self._root, name, os.O_RDWR | os.O_CREAT | os.O_APPEND, self._mode)
            try:
                if self._alone:
                    lock_fd(fd, optional=True)
                if (
                    self._durable and not os.fstat(fd).st_size
                ):  # New: its name is to last as long as its lines.
                    below.sync_dirs(self._root, name)
                self._repair(fd)
            except BaseException:
                os.close(fd)
                raise
            self._fd = fd
        return self._fd

    def _repair(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            if self._cut:
                os.ftruncate(fd, os.pread(fd, size, 0).rfind(b"\n") + 1)
            else:
                os.write(fd, b"\n")

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


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain_cells(row: Iterable[Any]) -> list[Any]:
    """A row of a CSV file whose texts no spreadsheet takes for a formula or for two lines; numbers stay numbers."""
    return [_plain_cell(cell) if type(cell) is str else cell for cell in row]


def _plain_cell(text: str) -> str:
    quoted = f"'{text}" if text.startswith(_FORMULA) else text
    return quoted.replace("\r\n", "\n").replace("\r", "\n")  # the writer quotes "\n" only


def append_line(path: Path, value: Any, *, root: Path | None = None, mode: int = 0o666) -> None:
    """Add one line to a file that is not kept open."""
    with JsonLines(path, root=root, mode=mode) as log:
        log.append(value)


def read_lines(path: Path, root: Path | None = None) -> Iterator[dict[str, Any]]:
    """The mappings in a file of JSON lines; torn lines are left out, and a file that is not there is empty.

    So is what follows a line that is longer than any of ours, and (logged) what is not a file.
    """
    root = root or path.parent
    try:
        file = below.open_file(root, str(path.relative_to(root)))
    except FileNotFoundError:
        return
    except below.Refused as error:
        log.warning("%s counts as empty: %s", path, error)
        return
    with file:
        while (line := file.readline(MAX_LINE_BYTES)) and len(line) < MAX_LINE_BYTES:
            value = _parse(line)
            if value is not None:
                yield value


class Tail:
    """The lines that are added to a file of JSON lines while it is read."""

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self._path = path
        self._root = root or path.parent
        self._position = 0

    def read(self) -> list[dict[str, Any]]:
        """Those that are complete and were not read before."""
        try:
            with below.open_file(self._root, str(self._path.relative_to(self._root))) as file:
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
