"""One socket between the parent and each worker: JSON lines, so that nothing a worker says is ever executed."""

import socket
from collections.abc import Mapping
from typing import Any

from paceline.record.codec import dump_plain, load

_READ_BYTES = 1 << 16


class Wire:
    """Messages over a stream socket."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._buffer = b""
        self.closed = False

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Mapping[str, Any]) -> bool:
        """Hand a message of plain data over; False if the other side is gone."""
        try:
            self.socket.sendall(dump_plain(message) + b"\n")
        except OSError:
            self.closed = True
            return False
        return True

    def receive(self) -> list[dict[str, Any]]:
        """All whole messages that are there; waits for some if the socket blocks. `closed` is set at the end."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.closed = True
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        messages = [load(line) for line in lines if line]
        return [message for message in messages if isinstance(message, dict)]

    def close(self) -> None:
        self.closed = True
        self.socket.close()
