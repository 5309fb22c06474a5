"""Files between the driver and a node: what a case needs goes out, what it left comes back.

What comes back is messages of Ray's, not an archive. The ten or so small files of a case take 1.1 ms that way, both
ends counted; tarfile with `filter="data"` takes 5 ms, or 3 ms if it looks up no owners.
"""

import io
import os
import re
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import chain, groupby
from pathlib import Path, PurePath

from paceline.model import RUN_DIR, Case
from paceline.numbers import size
from paceline.record import below
from paceline.record.layout import ATTEMPTS, DATA_SETUP, LOGS, OUTPUT, RAY_CLUSTER, RECORD, RESULTS
from paceline.record.redact import RedactedStream, Redactor

# Made by tools, never read by a benchmark, and often larger than all the rest.
NEVER_SHIPPED = (
    ".git",
    ".hg",
    ".svn",
    ".venv",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    ".ipynb_checkpoints",
    "__pycache__",
    "node_modules",
)
PIECE_BYTES = 1 << 20
TAIL_BYTES = 1 << 14
Locate = Callable[[str], tuple[Path, str]]
"""From a name in a case's directory to the root and the name below it where that file lies."""
# Written at home, and by nobody else.
_OURS = frozenset({RECORD, RESULTS})
_MASKED = frozenset({LOGS, RAY_CLUSTER})


class TooMuch(Exception):
    """A directory is larger than may be shipped; the message is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A directory that a case needs; `inode` and `script` tell whether a node sees the very same one."""

    path: str
    inode: int
    script: tuple[str, int, int] | None = None


def find_roots(case: Case, cwd: str, session_dir: Path, files: Sequence[str] = ()) -> list[Root]:
    """The directories of a case's script, its working directory, and of what other cases of the session made."""
    made = re.compile(re.escape(str(session_dir)) + rf"/(?:{DATA_SETUP}/)?[^/\s:,;]+")
    texts = (*case.argv, *case.env.values(), case.cwd or "")
    wanted = [*files, *(name for text in texts for name in made.findall(text))]
    if RUN_DIR not in cwd:
        wanted.append(cwd)
    if case.script:
        wanted.append(str(Path(case.script).parent))
    existing = dict.fromkeys(path for path in map(os.path.abspath, wanted) if Path(path).is_dir())
    roots = []
    for path in existing:
        if any(_covers(other, path, session_dir) for other in existing):
            continue
        script = None
        if case.script and PurePath(case.script).is_relative_to(path):
            stat = Path(case.script).stat()
            script = (case.script, stat.st_size, stat.st_mtime_ns)
        roots.append(Root(path=path, inode=Path(path).stat().st_ino, script=script))
    return roots


def _covers(outer: str, path: str, session_dir: Path) -> bool:
    """Whether shipping one directory ships the other too."""
    if outer == path or not PurePath(path).is_relative_to(outer):
        return False
    inside = PurePath(path).relative_to(outer).parts
    in_results = PurePath(path).is_relative_to(session_dir.parent)
    return not in_results and not any(part in NEVER_SHIPPED for part in inside)


def sees(root: Root, marker: str) -> bool:
    """Whether this machine has the same file system: the marker, the directory itself and the script unchanged."""
    try:
        if not Path(marker).exists() or Path(root.path).stat().st_ino != root.inode:
            return False
        if root.script is None:
            return True
        stat = Path(root.script[0]).stat()
        return (stat.st_size, stat.st_mtime_ns) == root.script[1:]
    except OSError:
        return False


def pack(
    root: str, *, limit_bytes: int, exclude: Sequence[str] = (), leave_out: Collection[Path] = ()
) -> bytes:
    """A directory as an archive; `leave_out` are directories of results, of which nothing is shipped by the way."""
    total, sizes = 0, dict[str, int]()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for path in _files(root, (*NEVER_SHIPPED, *exclude), leave_out):
            relative = path.relative_to(root)
            own_bytes = path.stat().st_size if path.is_file() and not path.is_symlink() else 0
            sizes[relative.parts[0]] = sizes.get(relative.parts[0], 0) + own_bytes
            total += own_bytes
            if total > limit_bytes:
                raise TooMuch(
                    f"{root} has more than {size(limit_bytes)} to be copied to a node, "
                    f"most of it in {max(sizes, key=lambda name: sizes[name])}: name it in `pool.exclude`, "
                    "give the entry a smaller `cwd`, or raise `pool.ship_limit`"
                )
            with suppress(FileNotFoundError):  # gone since
                archive.add(path, str(relative), recursive=False)
    return packed.getvalue()


def _files(root: str, exclude: Sequence[str], leave_out: Collection[Path]) -> Iterator[Path]:
    """Directories too, since an empty one may be what a script writes to; links out of the tree stay behind."""
    real = os.path.realpath(root)
    for directory, names, files in os.walk(root):
        here = Path(directory)
        names[:] = [name for name in names if here / name not in leave_out]
        names[:], files[:] = (
            [name for name in found if not any(fnmatch(name, pattern) for pattern in exclude)]
            for found in (names, files)
        )
        for path in (here / name for name in (*names, *files)):
            if path.is_symlink():
                is_inside = PurePath(os.path.realpath(path)).is_relative_to(real)
                is_wanted = is_inside and not path.readlink().is_absolute()
            else:
                is_wanted = path.is_dir() or path.is_file()
            if is_wanted:
                yield path


