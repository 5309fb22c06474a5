"""Files below a directory that others may have made: no link is followed, nothing but regular files is opened.

A root is trusted: a user named it. Every name below it is data: relative, of plain parts, and looked up part by part,
so that a link on the way leads nowhere. Sizes, counts and depths have bounds. `Refused`, an OSError, says why.
"""

import errno
import itertools
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

MAX_FILE_BYTES = 64 << 20
"""The most that is read into memory of one file, unless the caller says otherwise."""
MAX_NAMES = 1_000_000
MAX_DEPTH = 32

# A process id alone does not tell two runners apart: containers that share a disk often have the same.
RUNNER = secrets.token_hex(8)
_TEMPORARY = ".tmp-"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
Root = Path | str | int
"""A directory that is trusted, or the descriptor of one that was opened below such a directory."""
_counter = itertools.count()
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Refused(OSError):
    """Something below a root is not what it should be: a link, a device, a pipe, too large, or no name."""

    def __init__(self, root: Root, name: str, why: str) -> None:
        super().__init__(errno.EPERM, f"{name!r} is refused: {why}", str(root))


class Entry(NamedTuple):
    """A file or directory that `walk` found."""

    name: str
    status: os.stat_result


def check_name(root: Root, name: str) -> list[str]:
    """The parts of a name; Refused unless it leads to something below, and a terminal obeys nothing in it."""
    parts = name.split("/")
    for part in parts:
        if part in ("", ".", "..") or len(part) > 255 or _CONTROL.search(part):
            raise Refused(root, name, "it is not the name of a file below")
    if len(parts) > MAX_DEPTH:
        raise Refused(root, name, "it is too deep")
    return parts


def _open_root(root: Root) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    return os.open(".", flags, dir_fd=root) if isinstance(root, int) else os.open(root, flags)


