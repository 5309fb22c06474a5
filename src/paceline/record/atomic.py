"""Files that are written whole or not at all, so that a crash leaves no half one."""

import itertools
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from paceline.record.layout import names_in

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
