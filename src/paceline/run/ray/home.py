"""The home of a Ray cluster of our own: a private directory, short enough for socket names, and gone after it."""

import json
import os
import re
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from paceline.errors import PacelineError
from paceline.record import below
from paceline.record.files import lock_fd
from paceline.record.redact import Redactor
from paceline.run.local import tree

PREFIX = "paceline-ray-"
OWNER = "owner"
OLD_LOCK = "lock"
"""How curation named the file before its clusters lived in homes of this kind."""
FALLBACK = Path("/tmp")  # noqa: S108 - mkdtemp makes it safe
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - not to create anything in
SOCKET_NAME_BYTES = 107
# What Ray and we append to the base for the longest of its sockets.
SOCKET_TAIL = f"/{PREFIX}12345678/r/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store.1"
COPY_BYTES = 1 << 20
KNOCK_TIMEOUT_S = 10.0

_RAYLET_LINE = re.compile(rb" (\d+) \d+\] \(raylet\) ")
_PORT_TAKEN = b"Failed to start the grpc server"
_SEMAPHORE = re.compile(r"sem\.(?:obj|hdr)(\d+)-(\d+)")


class ClusterError(PacelineError):
    """A cluster could not be had."""


class Home:
    """A directory that only this user can enter; Ray opens its own part in it to everybody."""

    def __init__(self, path: Path, owner: BinaryIO) -> None:
        self.path = path
        self.ray_dir = path / "r"
        self.token_path = path / "token"
        self._owner = owner

    @classmethod
    def create(cls, environ: Mapping[str, str], run_id: str | None = None) -> Self:
        """A new one, with an access token for the cluster in it.

        The cluster's processes carry the run's id in their environment, or the home itself as RAY_TMPDIR.
        """
        try:
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=temporary_base(environ)))
        except OSError as error:
            raise ClusterError(
                f"cannot make a temporary directory for Ray: {error.strerror}: {error.filename}; "
                "set TMPDIR to a directory that you can write to"
            ) from error
        owner = (path / f"{OWNER}.new").open("xb")
        lock_fd(owner.fileno(), wait=True)
        owner.write(json.dumps({"pid": os.getpid(), "started": time.time(), "run_id": run_id}).encode())
        owner.flush()
        # Locked before it gets its name, so that nobody finds it unlocked.
        (path / f"{OWNER}.new").rename(path / OWNER)
        home = cls(path, owner)
        home.ray_dir.mkdir()
        home.token_path.touch(mode=0o600)
        home.token_path.write_text(secrets.token_hex(32))
        return home

    def env(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What keeps the cluster on loopback, and lets a process in; no token where the user switched that off."""
        env = {
            # Without it Ray replaces the loopback address by the machine's own and listens to the world, on Linux too.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        if environ.get("RAY_AUTH_MODE", "token") == "token":
            env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token_path)}
            if "RAY_AUTH_TOKEN" in environ:
                env["RAY_AUTH_TOKEN"] = ""  # it would go before the path; empty counts as unset
        return env

    def names_taken_port(self) -> bool:
        """Whether the cluster's first process found its port taken; `ray start` gives up on it only much later."""
        logs = self.ray_dir.glob("session_2*/logs/gcs_server.err")
        return any(_PORT_TAKEN in log.read_bytes() for log in logs)

    def keep_logs(self, target: Path, redactor: Redactor) -> None:
        """Move Ray's logs to `target`, with secrets masked; sockets, packages and spilled objects stay behind."""
        for logs in sorted(self.ray_dir.glob("session_2*/logs")):
            for file in sorted(logs.rglob("*")):
                if not file.is_file() or file.is_symlink():
                    continue
                kept = target / file.relative_to(logs)
                kept.parent.mkdir(parents=True, exist_ok=True)
                if not redactor:
                    shutil.move(file, kept)
                    continue
                stream = redactor.stream()
                with file.open("rb") as reader, kept.open("wb") as writer:
                    while chunk := reader.read(COPY_BYTES):
                        writer.write(stream.feed(chunk))
                    writer.write(stream.flush())

    def end_processes(self) -> None:
        """Kill what carries this home in its environment: some of Xenna's actors never notice that Ray is gone."""
        mark = os.fsencode(f"RAY_TMPDIR={self.path}")
        for process in tree.every_process():
            if mark in tree.read_proc(f"/proc/{process.pid}/environ").split(b"\0"):
                tree.send(signal.SIGKILL, process.pid)

    def remove_semaphores(self) -> None:
        """Ray names those of compiled graphs after its raylet's pid and the time, and leaves them when it is killed."""
        pids: set[int] = set()
        with suppress(OSError):
            for log in self.ray_dir.glob("session_2*/logs/raylet.out"):
                with log.open("rb") as file:
                    if match := _RAYLET_LINE.search(file.read(1 << 16)):
                        pids.add(int(match[1]))
            since_ns = os.fstat(self._owner.fileno()).st_mtime_ns
            for semaphore in SHARED_MEMORY.glob("sem.*") if pids else ():
                named = _SEMAPHORE.fullmatch(semaphore.name)
                if named and int(named[1]) in pids and int(named[2]) >= since_ns:
                    semaphore.unlink(missing_ok=True)

    def remove(self) -> str | None:
        """Remove it; what is left of it, if anything is."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._owner.close()
        return str(self.path) if self.path.exists() else None


def temporary_base(environ: Mapping[str, str]) -> Path:
    """The user's choice of temporary directory unless sockets in it would have too long a name."""
    chosen = environ.get("TMPDIR") or str(FALLBACK)
    too_long = len(os.fsencode(chosen)) + len(SOCKET_TAIL) > SOCKET_NAME_BYTES
    return FALLBACK if too_long else Path(chosen)


def homes(base: Path, prefix: str = PREFIX) -> Iterator[Path]:
    """The directories of this user's clusters there."""
    with suppress(OSError):
        for path in base.glob(f"{prefix}*"):
            if path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid():
                yield path


def seize(path: Path) -> BinaryIO | None:
    """The lock of a directory whose owner is gone: it is freed with its holder, and seen from other containers too."""
    try:
        owner = below.open_file(path, OWNER if below.is_file(path, OWNER) else OLD_LOCK)
    except OSError:  # still being made
        return None
    try:
        lock_fd(owner.fileno())
    except OSError:  # in use
        owner.close()
        return None
    return owner


def sweep_stale(environ: Mapping[str, str] | None = None) -> list[Path]:
    """End and remove what clusters left whose runner or driver was killed; their homes."""
    bases = {temporary_base(os.environ if environ is None else environ), FALLBACK}
    return [path for base in bases for path in homes(base) if _remove_stale(path)]


def _remove_stale(path: Path) -> bool:
    owner = seize(path)
    if owner is None:
        return False
    with suppress(ValueError, KeyError, TypeError):  # a home without a run
        tree.sweep([json.loads(owner.read())["run_id"]])
    home = Home(path, owner)
    home.end_processes()
    home.remove_semaphores()
    return home.remove() is None


def knock(address: str, hint: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for most of a minute."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), KNOCK_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ClusterError(f"no Ray cluster answers at {address}: {why}; {hint}") from error
