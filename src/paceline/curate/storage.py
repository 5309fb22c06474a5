"""Places for files, local or behind fsspec: what is there, reading, writing whole files, removing."""

import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast
from uuid import uuid4

from paceline.curate.errors import PipelineError
from paceline.errors import MissingExtra, PacelineError, needs_extra

# What is read ahead of a remote file: little after a range, of which only the end of a line is needed; more of a
# stream. The defaults of object stores are tens of megabytes, many times a range.
AHEAD_BYTES = 65_536
STREAM_BYTES = 8 * 1_048_576
_DRAFT = re.compile(r"\..+\.[0-9a-f]{32}")


def is_remote(path: str) -> bool:
    """Whether a path is an address."""
    return "://" in path


class _Asking:
    """Names the place in whatever its file system raises: each kind has errors of its own."""

    def __init__(self, path: str, what: str) -> None:
        self.path, self.what = path, what

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, PacelineError):
            said = str(error).strip() or type(error).__name__
            raise PipelineError(f"{self.path}: cannot be {self.what}: {said.splitlines()[0]}") from error


def filesystem(path: str) -> tuple[Any, str]:
    """The fsspec file system of an address, and the path in it."""
    with needs_extra("curate", f"reading {path}"):
        import fsspec
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(path)
    except ImportError as error:
        if path.startswith("s3"):
            raise MissingExtra(f"reading {path}", "s3") from None
        raise PipelineError(f"{path}: {error}") from error
    except ValueError as error:
        raise PipelineError(f"{path}: {error}") from error
    return found


def is_directory(path: str) -> bool:
    """Whether there is a local directory; remote ones exist by the files in them."""
    return not is_remote(path) and Path(path).is_dir()


def find(path: str) -> list[tuple[str, int]]:
    """Every file at or below a path with its size, in a fixed order; nothing if there is no such place."""
    if is_remote(path):
        return _find_remote(path)
    here = Path(path)
    if here.is_file():
        return [(path, here.stat().st_size)]
    return [(str(file), file.stat().st_size) for file in sorted(here.rglob("*")) if file.is_file()]


def _find_remote(path: str) -> list[tuple[str, int]]:
    system, inside = filesystem(path)
    with _Asking(path, "listed"):
        # Other processes write too.
        system.invalidate_cache()
        try:
            found = system.find(inside, detail=True)
        except FileNotFoundError:
            return []
        if not found and system.isfile(inside):
            found = {inside: system.info(inside)}
    root = inside.rstrip("/")
    # Found names lack the protocol, and may be spelled otherwise than what was asked for.
    return [
        (path.rstrip("/") + name.removeprefix(root), int(found[name].get("size") or 0))
        for name in sorted(found)
    ]


def open_raw(path: str, *, ahead_bytes: int = STREAM_BYTES) -> IO[bytes]:
    """A file as it lies there; of a remote one, this much is fetched beyond what is asked for."""
    if not is_remote(path):
        return Path(path).open("rb")
    system, inside = filesystem(path)
    raw = system.open(inside, "rb", block_size=ahead_bytes, cache_type="readahead")
    # Its own `readline` knows no bound.
    return cast(IO[bytes], io.BufferedReader(raw, AHEAD_BYTES))


def open_bytes(path: str, *, ahead_bytes: int = STREAM_BYTES) -> IO[bytes]:
    """A local or remote file, unpacked if compressed."""
    raw = open_raw(path, ahead_bytes=ahead_bytes)
    if path.endswith(".gz"):
        unpacked: Any = gzip.GzipFile(fileobj=raw)
        # So it closes the file below when it is closed.
        unpacked.myfileobj = raw
        return cast(IO[bytes], unpacked)
    if path.endswith(".zst"):
        return _open_zstd(raw, path)
    return raw


def _open_zstd(raw: IO[bytes], path: str) -> IO[bytes]:
    with needs_extra("curate", f"reading {path}"):
        import zstandard
    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=True)
    return cast(IO[bytes], io.BufferedReader(reader))


def pack(content: bytes, path: str) -> bytes:
    """The content as the path's suffix says."""
    if path.endswith(".gz"):
        return gzip.compress(content, compresslevel=1, mtime=0)
    if path.endswith(".zst"):
        with needs_extra("curate", f"writing {path}"):
            import zstandard
        return zstandard.ZstdCompressor(level=1).compress(content)
    return content


def put(path: str, content: bytes) -> None:
    """A file that appears whole or not at all; it replaces one of that name."""
    if is_remote(path):
        system, inside = filesystem(path)
        with _Asking(path, "written"):
            system.pipe_file(inside, content)
        return
    target = draft(Path(path))
    target.write_bytes(content)
    target.rename(path)


def draft(path: Path) -> Path:
    """A hidden name beside a file that is being written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{uuid4().hex}")


def drafts(path: str) -> Iterator[str]:
    """What writers that were killed left below a path; remote files have no drafts."""
    if not is_remote(path):
        yield from (str(file) for file in Path(path).rglob(".*") if _DRAFT.fullmatch(file.name))


def read_if_there(path: str) -> bytes | None:
    """The content of a small file."""
    if not is_remote(path):
        here = Path(path)
        return here.read_bytes() if here.is_file() else None
    system, inside = filesystem(path)
    with _Asking(path, "read"):
        try:
            content: bytes = system.cat_file(inside)
        except FileNotFoundError:
            return None
    return content


def remove(path: str) -> None:
    """Take a file away, if it is there."""
    if not is_remote(path):
        Path(path).unlink(missing_ok=True)
        return
    system, inside = filesystem(path)
    with _Asking(path, "removed"):
        try:
            system.rm_file(inside)
        except FileNotFoundError:
            return
