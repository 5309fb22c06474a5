"""A real PostgreSQL for tests: one server a test process, on a socket in a directory of its own, a database a test."""

import atexit
import ctypes
import functools
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from patience import wait_until

_SETTINGS = (
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    "max_connections=40",
    "shared_buffers=16MB",
)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Server:
    """A running server; `url` is that of a database in it."""

    directory: Path
    process: subprocess.Popen[bytes]
    numbers: "itertools.count[int]"

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def new_database(self) -> str:
        """An empty database; its URL."""
        name = f"test_{next(self.numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload, unused-ignore]
        return self.url(name)


def programs() -> Path | None:
    """Where the server's programs are; they are seldom on the path."""
    found = shutil.which("initdb")
    places = (
        [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    )
    return next(
        (place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None
    )


def _other_user() -> dict[str, Any]:
    """The server refuses to be root's: then it is another user's."""
    if os.getuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


@functools.cache
def server() -> Server:
    """The server of this process, started on first use; skips the test where none is installed."""
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL server is installed (initdb and postgres are not found)")
    # Not below pytest's own directory, which other users may not enter; short, since a socket's path is limited.
    directory = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    user = _other_user()
    if user:
        os.chown(directory, user["user"], user["group"])
    data = directory / "data"
    subprocess.run(
        [
            found / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "--auth=trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        ],
        check=True,
        capture_output=True,
        cwd=directory,
        **user,
    )
    settings = [
        word for setting in (*_SETTINGS, f"unix_socket_directories={directory}") for word in ("-c", setting)
    ]
    process = subprocess.Popen(
        [found / "postgres", "-D", data, *settings],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_die_with_parent,
        **user,
    )
    made = Server(directory, process, itertools.count(1))
    atexit.register(_stop, made)
    wait_until(lambda: _answers(made), "the start of the server", by=process)
    return made


def _answers(made: Server) -> bool:
    try:
        psycopg.connect(made.url("postgres")).close()
    except psycopg.OperationalError:
        return False
    return True


def _stop(made: Server) -> None:
    made.process.send_signal(signal.SIGQUIT)
    made.process.wait(30)
    shutil.rmtree(made.directory, ignore_errors=True)
