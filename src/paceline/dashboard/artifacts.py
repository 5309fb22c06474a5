"""The files of a run that a reader may open, and the kinds of content under which they do no harm."""

import os
import stat
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from paceline.record import layout

MOST_FILES = 200
"""Of one case; a benchmark that leaves more has a directory that nobody reads file by file."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file of a run; `name` is its path within the case's directory."""

    name: str
    path: Path
    size_bytes: int


def find_artifacts(entry: Path) -> list[Artifact]:
    """What a case's directory holds for readers; links that lead out of it are no files of the run."""
    return [] if entry.is_symlink() else list(islice(_walk(entry, entry, 1), MOST_FILES))


def _walk(entry: Path, directory: Path, depth: int) -> Iterator[Artifact]:
    for name in sorted(layout.names_in(directory)):
        path = directory / name
        inner = path.relative_to(entry)
        if name.startswith(".") or str(inner) in _LEFT_OUT or _is_earlier(entry, inner):
            continue
        if path.is_symlink() and not _is_kept_elsewhere(entry, inner):
            continue
        if path.is_dir():
            is_open = depth < _DEEPEST and os.access(path, os.R_OK | os.X_OK)
            yield from _walk(entry, path, depth + 1) if is_open else ()
        elif path.is_file() and os.access(path, os.R_OK):
            with suppress(FileNotFoundError):  # of a case that runs, it may go away at any moment
                yield _artifact(path, inner)


def _artifact(path: Path, inner: Path) -> Artifact:
    # A name on disk may be of any bytes, one on a page is text.
    shown = os.fsencode(inner).decode("utf-8", "replace")
    return Artifact(name=shown, path=path, size_bytes=path.stat().st_size)


def _is_earlier(entry: Path, inner: Path) -> bool:
    """Whether this is the directory of a run before the last one, or of an attempt that was moved aside."""
    below_attempts = inner.parts[0] == layout.ATTEMPTS and len(inner.parts) == 2
    return below_attempts and inner.name != layout.last_run_label(entry)


def _is_kept_elsewhere(entry: Path, inner: Path) -> bool:
    """Whether a link is that of ours to where `artifacts_dir` has the logs of this very case."""
    ours = Path(entry.parent.name, entry.name, inner)
    target = Path(os.path.realpath(entry / inner))
    return inner.name == layout.LOGS and target.parts[-len(ours.parts) :] == ours.parts


def open_artifact(path: Path) -> BinaryIO:
    """Open a file that was found; a link or a pipe that has taken its place since is refused."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no file any more")
    return os.fdopen(descriptor, "rb")


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


def read_ending(path: Path) -> str:
    """The ending for a file on disk."""
    with open_artifact(path) as file:
        return safe_ending(file.read(BEGINNING))
