"""The temporary directory of a Ray cluster: private, short enough for socket names, and gone after it."""

import fcntl
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from paceline.record.redact import Redactor
from paceline.run.local import leftovers

PREFIX = "paceline-ray-"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - not to create anything in
SOCKET_NAME_BYTES = 107
# What Ray and we append to the base for the longest of its sockets.
SOCKET_TAIL = f"/{PREFIX}12345678/r/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store.1"
COPY_BYTES = 1 << 20

_RAYLET_LINE = re.compile(rb" (\d+) \d+\] \(raylet\) ")
_PORT_TAKEN = b"Failed to start the grpc server"
_SEMAPHORE = re.compile(r"sem\.(?:obj|hdr)(\d+)-(\d+)")


class Home:
    """A directory that only this user can enter; Ray opens its own part in it to everybody."""

    def __init__(self, path: Path, owner: BinaryIO) -> None:
        self.path = path
        self.ray_dir = path / "r"
        self.token_path = path / "token"
        self._owner = owner

    @classmethod
    def create(cls, environ: Mapping[str, str], run_id: str) -> Self:
        """A new one, with an access token for the cluster in it; OSError if that cannot be."""
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=temporary_base(environ)))
        home = cls(path, _own(path, run_id))
        home.ray_dir.mkdir()
        home.token_path.touch(mode=0o600)
        home.token_path.write_text(secrets.token_hex(32))
        return home

    def names_taken_port(self) -> bool:
        """Whether the cluster's first process found its port taken; `ray start` gives up on it only much later."""
        logs = self.ray_dir.glob("session_2*/logs/gcs_server.err")
        return any(_PORT_TAKEN in log.read_bytes() for log in logs)

    def keep_logs(self, target: Path, redactor: Redactor) -> None:
        """Move Ray's logs to `target`, with secrets masked; sockets, packages and spilled objects stay behind."""
        for logs in sorted(self.ray_dir.glob("session_2*/logs")):
            for file in sorted(logs.rglob("*")):
                if file.is_file() and not file.is_symlink():
                    _move(file, target / file.relative_to(logs), redactor)

    def remove_semaphores(self) -> None:
        """Ray names those of compiled graphs after its raylet's pid and the time, and leaves them when it is killed."""
        logs = self.ray_dir.glob("session_2*/logs/raylet.out")
        with suppress(OSError):
            pids = {pid for log in logs if (pid := _raylet_pid(log))}
            since_ns = os.fstat(self._owner.fileno()).st_mtime_ns
            for file in SHARED_MEMORY.glob("sem.*") if pids else ():
                match = _SEMAPHORE.fullmatch(file.name)
                if match and int(match[1]) in pids and int(match[2]) >= since_ns:
                    file.unlink(missing_ok=True)

    def remove(self) -> str | None:
        """Remove it; what is left of it, if anything is."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._owner.close()
        return str(self.path) if self.path.exists() else None


def sweep_stale(environ: Mapping[str, str] | None = None) -> int:
    """Remove what clusters of runners left that were killed; how many there were."""
    found = list(homes(temporary_base(os.environ if environ is None else environ)))
    return sum(_remove_stale(path) for path in found)


def temporary_base(environ: Mapping[str, str]) -> Path:
    """The user's choice of temporary directory unless sockets in it would have too long a name."""
    chosen = environ.get("TMPDIR") or "/tmp"  # noqa: S108 - mkdtemp makes it safe
    too_long = len(os.fsencode(chosen)) + len(SOCKET_TAIL) > SOCKET_NAME_BYTES
    return Path("/tmp" if too_long else chosen)  # noqa: S108


def _own(path: Path, run_id: str) -> BinaryIO:
    """Leave word of who uses the directory; locked before it gets its name, so that nobody finds it unlocked."""
    new = path / "owner.new"
    owner = new.open("xb")
    fcntl.flock(owner, fcntl.LOCK_EX)
    owner.write(json.dumps({"pid": os.getpid(), "started": time.time(), "run_id": run_id}).encode())
    owner.flush()
    new.rename(path / "owner")
    return owner


def homes(place: Path) -> Iterator[Path]:
    """The directories of this user's clusters there."""
    with suppress(OSError):
        for path in place.glob(f"{PREFIX}*"):
            if path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid():
                yield path


def _remove_stale(path: Path) -> bool:
    """The lock tells, not the pid: it is freed with its holder, and seen from other containers too."""
    try:
        owner = (path / "owner").open("rb")
    except OSError:
        return False
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner.close()
        return False
    with suppress(ValueError, KeyError, TypeError):
        leftovers.sweep([json.loads(owner.read())["run_id"]])
    home = Home(path, owner)
    home.remove_semaphores()
    return home.remove() is None


def _raylet_pid(log: Path) -> int | None:
    with log.open("rb") as file:
        match = _RAYLET_LINE.search(file.read(1 << 16))
    return int(match[1]) if match else None


def _move(source: Path, target: Path, redactor: Redactor) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if not redactor:
        shutil.move(source, target)
        return
    stream = redactor.stream()
    with source.open("rb") as reader, target.open("wb") as writer:
        while chunk := reader.read(COPY_BYTES):
            writer.write(stream.feed(chunk))
        writer.write(stream.flush())
