"""What a case left in its directory on a node, as an archive, and put down in the session's directory at home.

An archive is a line of JSON for each directory, link and file; that of a file is followed by its bytes in chunks, each
behind its length. (The standard library's archives take several times as long for the few small files of a case.)
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from paceline.record.layout import LOGS, OUTPUT, RAY_CLUSTER, RECORD, RESULTS
from paceline.record.redact import RedactedStream, Redactor

CHUNK_BYTES = 1 << 20
LENGTH_BYTES = 4
TAIL_BYTES = 1 << 14
# Written at home, and by nobody else.
_OURS = frozenset({RECORD, RESULTS})
_MASKED = frozenset({LOGS, RAY_CLUSTER})


class Output(Protocol):
    """What an archive can be written to."""

    def write(self, data: bytes, /) -> object: ...


def pack_entry(entry_dir: Path, target: Output) -> None:
    """Everything in a directory but sockets and the like."""
    for entry, name in _walk(str(entry_dir), ""):
        with suppress(FileNotFoundError, PermissionError):
            if entry.is_symlink():
                _put_head(target, name, link=str(Path(entry.path).readlink()))
            elif entry.is_dir():
                _put_head(target, name, is_dir=True)
            elif entry.is_file():
                with Path(entry.path).open("rb") as source:
                    _put_head(target, name, mode=entry.stat().st_mode & 0o777)
                    _put_content(target, source)


def _walk(directory: str, prefix: str) -> Iterator[tuple[os.DirEntry[str], str]]:
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        yield entry, prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, f"{prefix}{entry.name}/")


def _put_head(target: Output, name: str, **facts: Any) -> None:
    target.write(json.dumps({"name": name, **facts}).encode() + b"\n")


def _put_content(target: Output, source: IO[bytes]) -> None:
    while chunk := source.read(CHUNK_BYTES):
        target.write(len(chunk).to_bytes(LENGTH_BYTES, "big") + chunk)
    target.write(bytes(LENGTH_BYTES))


def unpack_entry(archive: IO[bytes], entry_dir: Path, redactor: Redactor) -> list[str]:
    """Put an archive down with secrets masked in its logs; the names of what was left behind.

    The archive comes from a machine that ran a user's program: nothing of it may land outside of the directory, so
    links that lead out of it, names that do, and anything behind a link are left behind.
    """
    left: list[str] = []
    links: set[str] = set()
    while line := archive.readline():
        head = json.loads(line)
        name = head["name"]
        content = _content(archive) if "mode" in head else iter(())
        fault = "" if _is_safe(head, links) else "leads out of the directory"
        if not fault and name not in _OURS:
            fault = _put_down(head, content, entry_dir / name, redactor)
        if fault:
            left.append(f"{name} ({fault})")
        if "link" in head:
            links.add(name)
        for _ in content:  # of a file that was not wanted, or could not be written
            continue
    return left


def _is_safe(head: dict[str, Any], links: set[str]) -> bool:
    name = PurePosixPath(head["name"])
    if name.is_absolute() or ".." in name.parts or not name.parts:
        return False
    if links and any(str(parent) in links for parent in name.parents):
        return False
    if "link" not in head:
        return True
    target = os.path.normpath(name.parent / head["link"])
    return not PurePosixPath(head["link"]).is_absolute() and not target.startswith("..")


def _put_down(head: dict[str, Any], content: Iterator[bytes], target: Path, redactor: Redactor) -> str:
    """Make what the head says; why not, if it cannot be: a full disk, a name that is taken."""
    try:
        if "link" in head:
            target.unlink(missing_ok=True)
            target.symlink_to(head["link"])
        elif "mode" not in head:
            target.mkdir(exist_ok=True)
        else:
            _write(head, content, target, redactor)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _write(head: dict[str, Any], content: Iterator[bytes], target: Path, redactor: Redactor) -> None:
    is_log = not _MASKED.isdisjoint(head["name"].split("/")[:-1])
    stream = redactor.stream() if redactor and is_log else None
    if target.is_symlink():
        target.unlink()
    with target.open("wb") as file:
        for chunk in content:
            file.write(chunk if stream is None else stream.feed(chunk))
        if stream is not None:
            file.write(stream.flush())
    if head["mode"] & 0o100:
        target.chmod(target.stat().st_mode | 0o111)


def _content(archive: IO[bytes]) -> Iterator[bytes]:
    """The chunks of a file."""
    while size := int.from_bytes(archive.read(LENGTH_BYTES), "big"):
        yield archive.read(size)


class LiveLog:
    """The output of a case that runs elsewhere, as far as it has come, in the files where all of it will be."""

    def __init__(self, entry_dir: Path, redactor: Redactor) -> None:
        self._entry_dir = entry_dir
        self._redactor = redactor
        self._streams: dict[str, RedactedStream] = {}
        self._end = b""
        self.seen: dict[str, int] = {}

    def add(self, path: str, chunk: bytes) -> None:
        """More of one of its logs; OSError never comes of it, since the whole log follows."""
        stream = self._streams.setdefault(path, self._redactor.stream())
        self.seen[path] = self.seen.get(path, 0) + len(chunk)
        data = stream.feed(chunk)
        self._end = (self._end + data)[-TAIL_BYTES:]
        with suppress(OSError):
            target = self._entry_dir / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as file:
                file.write(data)

    def tail(self, count: int) -> list[str]:
        """The last lines so far."""
        lines = self._end.decode("utf-8", "replace").removesuffix("\n").split("\n") if self._end else []
        return [line.rstrip("\r").rpartition("\r")[2] for line in lines[-count:]] if count > 0 else []


def new_output(entry_dir: Path, seen: dict[str, int], limit_bytes: int) -> dict[str, bytes]:
    """What was added to a running case's logs since `seen`, of each of its runs."""
    found: dict[str, bytes] = {}
    for path in (entry_dir / LOGS / OUTPUT, *sorted(entry_dir.glob(f"attempts/*/{LOGS}/{OUTPUT}"))):
        name = str(path.relative_to(entry_dir))
        with suppress(OSError), path.open("rb") as file:
            file.seek(seen.get(name, 0))
            if chunk := file.read(limit_bytes):
                found[name] = chunk
    return found