@contextmanager
def directory(root: Root, name: str) -> Iterator[int]:
    """A directory opened once, as the root of all that is asked for below it: each part of a name costs a call."""
    with _parent(root, name) as (parent, last):
        fd = os.open(last, _DIRECTORY, dir_fd=parent)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _parent(root: Root, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The directory of a name, opened, and the name in it."""
    *parents, last = check_name(root, name)
    fd = _open_root(root)
    try:
        for part in parents:
            try:
                try:
                    inner = os.open(part, _DIRECTORY, dir_fd=fd)
                except FileNotFoundError:
                    if not make:
                        raise
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                    inner = os.open(part, _DIRECTORY, dir_fd=fd)
            except OSError as error:
                # What is a link is NotADirectory to the kernel; say which it is.
                if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(part, fd):
                    raise Refused(root, name, f"{part} is a link") from None
                raise
            os.close(fd)
            fd = inner
        yield fd, last
    finally:
        os.close(fd)


def _is_link(name: str, fd: int) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    return False


def open_below(root: Root, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """The descriptor of a regular file; with O_CREAT in `flags` it is made if it is not there, its directories too."""
    with _parent(root, name, make=bool(flags & os.O_CREAT)) as (fd, last):
        try:
            # Emptied only once it is known to be a file.
            found = os.open(last, (flags & ~os.O_TRUNC) | _FILE, mode, dir_fd=fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # A link, or a pipe or socket that nobody reads.
                raise Refused(root, name, "it is not a regular file") from None
            raise
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise Refused(root, name, "it is not a regular file")
        if flags & os.O_TRUNC:
            os.ftruncate(found, 0)
    except BaseException:
        os.close(found)
        raise
    return found


def open_file(root: Root, name: str) -> BufferedReader:
    """A regular file to read from, piece by piece."""
    return os.fdopen(open_below(root, name), "rb")


def open_given(path: Path) -> BufferedReader:
    """A regular file that a user named, to read from: whatever link leads to it is the user's own."""
    found = os.open(path, os.O_RDONLY | (_FILE & ~os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise Refused(path.parent, path.name, "it is not a regular file")
    return os.fdopen(found, "rb")


def read(root: Root, name: str, limit: int = MAX_FILE_BYTES) -> bytes:
    """All of a file; Refused if it holds more than `limit`."""
    fd = open_below(root, name)
    try:
        # Not `limit` at once: room for all that is asked for is made before anything is read.
        data = os.read(fd, min(os.fstat(fd).st_size, limit) + 1)
        while len(data) <= limit and (more := os.read(fd, 1 << 16)):  # it has grown meanwhile
            data += more
    finally:
        os.close(fd)
    if len(data) > limit:
        raise Refused(root, name, f"it is larger than {limit:,} bytes")
    return data


def read_end(root: Root, name: str, limit: int) -> bytes:
    """The last bytes of a file."""
    with open_file(root, name) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - limit))
        return file.read(limit)


def status(root: Root, name: str) -> os.stat_result | None:
    """What is there under a name, the link itself if it is one; None if nothing is."""
    try:
        with _parent(root, name) as (fd, last):
            return os.stat(last, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None


def is_file(root: Root, name: str) -> bool:
    found = status(root, name)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_dir(root: Root, name: str) -> bool:
    found = status(root, name)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_link(root: Root, name: str) -> bool:
    found = status(root, name)
    return found is not None and stat.S_ISLNK(found.st_mode)


def names(root: Root, name: str = "") -> list[str]:
    """What a directory holds, sorted, without names that a terminal obeys; nothing if it is not there or a link.

    A root that may not be read is an error, as nobody should take it for an empty one.
    """
    try:
        if name:
            with _parent(root, name) as (parent, last):
                fd = os.open(last, _DIRECTORY, dir_fd=parent)
        else:
            fd = _open_root(root)
    except OSError as error:
        if not name and not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise
        return []
    try:
        with os.scandir(fd) as entries:
            found = [entry.name for entry in itertools.islice(entries, MAX_NAMES + 1)]
    finally:
        os.close(fd)
    if len(found) > MAX_NAMES:
        raise Refused(root, name or ".", f"it holds more than {MAX_NAMES:,} names")
    return sorted(each for each in found if not _CONTROL.search(each))


def walk(
    root: Root,
    name: str = "",
    *,
    most: int = MAX_NAMES,
    links: bool = False,
    skip: Callable[[str], bool] = lambda name: False,
) -> Iterator[Entry]:
    """All regular files below a directory, by their names below the root; pipes and devices are left out.

    So are links, unless they are wanted, which are not followed. What is to be skipped is not looked into.
    """
    waiting = [name]
    count = 0
    while waiting:
        directory = waiting.pop()
        inner = []
        for each in names(root, directory):
            path = f"{directory}/{each}" if directory else each
            if skip(path):
                continue
            count += 1
            if count > most:
                raise Refused(root, name or ".", f"it holds more than {most:,} files")
            found = status(root, path)
            if found is not None and stat.S_ISDIR(found.st_mode):
                if path.count("/") < MAX_DEPTH - 1:
                    inner.append(path)
            elif found is not None and (
                stat.S_ISREG(found.st_mode) or (links and stat.S_ISLNK(found.st_mode))
            ):
                yield Entry(path, found)
        waiting += reversed(inner)


def make_dir(root: Root, name: str) -> bool:
    """Make a directory, its parents too; whether it is new. Refused if a link or a file is in the way."""
    with _parent(root, name, make=True) as (fd, last):
        try:
            os.mkdir(last, dir_fd=fd)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(last, dir_fd=fd, follow_symlinks=False).st_mode):
                raise Refused(root, name, "something that is not a directory is in the way") from None
            return False
    return True


def make_private_dir(root: Root, name: str) -> None:
    """Make a directory that only its owner can enter, or make one that is there so; whatever the umask is."""
    make_dir(root, name)
    with _parent(root, name) as (parent, last):
        fd = os.open(last, _DIRECTORY, dir_fd=parent)
    try:
        if os.fstat(fd).st_mode & 0o077:
            os.fchmod(fd, 0o700)
    finally:
        os.close(fd)


def write(
    root: Root,
    name: str,
    data: bytes | Iterable[bytes],
    *,
    durable: bool = True,
    mode: int = 0o666,
) -> None:
    """Write a whole file or nothing; readers see the old one or the new one."""
    with open_atomic(root, name, durable=durable, mode=mode) as put:
        for part in (data,) if isinstance(data, bytes) else data:
            put(part)


@contextmanager
def open_atomic(
    root: Root, name: str, *, durable: bool = True, mode: int = 0o666
) -> Iterator[Callable[[bytes], None]]:
    """The same for a file that is written piece by piece, each by a call of what this hands out."""
    with _parent(root, name, make=True) as (fd, last):
        temporary = f"{_TEMPORARY}{RUNNER}-{os.getpid()}-{next(_counter)}"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=fd)
        try:
            try:
                yield partial(write_all, file)
                if durable:
                    os.fsync(file)
            finally:
                os.close(file)
            os.replace(temporary, last, src_dir_fd=fd, dst_dir_fd=fd)
            if durable:
                sync_dirs(root, name)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=fd)
            raise


