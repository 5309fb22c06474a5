"""What a case needs on a node that does not share our file system: which directories, packed and put down there."""

import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path, PurePath

from paceline.model import RUN_DIR, Case
from paceline.record.layout import DATA_SETUP
from paceline.run.ray.boot import extract

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
MARKER_PREFIX = ".pool-"


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
    wanted = [*files, *_session_parts(case, session_dir)]
    if RUN_DIR not in cwd:
        wanted.append(cwd)
    if case.script:
        wanted.append(str(Path(case.script).parent))
    existing = dict.fromkeys(path for path in map(os.path.abspath, wanted) if Path(path).is_dir())
    outer = [path for path in existing if not any(_covers(other, path, session_dir) for other in existing)]
    return [_root(path, case.script) for path in outer]


def _root(path: str, script: str | None) -> Root:
    mark = None
    if script and PurePath(script).is_relative_to(path):
        stat = Path(script).stat()
        mark = (script, stat.st_size, stat.st_mtime_ns)
    return Root(path=path, inode=Path(path).stat().st_ino, script=mark)


def _session_parts(case: Case, session_dir: Path) -> Iterator[str]:
    """The directories of cases and data set-ups that a case's texts name."""
    pattern = re.compile(re.escape(str(session_dir)) + rf"/((?:{DATA_SETUP}/)?[^/\s:,;]+)")
    for text in (*case.argv, *case.env.values(), case.cwd or ""):
        for found in pattern.finditer(text):
            yield str(session_dir / found[1])


def _covers(outer: str, path: str, session_dir: Path) -> bool:
    """Whether shipping one directory ships the other too."""
    if outer == path or not PurePath(path).is_relative_to(outer):
        return False
    inside = PurePath(path).relative_to(outer).parts
    in_results = PurePath(path).is_relative_to(session_dir.parent)
    return not in_results and not any(part in NEVER_SHIPPED for part in inside)


def sees(root: Root, marker: str, token: str) -> bool:
    """Whether this machine has the same file system: the marker, the directory itself and the script unchanged."""
    try:
        if Path(marker).read_text() != token or Path(root.path).stat().st_ino != root.inode:
            return False
        if root.script is not None:
            stat = Path(root.script[0]).stat()
            return (stat.st_size, stat.st_mtime_ns) == root.script[1:]
    except (OSError, UnicodeDecodeError):
        return False
    return True


def pack(
    root: str, *, limit_bytes: int, exclude: Sequence[str] = (), leave_out: Collection[Path] = ()
) -> bytes:
    """A directory as an archive; `leave_out` are directories of results, of which nothing is shipped by the way."""
    total = 0
    sizes: dict[str, int] = {}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for path, relative in _files(root, (*NEVER_SHIPPED, *exclude), leave_out):
            size = path.stat().st_size if path.is_file() and not path.is_symlink() else 0
            top = PurePath(relative).parts[0]
            sizes[top] = sizes.get(top, 0) + size
            total += size
            if total > limit_bytes:
                raise TooMuch(_too_much(root, limit_bytes, sizes))
            with suppress(FileNotFoundError):  # gone since
                archive.add(path, relative, recursive=False)
    return packed.getvalue()


def _too_much(root: str, limit_bytes: int, sizes: Mapping[str, int]) -> str:
    largest = max(sizes, key=lambda name: sizes[name])
    return (
        f"{root} has more than {limit_bytes / (1 << 20):.3g} MiB to be copied to a node, most of it in {largest}: "
        "name it in `pool.exclude`, give the entry a smaller `cwd`, or raise `pool.ship_limit`"
    )


def _files(root: str, exclude: Sequence[str], leave_out: Collection[Path]) -> Iterator[tuple[Path, str]]:
    """Directories too, since an empty one may be what a script writes to; links out of the tree stay behind."""
    real = os.path.realpath(root)
    for directory, names, files in os.walk(root):
        here = Path(directory)
        names[:] = [
            name for name in names if not _is_excluded(name, exclude) and here / name not in leave_out
        ]
        for name in (*names, *files):
            path = here / name
            if _is_excluded(name, exclude) or (path.is_symlink() and not _stays_inside(path, real)):
                continue
            if path.is_symlink() or path.is_dir() or path.is_file():
                yield path, str(path.relative_to(root))


def _is_excluded(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _stays_inside(link: Path, root: str) -> bool:
    return not link.readlink().is_absolute() and PurePath(os.path.realpath(link)).is_relative_to(root)


def put_down(archive: bytes, target: Path) -> None:
    """Unpack what `pack` made; in whole, or not at all."""
    new = target.with_name(f"{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    extract(archive, new)
    new.rename(target)


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
