"""What an object store has of a session's files, remembered beside them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from paceline.record.jsonl import append_line, read_lines
from paceline.record.layout import SENT

_Mark = tuple[int, int]


class Ledger:
    """The files of a session as they were when they were last the same here and in the store.

    A line is added for each file sent, so that a runner that is killed forgets at most the last one and sends it again.
    """

    def __init__(self, session_dir: Path) -> None:
        self._path = session_dir / SENT
        self._marks: dict[str, _Mark] = {}
        for line in read_lines(self._path):
            self._apply(line)

    def has(self, name: str, status: os.stat_result) -> bool:
        """Whether the store has this file as it is now."""
        return self._marks.get(name) == _mark(status)

    def knows(self, name: str) -> bool:
        """Whether the store has a file of this name."""
        return name in self._marks

    def below(self, directory: str) -> Iterator[str]:
        """The names that the store has below a directory."""
        return (name for name in list(self._marks) if name.startswith(f"{directory}/"))

    def add(self, name: str, status: os.stat_result) -> None:
        size, time_ns = _mark(status)
        self._write({"name": name, "size": size, "time_ns": time_ns})

    def note(self, name: str) -> None:
        """The store has a file of this name, whether or not it is the one here."""
        self._write({"name": name, "size": -1, "time_ns": -1})

    def drop(self, name: str) -> None:
        self._write({"name": name})

    def _write(self, line: dict[str, str | int]) -> None:
        self._apply(line)
        with suppress(OSError):  # A full disk: what is forgotten is sent again one day.
            append_line(self._path, line)

    def _apply(self, line: dict[str, str | int]) -> None:
        name = str(line.get("name", ""))
        size, time_ns = line.get("size"), line.get("time_ns")
        if isinstance(size, int) and isinstance(time_ns, int):
            self._marks[name] = (size, time_ns)
        else:
            self._marks.pop(name, None)


def _mark(status: os.stat_result) -> _Mark:
    return status.st_size, status.st_mtime_ns
