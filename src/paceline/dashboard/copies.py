"""Files of runs copied into a site: each content once, under a name that says only what it is."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from paceline.dashboard.artifacts import BEGINNING, Artifact, open_artifact, safe_ending
from paceline.record.atomic import write_atomic

_PIECE = 1 << 20


class Copies:
    """The copies of one session; what it kept is removed again with it, unless another session has the same."""

    def __init__(self, out: Path, largest_bytes: int) -> None:
        self._out = out
        self._largest_bytes = largest_bytes
        self.sizes_bytes: dict[str, int] = {}
        """Of each path in the site that this session needs."""

    def keep(self, place: int, found: Artifact) -> str | None:
        """The address of a file's copy; None if it is too large to be copied."""
        if found.size_bytes > self._largest_bytes:
            return None
        with open_artifact(found.path) as file:
            ending = safe_ending(file.read(BEGINNING))
            file.seek(0)
            digest = _digest(file)
            path = f"artifacts/{digest[:2]}/{digest}.{ending}"
            target = self._out / path
            if not target.is_file():
                file.seek(0)
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(target, _pieces(file), durable=False)
        self.sizes_bytes[path] = found.size_bytes
        return path


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _digest(file: BinaryIO) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for piece in _pieces(file):
        digest.update(piece)
    return digest.hexdigest()