def sync_dirs(root: Root, name: str) -> None:
    """Put a name on the disk, and those of the directories above it below the root, which may be as new."""
    parts = check_name(root, name)
    for depth in range(len(parts), 0, -1):
        with _parent(root, "/".join(parts[:depth])) as (fd, _):
            os.fsync(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, by as many system calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def is_temporary(name: str) -> bool:
    """Whether a file of this name was being written when its runner was killed."""
    return name.startswith(_TEMPORARY)


def remove_temporary_files(root: Root, name: str = "") -> None:
    for each in names(root, name):
        if is_temporary(each):
            remove(root, f"{name}/{each}" if name else each)


def rename(root: Root, source: str, target: str) -> None:
    """Move a file, a directory or a link itself to another name below the root."""
    with _parent(root, source) as (here, old), _parent(root, target, make=True) as (there, new):
        os.rename(old, new, src_dir_fd=here, dst_dir_fd=there)


def link(root: Root, name: str, target: str) -> None:
    """Make a symbolic link for people, or let one that is there lead elsewhere; readers never use it."""
    with _parent(root, name, make=True) as (fd, last):
        try:
            os.symlink(target, last, dir_fd=fd)
        except FileExistsError:
            if not _is_link(last, fd):
                raise Refused(root, name, "something that is not a link is in the way") from None
            os.unlink(last, dir_fd=fd)
            os.symlink(target, last, dir_fd=fd)


def read_link(root: Root, name: str) -> str:
    """Where a link says that it leads; nobody has looked whether there is anything."""
    with _parent(root, name) as (fd, last):
        return os.readlink(last, dir_fd=fd)


def hard_link(root: Root, source: str, target: str) -> None:
    """Give a file a second name, as a copy where the disk has no such links; nothing if there is no such file."""
    with suppress(FileExistsError, FileNotFoundError), _parent(root, source) as (here, old):
        with _parent(root, target, make=True) as (there, new):
            try:
                os.link(old, new, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)
                return
            except (FileExistsError, FileNotFoundError):
                return
            except OSError:  # No hard links here, or too many of them.
                pass
        write(root, target, read(root, source), durable=False)


def remove(root: Root, name: str) -> None:
    """Remove a file or a link, if it is there."""
    with suppress(FileNotFoundError), _parent(root, name) as (fd, last):
        os.unlink(last, dir_fd=fd)


def remove_tree(root: Root, name: str) -> bool:
    """Remove a directory and all that is in it, links but not what they lead to; whether it is gone."""
    with suppress(OSError), _parent(root, name) as (fd, last):
        if _is_link(last, fd):
            os.unlink(last, dir_fd=fd)
        else:
            shutil.rmtree(last, ignore_errors=True, dir_fd=fd)
    return status(root, name) is None
