"""The files of a case in one archive, and back. Names in a store and in its archives are data of others."""

import os
import tarfile
import unicodedata
from collections.abc import Iterator
from gzip import GzipFile
from pathlib import Path
from typing import IO

from paceline.record import below, codec, layout
from paceline.record.below import is_temporary
from paceline.record.files import write_atomic
from paceline.record.layout import ATTEMPTS, LOGS, OUTPUT, RECORD
from paceline.record.remote.object_store import StoreError

ARCHIVE = "files.tar.gz"


class UnsafeName(StoreError):
    """The name of an object, or of a member of an archive, is not that of a file below."""


def entry_of(name: str) -> str:
    """The entry's directory in the name of one of a session's files; empty for the session's own files."""
    parts = name.split("/")
    depth = 2 if parts[0] == layout.DATA_SETUP else 1
    return "/".join(parts[:depth]) if len(parts) > depth else ""


def inside(directory: Path, name: str, *others: Path) -> Path:
    """The path of an object or an archive's member below a directory, or below others that its links lead to."""
    if not is_plain(name) or not _is_below(directory / name, directory, *others):
        raise UnsafeName(f"{name!r} does not name a file below {directory}: it is refused")
    return directory / name


def is_plain(name: str) -> bool:
    """Whether a name leads to something below, and has nothing in it that a terminal would obey."""
    return not {"", ".", ".."} & {*name.split("/")} and "Cc" not in map(unicodedata.category, name)


def _is_below(path: Path, *directories: Path) -> bool:
    return any(Path(os.path.realpath(path)).is_relative_to(os.path.realpath(one)) for one in directories)


def entry_files(entry: Path, artifacts_dir: Path | None, below: str = "") -> Iterator[tuple[str, Path]]:
    """The files of a case, each with its name in the case's directory.

    Scratch data stay here. Of links, those to files of the same case become files, but for the one to the output, and
    those of ours into `artifacts_dir` are followed; others may lead anywhere and are left out.
    """
    for directory, inner, names in os.walk(
        entry / below
    ):  # What may not be read, a container's, is left out.
        for item in sorted((*inner, *names)):
            path = Path(directory, item)
            name = path.relative_to(entry).as_posix()
            parts = name.split("/")
            while len(parts) > 2 and parts[0] == ATTEMPTS:
                parts = parts[2:]
            in_run = "/".join(parts)
            if in_run == layout.SCRATCH or is_temporary(item) or not is_plain(name):
                inner[:] = {*inner} - {item}
            elif path.is_symlink() and path.is_dir():
                if artifacts_dir and in_run in (LOGS, layout.RAY_CLUSTER) and _is_below(path, artifacts_dir):
                    yield from entry_files(entry, artifacts_dir, name)
            elif path.is_symlink() and (in_run == OUTPUT or not _is_below(path, entry)):
                continue
            elif path.is_file() and os.access(path, os.R_OK):
                yield name, path


def pack(entry: Path, artifacts_dir: Path | None, target: IO[bytes]) -> None:
    """Write a case's files as an archive; quickly, as benchmarks may be running."""
    with (
        GzipFile(fileobj=target, mode="wb", compresslevel=1, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for name, path in entry_files(entry, artifacts_dir):
            with path.open("rb") as file:
                member = tarfile.TarInfo(name)
                member.size = os.fstat(file.fileno()).st_size
                archive.addfile(member, file)


def unpack(packed: Path, entry: Path, artifacts_dir: Path | None) -> None:
    """Put down what is not here yet, and the record if it is that of a later attempt."""
    try:
        with tarfile.open(packed, "r:gz") as archive:
            for member in archive:
                path = inside(entry, member.name, *([artifacts_dir] if artifacts_dir else []))
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    raise UnsafeName(
                        f"{member.name!r} in the archive of {entry.name} is refused: it is not a file"
                    )
                Path(os.path.realpath(path.parent)).mkdir(parents=True, exist_ok=True)
                if member.name == RECORD:
                    # It may be newer than the one in the store, which is sent after the archive.
                    record, here = content.read(), codec.read_record(path)
                    if here is None or codec.from_json(codec.load(record)).attempt > here.attempt:
                        write_atomic(path, record)
                elif not path.exists():
                    with below.open_atomic(path.parent, path.name, durable=False) as write:
                        while chunk := content.read(1 << 20):
                            write(chunk)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise StoreError(f"the archive of {entry.name} is damaged: {error}") from error
