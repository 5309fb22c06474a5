"""One database for many jobs, kept as an object in a store such as S3: read, joined with ours, written back.

The write is refused if another job wrote in between; then that job's database is read and joined, too, so that nothing
is lost.
"""

import os
import random
import sqlite3
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import HistoryError
from paceline.history.session_info import Added
from paceline.history.store.merge import copy_file
from paceline.history.store.store import open_store
from paceline.history.urls import Target, parse_target
from paceline.record import below
from paceline.record.remote.address import parse_location, split
from paceline.record.remote.object_store import Conflict, ObjectStore, StoreError

ATTEMPTS = 30
_LONGEST_WAIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """What came to the other side, and how often another writer was faster."""

    added: Added
    conflicts: int = 0


def pull(remote: str, local: str | Path) -> Transferred:
    """Add all that the remote database has to the local one, which is created if there is none."""
    with tempfile.TemporaryDirectory(prefix="paceline-") as directory:
        fetched = Path(directory) / "remote.db"
        if fetch(remote, fetched) is None:
            raise HistoryError(f"no history at {remote}: 'paceline history push' makes one")
        path = parse_target(local).path
        if path is not None and _copy_if_new(fetched, path):
            with open_store(path) as store:
                return Transferred(added=store.size())
        with open_store(local) as store:
            return Transferred(added=store.merge_from(fetched))


def push(local: str | Path, remote: str) -> Transferred:
    """Add all that the local database has to the remote one, which is created if there is none."""
    target = parse_target(local)
    if target.path is not None and not target.path.exists():
        raise HistoryError(f"no history at {target}: 'paceline run' makes one, or name another with --db")
    for conflicts in range(ATTEMPTS):
        try:
            return Transferred(added=_push_once(target, remote), conflicts=conflicts)
        except Conflict:
            # At random, so that jobs which ended together do not meet again and again.
            time.sleep(random.uniform(0, min(_LONGEST_WAIT_S, 0.05 * 2**conflicts)))  # noqa: S311
    raise HistoryError(f"{remote} was written by others {ATTEMPTS} times while we tried: push again later")


def _push_once(target: Target, remote: str) -> Added:
    with tempfile.TemporaryDirectory(prefix="paceline-") as directory:
        joined = Path(directory) / "joined.db"
        version = fetch(remote, joined)
        is_copy = version is None and target.path is not None and _copy_if_new(target.path, joined)
        with open_store(joined) as store:
            added = store.size() if is_copy else store.merge_from(target.path or target.url)
            changed = version is None or store.database.driver.total_changes > 0
        if changed:
            put(_single_file(joined), remote, if_version=version)
        return added


def fetch(url: str, path: Path) -> str | None:
    """Copy an object to a file; its version, to be given to `put`. None, and no file, if there is no such object."""
    store, name = _store_and_name(url)
    # Asked first: after a write in between it is an old one, which `put` refuses.
    version = store.version(name)
    with suppress(FileNotFoundError):
        if version is not None:
            store.receive(name, path.parent, path.name)
            return version
    return None


def put(path: Path, url: str, *, if_version: str | None) -> str:
    """Write a file over that version of an object, or as a new one if that is None; its new version, or `Conflict`."""
    store, name = _store_and_name(url)
    if not store.is_s3 and not store.is_local:
        why = "whether this store can refuse a late write is not known"
        raise StoreError(f"{url}: {why}; use s3:// or a path")
    with below.open_given(path) as file:
        return store.write_if(name, file, if_version)


def _store_and_name(url: str) -> tuple[ObjectStore, str]:
    location = parse_location(url)
    parent, name = split(location if isinstance(location, str) else f"file://{location.absolute()}")
    return ObjectStore(parent), name


def _copy_if_new(source: Path, target: Path) -> bool:
    """Copy a whole file where there is none, a thousand times as fast as record by record; False if there is one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return False
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".paceline-") as directory:
        copy = Path(directory) / target.name
        copy_file(source, copy)
        try:
            os.link(
                copy, target
            )  # Unlike a rename, it never takes the place of what another process just made.
        except FileExistsError:
            return False
        except OSError:  # No links here.
            copy.rename(target)
    return True


def _single_file(path: Path) -> Path:
    """The database packed into one file, with nothing left in a log beside it."""
    packed = path.with_name("packed.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(packed),))
    return packed
