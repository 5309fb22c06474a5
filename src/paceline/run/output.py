"""A command's output as files: each stream, both together, secrets masked; and its last lines for whoever watches."""

import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol, Self

Stream = Literal["stdout", "stderr"]

TAIL_BYTES = 1 << 16
NAMES = {"stdout": "stdout.log", "stderr": "stderr.log", "both": "stdouterr.log"}


class StreamRedactor(Protocol):
    """Masks secrets in one stream, also those cut in two by a chunk's border."""

    def feed(self, chunk: bytes) -> bytes: ...
    def flush(self) -> bytes: ...


class OutputLog:
    """Writes the logs of one run. It never raises: with a full disk the benchmark goes on and `warning` says so."""

    def __init__(self, directory: Path, make_redactor: Callable[[], StreamRedactor] | None = None) -> None:
        self._directory = directory
        self._redactors = (
            {} if make_redactor is None else {"stdout": make_redactor(), "stderr": make_redactor()}
        )
        self._fds: dict[str, int] = {}
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._lock = threading.Lock()  # a live view reads the tail while a run writes it
        self.warning = ""

    def __enter__(self) -> Self:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._note(self._directory.name, error)
        for key, name in NAMES.items():
            self._open(key, name)
        return self

    def __exit__(self, *_: object) -> None:
        for stream, redactor in self._redactors.items():
            self._put(stream, redactor.flush())
        for fd in self._fds.values():
            os.close(fd)
        self._fds = {}

    def write(self, stream: Stream, chunk: bytes) -> None:
        """Add to a stream's log and to the common one."""
        redactor = self._redactors.get(stream)
        self._put(stream, chunk if redactor is None else redactor.feed(chunk))

    def tail(self, count: int) -> list[str]:
        """The last lines of both streams, as text; of a line rewritten by carriage returns, its last state."""
        if count <= 0:
            return []
        with self._lock:
            data = b"".join(self._tail)
        lines = data.decode("utf-8", "replace").split("\n")
        if not lines[-1]:
            lines.pop()
        return [line.rstrip("\r").rpartition("\r")[2] for line in lines[-count:]]

    def _put(self, stream: str, data: bytes) -> None:
        if not data:
            return
        self._append(stream, data)
        self._append("both", data)
        with self._lock:
            self._remember(data)

    def _remember(self, data: bytes) -> None:
        """Keep the end only: what is kept must not grow with what is printed."""
        self._tail.append(data[-TAIL_BYTES:])
        self._tail_bytes += len(self._tail[-1])
        while self._tail_bytes - len(self._tail[0]) >= TAIL_BYTES:
            self._tail_bytes -= len(self._tail.popleft())

    def _open(self, key: str, name: str) -> None:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._fds[key] = os.open(self._directory / name, flags, 0o666)
        except OSError as error:
            self._note(name, error)

    def _append(self, key: str, data: bytes) -> None:
        """Tried anew for every chunk: space may come back, and the end of a log matters most."""
        fd = self._fds.get(key)
        if fd is None:
            return
        try:
            written = os.write(fd, data)
            while written < len(data):
                written += os.write(fd, data[written:])
        except OSError as error:
            self._note(NAMES[key], error)

    def _note(self, name: str, error: OSError) -> None:
        self.warning = self.warning or f"output is missing from {name}: {error.strerror or error}"
