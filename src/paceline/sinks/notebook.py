"""What a sink has delivered, on disk: an append-only file that a crash can only make shorter by its last line."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.record.atomic import write_all
from paceline.record.codec import dump
from paceline.record.events import end_torn_line, read_events

FILE = "notebook.jsonl"


class Notebook:
    """Facts by key; each is on the disk when `put` returns, and the last one counts."""

    def __init__(self, state_dir: Path) -> None:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = state_dir / FILE
        self._facts = {str(fact["key"]): fact for fact in read_events(self._path) if "key" in fact}

    def get(self, key: str) -> dict[str, Any] | None:
        """The fact noted last under this key."""
        return self._facts.get(key)

    def put(self, key: str, **fact: Any) -> dict[str, Any]:
        """Note a fact in place of the earlier one."""
        noted = {**fact, "key": key}
        # For the owner's eyes: the address of an upload under way lets its holder write to it.
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            end_torn_line(fd)
            write_all(fd, dump(noted) + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
        self._facts[key] = noted
        return noted

    def under(self, prefix: str) -> Mapping[str, dict[str, Any]]:
        """All facts whose key begins so, by the rest of it."""
        return {key[len(prefix) :]: fact for key, fact in self._facts.items() if key.startswith(prefix)}
