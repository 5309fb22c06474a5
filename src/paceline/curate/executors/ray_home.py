"""The directory of a private Ray cluster: made for one run, gone after it, also after a driver that was killed."""

import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Sockets in it must have short names, so not under a long TMPDIR.
PARENT = Path("/tmp")  # noqa: S108 - each is made for its owner alone
PREFIX = "paceline-ray-"
_LOCK = "lock"


@contextmanager
def cluster_home() -> Iterator[Path]:
    """A new directory that is locked while this process lives; what dead ones left is taken away first."""
    for stale in PARENT.glob(f"{PREFIX}*"):
        _sweep(stale)
    home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT))
    with (home / f".{_LOCK}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under this name it is never seen unlocked while its owner lives.
        (home / f".{_LOCK}").rename(home / _LOCK)
        try:
            yield home
        finally:
            end_processes(home)
            shutil.rmtree(home, ignore_errors=True)


def _sweep(home: Path) -> None:
    """End and remove a cluster whose driver is gone; a lock that can be had says so, also across containers."""
    try:
        with (home / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end_processes(home)
            shutil.rmtree(home, ignore_errors=True)
    except OSError:  # in use, somebody else's, or just being made
        return


def end_processes(home: Path) -> None:
    """Kill what is left of the cluster that lived in `home`: some of Xenna's actors never notice that it is gone."""
    mark = os.fsencode(f"RAY_TMPDIR={home}")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:  # gone meanwhile, or somebody else's
            continue
