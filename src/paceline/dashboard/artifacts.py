"""The files of a run that a reader may open, and the kinds of content under which they do no harm."""

import os
import stat
from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from paceline.record import below, layout
from paceline.record.redact import Redactor, secret_values

MOST_FILES = 200
"""Of one case; a benchmark that leaves more has a directory that nobody reads file by file."""
MOST_MASKED_BYTES = 50 << 20
"""Secrets are looked for in files up to this size; a larger one is named and not handed out."""
BEGINNING = 4096
"""By so many bytes it is seen what a file is."""
TYPES = {
    "txt": "text/plain; charset=utf-8",
    "png": "image/png",
    "jpg": "image/jpeg",
    "gif": "image/gif",
    "bin": "application/octet-stream",
}
"""What a browser may be told of a file. HTML and SVG are text here: as what they are, they could run code."""

_PICTURES = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpg"), (b"GIF8", "gif"))
_LEFT_OUT = frozenset({*layout.ENTRY_FILES, layout.SCRATCH, layout.RAY_CLUSTER})
_DEEPEST = 6


class SafePath(NamedTuple):
    """A name below a root that a user gave: what `record.below` takes, which follows no link."""

    root: below.Root
    name: str

    def __truediv__(self, name: str) -> "SafePath":
        return SafePath(self.root, f"{self.name}/{name}" if self.name else name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file of a run; `name` is its path within the case's directory."""

    name: str
    path: SafePath
    size_bytes: int


class Entry(NamedTuple):
    """The directory of a case, and where `artifacts_dir` has its logs, if the user named one."""

    path: SafePath
    elsewhere: SafePath | None = None

    def last_run(self) -> str:
        """The directory of the current attempt's last run within this one; empty if it is this one."""
        label = layout.last_label(below.names(*self.path / layout.ATTEMPTS))
        return f"{layout.ATTEMPTS}/{label}" if label else ""

    def find(self, name: str) -> SafePath:
        """Where a file or directory of this name is: logs may be kept elsewhere, and our link there is not used."""
        parts = name.split("/")
        if self.elsewhere and layout.LOGS in parts:
            logs = "/".join(parts[: parts.index(layout.LOGS) + 1])
            if not below.is_dir(*self.path / logs):
                return self.elsewhere / name
        return self.path / name


def find_artifacts(entry: Entry) -> list[Artifact]:
    """What a case's directory holds for readers; links are not files of the run."""
    return list(islice(_walk(entry, "", entry.last_run(), 1), MOST_FILES))


def _walk(entry: Entry, directory: str, last_run: str, depth: int) -> Iterator[Artifact]:
    for each in below.names(*(entry.find(directory) if directory else entry.path)):
        name = f"{directory}/{each}" if directory else each
        # Of several runs the last one counts, and attempts that were moved aside do not.
        is_earlier = directory == layout.ATTEMPTS and name != last_run
        if each.startswith(".") or not each.isprintable() or name in _LEFT_OUT or is_earlier:
            continue
        path = entry.find(name)
        found = below.status(*path)
        if found and stat.S_ISDIR(found.st_mode):
            yield from _walk(entry, name, last_run, depth + 1) if depth < _DEEPEST else ()
        elif found and stat.S_ISREG(found.st_mode):
            yield Artifact(name=name, path=path, size_bytes=found.st_size)


def session_redactor(names: list[str]) -> Redactor:
    """Masks the secrets that are set where the site is made: those of these names, and those that all sessions mask."""
    return Redactor(secret_values(os.environ, names))


def read_artifact(path: SafePath, redactor: Redactor, largest_bytes: int = MOST_MASKED_BYTES) -> bytes:
    """What a file holds, without secrets; OSError if it is larger, or not a file any more."""
    stream = redactor.stream()
    data = stream.feed(below.read(*path, min(largest_bytes, MOST_MASKED_BYTES)))
    return data + stream.flush()


def safe_ending(beginning: bytes) -> str:
    """By the first bytes of a file, the ending under which no browser runs it, whatever its own name is."""
    for mark, ending in _PICTURES:
        if beginning.startswith(mark):
            return ending
    try:
        getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return "bin"
    return "bin" if b"\0" in beginning else "txt"


def read_ending(path: SafePath) -> str:
    """The ending for a file on disk."""
    with below.open_file(*path) as file:
        return safe_ending(file.read(BEGINNING))
