"""Who runs a session that is kept in an object store: a lock object with its holder's heartbeat."""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from paceline.errors import SessionError
from paceline.record import codec
from paceline.record.events import utc_now
from paceline.record.lock import describe, is_dead, machine, process_started
from paceline.record.remote.object_store import Conflict, ObjectStore, StoreError

HEARTBEAT_S = 20.0
STALE_S = 120.0
"""A holder that was silent for this long is taken for dead, if it cannot be looked for on this machine."""
_TRIES = 5
_LAST_WAIT_S = 10.0


class StoreLock:
    """Keeps runners on all machines but one out of a session; the store decides who that one is."""

    def __init__(
        self, store: ObjectStore, name: str, *, heartbeat_s: float = HEARTBEAT_S, stale_s: float = STALE_S
    ) -> None:
        self._store = store
        self._name = name
        self._heartbeat_s, self._stale_s = heartbeat_s, stale_s
        self._owner = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "runner": secrets.token_hex(8),  # Else two locks of one millisecond would be one version.
            "machine": machine(),
            "process_started": process_started(os.getpid()),
        }
        self._version = ""
        self._beaten_s = 0.0
        self._turn = threading.Lock()
        self._stopped = threading.Event()
        self.on_beat: Callable[[], object] = lambda: None
        self.lost = ""
        """Who took the session over from us; empty while it is ours."""

    def take(self, error: type[SessionError] = SessionError) -> None:
        """Take the lock, or raise `error`, which says who has it; one whose holder is dead is taken over."""
        for _ in range(_TRIES):
            with suppress(Conflict):  # Another runner was faster: look at what it wrote.
                self._write(self._free_version(error))
                threading.Thread(target=self._beat_on, name="store-lock", daemon=True).start()
                return
        raise SessionError(f"{self._store.url}/{self._name} is wanted by many runners at once: try again")

    def release(self) -> None:
        """Let others in; a store that does not answer soon keeps the lock until it is stale."""
        self._stopped.set()
        removal = threading.Thread(target=self._remove, name="store-lock", daemon=True)
        removal.start()
        removal.join(_LAST_WAIT_S)

    def _remove(self) -> None:
        with self._turn, suppress(StoreError):
            if self._version and not self.lost:
                self._store.remove_if(self._name, self._version)

    def is_held(self) -> bool:
        """Whether the session is still ours, asked of the store if it was silent so long that it may not be."""
        if not self.lost and time.monotonic() - self._beaten_s > self._stale_s / 2:
            self._beat()
        return not self.lost

    def _write(self, version: str | None) -> None:
        data = codec.dump({**self._owner, "time": utc_now()})
        self._version = self._store.write_if(self._name, data, version)
        self._beaten_s = time.monotonic()

    def _beat_on(self) -> None:
        while not self._stopped.wait(self._heartbeat_s) and not self.lost:
            with suppress(StoreError):  # Down for now; the next beat says whether the lock is still ours.
                self._beat()
                self.on_beat()

    def _beat(self) -> None:
        with self._turn:
            try:
                if not self._stopped.is_set():
                    self._write(self._version)
            except Conflict:
                self.lost = describe(self._read_owner())

    def _free_version(self, error: type[SessionError]) -> str | None:
        """The version of a lock that may be taken over, None if there is none; an error if it is held."""
        head = self._store.head(self._name)
        if head is None:
            return None
        (version, age_s), owner = head, self._read_owner()
        if age_s > self._stale_s or is_dead(owner):
            return version
        silent = f"heard of {age_s:.0f} s ago, taken for dead after {self._stale_s:.0f} s"
        session = self._name.partition("/")[0]
        raise error(
            f"session {session} in {self._store.url} is being run by {describe(owner)} ({silent}): "
            "wait for it, or end it first"
        )

    def _read_owner(self) -> Mapping[str, Any]:
        with suppress(ValueError):
            owner = codec.load(self._store.read(self._name) or b"")
            return owner if isinstance(owner, dict) else {}
        return {}
