"""One runner a session, whatever machine it is on: taken, kept by heartbeats, taken over from the dead."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from object_store import s3
from paceline.errors import SessionError
from paceline.record.lock import machine
from paceline.record.remote.lock import StoreLock
from paceline.record.remote.object_store import ObjectStore
from patience import wait_until

__all__ = ["s3"]

NAME = "night/.lock"


@pytest.fixture(params=["s3", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    url = request.getfixturevalue("s3") if request.param == "s3" else f"file://{tmp_path}"
    return ObjectStore(f"{url}/results")


@pytest.fixture
def take(store: ObjectStore) -> Iterator[Callable[..., StoreLock]]:
    """Makes locks, with a heartbeat so slow that only the test's own steps count, and lets go of them."""
    taken: list[StoreLock] = []

    def take_one(heartbeat_s: float = 1000.0, stale_s: float = 2000.0) -> StoreLock:
        lock = StoreLock(store, NAME, heartbeat_s=heartbeat_s, stale_s=stale_s)
        lock.take()
        taken.append(lock)
        return lock

    yield take_one
    for lock in taken:
        lock.release()


def held_by(store: ObjectStore, **owner: object) -> None:
    """A lock as a runner elsewhere left it."""
    store.write(
        NAME, json.dumps({"host": "elsewhere", "pid": 17, "machine": "another boot", **owner}).encode()
    )


def test_a_second_runner_is_told_who_is_first(store: ObjectStore, take: Callable[..., StoreLock]) -> None:
    first = take()
    with pytest.raises(SessionError) as caught:
        take()
    assert f"session night in {store.url} is being run by process {os.getpid()} on" in str(caught.value)
    assert "taken for dead after 2000 s" in str(caught.value)
    assert first.is_held()
    first.release()
    assert store.read(NAME) is None
    assert take().is_held()


def test_no_secret_is_in_the_lock(store: ObjectStore, take: Callable[..., StoreLock]) -> None:
    take()
    owner = json.loads(store.read(NAME) or b"")
    assert set(owner) == {"host", "pid", "runner", "machine", "process_started", "time"}


def test_a_silent_holder_is_taken_over_and_notices(
    store: ObjectStore, take: Callable[..., StoreLock]
) -> None:
    silent = take()
    other = StoreLock(store, NAME, heartbeat_s=1000, stale_s=-1)
    other.take()
    assert silent.is_held()  # It has no reason to ask yet.
    silent._beat()
    assert not silent.is_held() and f"process {os.getpid()}" in silent.lost
    silent.release()
    assert store.read(NAME) is not None  # It is not ours to remove.
    other.release()
    assert store.read(NAME) is None


def test_a_lock_that_is_taken_over_while_it_is_released_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a store that decides, which a file system does with a lock and S3 by a condition on the removal."""
    store = ObjectStore(f"file://{tmp_path}/results")
    late, other = (StoreLock(store, NAME, heartbeat_s=1000, stale_s=-1) for _ in range(2))
    late.take()
    taking = threading.Thread(target=other.take)
    look = store.version

    def look_and_be_overtaken(name: str) -> str | None:
        found = look(name)
        monkeypatch.setattr(store, "version", look)
        taking.start()
        taking.join(0.2)  # Over by then, unless it has to wait for us.
        return found

    monkeypatch.setattr(store, "version", look_and_be_overtaken)
    late.release()
    taking.join()
    assert store.read(NAME) is not None and other.is_held()
    other.release()


def test_a_store_is_asked_to_remove_our_version_only(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(f"{s3}/results")
    lock = StoreLock(store, NAME, heartbeat_s=1000)
    lock.take()
    version, asked, call = store.version(NAME), list[tuple[str, object]](), store._call

    def note(method: str, name: str, **options: object) -> object:
        asked.append((method, options.get("IfMatch")))
        return call(method, name, **options)

    monkeypatch.setattr(store, "_call", note)
    lock.release()
    assert asked == [("head_object", None), ("delete_object", version)]
    assert store.read(NAME) is None


def test_a_holder_that_slept_too_long_asks_first(store: ObjectStore, take: Callable[..., StoreLock]) -> None:
    slept = take(stale_s=0)
    StoreLock(store, NAME, heartbeat_s=1000, stale_s=-1).take()
    assert not slept.is_held()


def test_heartbeats_go_on_by_themselves(store: ObjectStore, take: Callable[..., StoreLock]) -> None:
    lock = take(heartbeat_s=0.01)
    first = store.read(NAME)
    wait_until(lambda: store.read(NAME) != first)
    assert lock.is_held()
    lock.release()
    assert store.read(NAME) is None


def test_a_holder_elsewhere_is_only_dead_when_it_is_silent(
    store: ObjectStore, take: Callable[..., StoreLock]
) -> None:
    held_by(store)
    with pytest.raises(SessionError, match="process 17 on elsewhere"):
        take()
    assert take(stale_s=-1).is_held()


def test_a_dead_process_of_this_machine_is_taken_over_at_once(
    store: ObjectStore, take: Callable[..., StoreLock]
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    held_by(store, pid=ended.pid, machine=machine(), process_started="12345")
    assert take().is_held()


def test_another_process_with_the_number_of_a_dead_one(
    store: ObjectStore, take: Callable[..., StoreLock]
) -> None:
    held_by(store, pid=os.getpid(), machine=machine(), process_started="1")
    assert take().is_held()


@pytest.mark.parametrize("rubbish", [b"", b"\xff{", b"[]", b"{}"])
def test_a_damaged_lock_counts_as_held(
    store: ObjectStore, take: Callable[..., StoreLock], rubbish: bytes
) -> None:
    store.write(NAME, rubbish)
    with pytest.raises(SessionError, match="another process"):
        take()
    assert take(stale_s=-1).is_held()


def test_a_lock_that_was_removed_by_hand_is_lost(store: ObjectStore, take: Callable[..., StoreLock]) -> None:
    lock = take()
    store.remove(NAME)
    lock._beat()
    assert lock.lost == "another process"


def test_a_store_that_hangs_does_not_hold_up_the_end(
    store: ObjectStore, take: Callable[..., StoreLock], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, answers = take(), threading.Event()
    version = store.version
    monkeypatch.setattr("paceline.record.remote.lock._LAST_WAIT_S", 0.1)
    monkeypatch.setattr(store, "version", lambda name: answers.wait() and version(name))
    lock.release()
    assert store.read(NAME) is not None
    answers.set()
    wait_until(lambda: store.read(NAME) is None)