def relocated(case: Case, places: Mapping[str, str]) -> Case:
    """The case with directories of ours, and the interpreter, as the node has them."""
    if not places:
        return case
    move = mover(places)
    return replace(
        case,
        script=case.script and move(case.script),
        argv=tuple(move(word) for word in case.argv),
        env={name: move(value) for name, value in case.env.items()},
        cwd=case.cwd and move(case.cwd),
        results_path=move(case.results_path),
    )


def mover(places: Mapping[str, str]) -> Callable[[str], str]:
    """Replaces paths in texts, whole ones and the beginnings of longer ones; the longest known one wins."""
    longest_first = sorted(places, key=len, reverse=True)
    known = "|".join(re.escape(path.rstrip("/")) for path in longest_first)
    pattern = re.compile(rf"(?<![\w./~-])(?:{known})(?=/|$|[\s:;,'\"\])}}])")
    by_name = {path.rstrip("/"): place for path, place in places.items()}
    return lambda text: pattern.sub(lambda found: by_name[found[0]], text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A link, a directory, or some of the bytes of a file, which has a mode; the pieces of a file follow each other."""

    name: str
    link: str | None = None
    mode: int | None = None
    data: bytes = b""


def pieces_of(directory: str, prefix: str = "") -> Iterator[Piece]:
    """Everything in a case's directory but sockets and the like."""
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = prefix + entry.name
        with suppress(FileNotFoundError, PermissionError):
            if entry.is_symlink():
                yield Piece(name=name, link=str(Path(entry.path).readlink()))
            elif entry.is_dir():
                yield Piece(name=name)
                yield from pieces_of(entry.path, f"{name}/")
            elif entry.is_file():
                mode = entry.stat().st_mode & 0o777
                with Path(entry.path).open("rb") as source:
                    yield Piece(name=name, mode=mode, data=source.read(PIECE_BYTES))
                    while data := source.read(PIECE_BYTES):
                        yield Piece(name=name, mode=mode, data=data)


def put_down(pieces: Iterable[Piece], locate: Locate, redactor: Redactor) -> list[str]:
    """Write what a case left, with secrets masked in its logs; the names of what was left behind.

    The pieces come from a machine that ran a user's program: nothing of it may land outside of the directory, so
    names and links that lead out of it, and anything behind a link, are left behind.
    """
    left: list[str] = []
    for name, group in groupby(pieces, key=lambda piece: piece.name):
        pieces_of_one = iter(group)
        first = next(pieces_of_one)
        fault = ""
        if first.link is not None and not _stays_below(first.link):
            fault = "leads out of the directory"
        elif name not in _OURS:
            try:
                _write(first, chain([first], pieces_of_one), *locate(name), redactor)
            except OSError as error:  # a full disk, a name that is taken or leads elsewhere
                fault = error.strerror or str(error)
        if fault:
            left.append(f"{name} ({fault})")
    return left


def _stays_below(target: str) -> bool:
    """Whether a link leads downwards: with `..`, links that follow each other come to any place."""
    return not target.startswith("/") and ".." not in target.split("/")


def _write(first: Piece, pieces: Iterable[Piece], root: Path, name: str, redactor: Redactor) -> None:
    if first.link is not None:
        below.link(root, name, first.link)
        return
    if first.mode is None:
        below.make_dir(root, name)
        return
    is_log = not _MASKED.isdisjoint(first.name.split("/")[:-1])
    stream = redactor.stream() if redactor and is_log else None
    with below.open_atomic(root, name, durable=False, mode=0o777 if first.mode & 0o100 else 0o666) as write:
        for piece in pieces:
            write(piece.data if stream is None else stream.feed(piece.data))
        if stream is not None:
            write(stream.flush())


class LiveLog:
    """The output of a case that runs elsewhere, as far as it has come, in the files where all of it will be."""

    def __init__(self, locate: Locate, redactor: Redactor) -> None:
        self._locate = locate
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
            fd = below.open_below(*self._locate(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                below.write_all(fd, data)
            finally:
                os.close(fd)

    def tail(self, count: int) -> list[str]:
        """The last lines so far."""
        lines = self._end.decode("utf-8", "replace").removesuffix("\n").split("\n") if self._end else []
        return [line.rstrip("\r").rpartition("\r")[2] for line in lines[-count:]] if count > 0 else []


def new_output(entry_dir: Path, seen: dict[str, int], limit_bytes: int) -> dict[str, bytes]:
    """What was added to a running case's logs since `seen`, of each of its runs."""
    found: dict[str, bytes] = {}
    runs = [f"{ATTEMPTS}/{label}/" for label in below.names(entry_dir, ATTEMPTS)]
    for name in (f"{run}{LOGS}/{OUTPUT}" for run in ("", *runs)):
        with suppress(OSError), below.open_file(entry_dir, name) as file:
            file.seek(seen.get(name, 0))
            if chunk := file.read(limit_bytes):
                found[name] = chunk
    return found
