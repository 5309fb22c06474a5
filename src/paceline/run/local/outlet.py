"""What a worker prints goes through its keeper, which masks it before it reaches the log."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import termios
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Filter(Protocol):
        """Takes a stream in pieces, and gives back what may be written by now."""

        def feed(self, chunk: bytes) -> bytes: ...
        def flush(self) -> bytes: ...


_CHUNK_BYTES = 1 << 16
_SETTLE_S = 5.0


class Outlet:
    """A pipe from the worker's standard output and error to the keeper's standard output; made before the fork."""

    def __init__(self, mask: Filter) -> None:
        self._mask = mask
        self.read_fd, self._write_fd = os.pipe()
        self._at_work = mmap.mmap(-1, 1)  # both processes see it

    def take(self) -> None:
        """In the worker: print into the pipe from now on."""
        os.dup2(self._write_fd, 1)
        os.dup2(self._write_fd, 2)
        os.close(self._write_fd)
        os.close(self.read_fd)

    def leave(self) -> None:
        """In the keeper: the pipe ends with the worker and what it started."""
        os.close(self._write_fd)

    def pump(self) -> bool:
        """In the keeper: write a part of what was printed, masked; False at its end."""
        self._at_work[0] = 1
        chunk = os.read(self.read_fd, _CHUNK_BYTES)
        _write(self._mask.feed(chunk) if chunk else self._mask.flush())
        self._at_work[0] = 0
        return bool(chunk)

    def settle(self) -> None:
        """In the worker: wait until all that was printed is in the log."""
        until = time.monotonic() + _SETTLE_S
        # In this order: what is no longer in the pipe was taken out by a keeper that is at work until it is written.
        while (_unread_bytes(1) or self._at_work[0]) and time.monotonic() < until:
            time.sleep(0.0005)


def _unread_bytes(fd: int) -> int:
    try:
        found: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
    except OSError:
        return 0
    return found


def _write(data: bytes) -> None:
    """A disk that is full costs lines of the log, never the worker."""
    while data:
        try:
            data = data[os.write(1, data) :]
        except OSError:
            return
