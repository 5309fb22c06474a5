"""The files of a case in one archive, and back. Names in a store and in its archives are data of others."""

import os
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from gzip import BadGzipFile, GzipFile
from pathlib import Path
from stat import S_ISLNK
from typing import IO

from paceline.record import below, codec, layout
from paceline.record.layout import ATTEMPTS, LOGS, OUTPUT, RECORD
from paceline.record.remote.object_store import StoreError

ARCHIVE = "files.tar.gz"
MOST_MEMBERS, MOST_BYTES = 100_000, 64 << 30


class UnsafeName(StoreError):
    """The name of an object, or of a member of an archive, is not that of a file below."""


def entry_of(name: str) -> str:
    """The entry's directory in the name of one of a session's files; empty for the session's own files."""
    parts = name.split("/")
    depth = 2 if parts[0] == layout.DATA_SETUP else 1
    return "/".join(parts[:depth]) if len(parts) > depth else ""


def _in_run(name: str) -> list[str]:
    """The parts of a file's name in the directory of the run that it belongs to."""
    parts = name.split("/")
    while len(parts) > 2 and parts[0] == ATTEMPTS:
        parts = parts[2:]
    return parts


def _stays_here(name: str) -> bool:
    return _in_run(name)[0] == layout.SCRATCH or below.is_temporary(name.rpartition("/")[2])


def entry_files(entry: Path, artifacts: Path | None) -> Iterator[tuple[str, Path, str]]:
    """The files of a case, each with its name in the case's directory, and the root and name where it is read.

    Scratch data stay here. Large things may lie in `artifacts`. A link to a file of the same case becomes a file, but
    for the one to the output; others may lead anywhere and are left out.
    """
    for name, status in below.walk(entry, links=True, skip=_stays_here):
        target = name
        if S_ISLNK(status.st_mode):
            target = posixpath.join(posixpath.dirname(name), below.read_link(entry, name))
            if _in_run(name) == [OUTPUT] or ".." in target.split("/") or not below.is_file(entry, target):
                continue
        yield name, entry, target
    for name, _ in below.walk(artifacts, skip=_stays_here) if artifacts else ():
        if _in_run(name)[0] in (LOGS, layout.RAY_CLUSTER):
            yield name, artifacts or entry, name


def pack(entry: Path, artifacts: Path | None, target: IO[bytes]) -> None:
    """Write a case's files as an archive; quickly, as benchmarks may be running."""
    with (
        GzipFile(fileobj=target, mode="wb", compresslevel=1, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for name, root, inner in entry_files(entry, artifacts):
            with suppress(PermissionError), below.open_file(root, inner) as file:  # A container's own stays.
                member = tarfile.TarInfo(name)
                member.size = os.fstat(file.fileno()).st_size
                archive.addfile(member, file)


def unpack(packed: Path, entry: Path, artifacts: Path | None) -> None:
    """Put down what is not here yet, and the record if it is that of a later attempt."""
    total = 0
    try:
        with below.open_given(packed) as file, tarfile.open(fileobj=file, mode="r:gz") as archive:
            for number, member in enumerate(archive):
                total += member.size
                if number >= MOST_MEMBERS or total > MOST_BYTES:
                    raise StoreError(f"the archive of {entry.name} is too large: it is not unpacked")
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    raise UnsafeName(
                        f"{member.name!r} in the archive of {entry.name} is refused: it is not a file"
                    )
                _put_down(member.name, content, entry, artifacts)
    except (tarfile.TarError, BadGzipFile, zlib.error, EOFError, ValueError) as error:
        raise StoreError(f"the archive of {entry.name} is damaged: {error}") from error
    except OSError as error:
        raise StoreError(f"the archive of {entry.name} is not unpacked: {error.strerror or error}") from error


def _put_down(name: str, content: IO[bytes], entry: Path, artifacts: Path | None) -> None:
    try:
        below.check_name(entry, name)
        is_large = artifacts is not None and _in_run(name)[0] in (LOGS, layout.RAY_CLUSTER)
        root = artifacts if artifacts and is_large else entry
        root.mkdir(parents=True, exist_ok=True)
        if name == RECORD:
            # It may be newer than the one in the store, which is sent after the archive.
            record, here = content.read(codec.MAX_RECORD_BYTES), codec.read_record(entry / RECORD)
            if here is None or codec.from_json(codec.load(record)).attempt > here.attempt:
                below.write(entry, RECORD, record)
        elif below.status(root, name) is None:
            with below.open_atomic(root, name, durable=False) as write:
                while chunk := content.read(1 << 20):
                    write(chunk)
    except below.Refused as error:
        raise UnsafeName(f"{name!r} does not name a file below {entry}: it is refused") from error
