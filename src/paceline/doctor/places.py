"""Where results, the history and caches are, whether they can be written, how much room there is, what is in them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.doctor.machine import Machine, Remark, remark
from paceline.errors import PacelineError
from paceline.numbers import size

if TYPE_CHECKING:
    from paceline.history.urls import Target

LITTLE_ROOM = 2 << 30
FEW_INODES = 10_000
PROBE_BYTES = 4096
# SQLite relies on locks and shared memory that these do not have, or have only nearly.
REMOTE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "lustre", "vboxsf"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A directory (or a URL) that a command writes to; `fix` is how to choose another."""

    name: str
    where: Path | str
    fix: str
    for_sqlite: bool = False


def look(machine: Machine, places: tuple[Place, ...]) -> Iterator[Remark]:
    for place in places:
        if isinstance(place.where, Path):
            yield from _directory(machine, place, place.where)
        elif find_spec("s3fs") is None and place.where.startswith("s3://"):
            meaning = "an object store needs a package that is not installed"
            yield remark(place.name, "fail", place.where, meaning, "pip install 'paceline[s3]'")
        else:
            meaning = "in an object store, which is not asked here: the command tries it"
            fix = f"paceline list --results-dir {place.where}"
            yield remark(place.name, "note", place.where, meaning, fix)


def _directory(machine: Machine, place: Place, path: Path) -> Iterator[Remark]:
    nearest = nearest_directory(path)
    fault = write_fault(nearest)
    if fault:
        value = f"{path} ({fault})"
        yield remark(place.name, "fail", value, f"{nearest} cannot be written to", place.fix)
        return
    made = "" if path.is_dir() else ", will be made"
    free, inodes = _room(nearest)
    value = f"{path} ({size(free)} free{made})"
    if free < LITTLE_ROOM or inodes < FEW_INODES:
        what = "room" if free < LITTLE_ROOM else f"files left ({inodes:,})"
        yield remark(place.name, "warn", value, f"there is little {what}", place.fix)
    else:
        yield remark(place.name, "ok", value, "can be written to")
    kind = file_system(machine, nearest)
    if place.for_sqlite and kind in REMOTE_SYSTEMS:
        meaning = "SQLite's locks do not hold on it when two machines write"
        fix = "keep the history on a local disk, or in PostgreSQL: --db postgresql://USER@HOST/DATABASE"
        yield remark(f"{place.name} disk", "warn", kind, meaning, fix)


def nearest_directory(path: Path) -> Path:
    """The directory itself, or the one in which it would be made first."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
    return next(parent for parent in (absolute, *absolute.parents) if os.path.isdir(parent))  # noqa: PTH112


def write_fault(directory: Path) -> str:
    """Why no file can be written there; empty if one can. Leaves nothing behind."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"\0" * PROBE_BYTES)
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _room(directory: Path) -> tuple[int, int]:
    """Free bytes and files; plenty where the file system counts none."""
    system = os.statvfs(directory)
    return shutil.disk_usage(directory).free, system.f_favail if system.f_files else FEW_INODES


def file_system(machine: Machine, path: Path) -> str:
    """The kind of file system a path is on; empty where the system does not say."""
    best, kind = "", ""
    for line in machine.read("proc/self/mountinfo").splitlines():
        head, _, tail = line.partition(" - ")
        fields = head.split()
        if len(fields) > 4 and tail and path.is_relative_to(mount := fields[4].replace("\\040", " ")):
            # Of two mounts in one place the later one is seen.
            best, kind = (mount, tail.split()[0]) if len(mount) >= len(best) else (best, kind)
    return kind


def look_at_history(url: str) -> Iterator[Remark]:
    """Whether its database opens, its schema, what is in it; it is only read. The first run makes one."""
    from paceline.history.urls import parse_target

    try:
        target = parse_target(url)
        if target.path is not None and not target.path.exists():
            value = f"{target} is not there yet"
            yield remark("database", "note", value, "the first run makes it", "paceline run")
            return
        yield from _contents(target)
    except PacelineError as error:
        what, _, fix = str(error).splitlines()[0].rpartition(": ")
        meaning = "the history cannot be used, so nothing is remembered"
        yield remark("database", "fail", what or fix, meaning, fix if what else "")


def _contents(target: "Target") -> Iterator[Remark]:
    from paceline.history.store.database import connect
    from paceline.history.store.migrate import is_current, stored_revision
    from paceline.history.store.schema import HEAD

    database = connect(target, create=False, read_only=True)
    try:
        stored = stored_revision(database)
        current = is_current(database)
        yield remark("database", "ok", str(target), "opens")
        if stored is None:
            yield remark("schema", "note", "no tables yet", "the first run makes them", "paceline run")
            return
        meaning = "the newest" if current else f"brought to {HEAD} by the next command that writes"
        yield remark("schema", "ok" if current else "note", stored, meaning)
        with database.reading():
            sessions, records = (
                database.rows(f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608 - names of our own
                for table in ("session", "record")
            )
        yield remark("contents", "ok", f"{sessions:,} sessions, {records:,} records", "what is remembered")
    finally:
        database.close()
