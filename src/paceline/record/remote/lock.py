"""Who runs a session that is kept in an object store: a lock object with its holder's heartbeat."""

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.errors import SessionError
from paceline.record.codec import dump
from paceline.record.events import utc_now
from paceline.record.remote.object_store import Conflict, ObjectStore, StoreError

HEARTBEAT_S = 20.0
STALE_S = 120.0
"""A holder that was silent for this long is taken for dead, if it cannot be looked for on this machine."""
_TRIES = 5


class SessionHeld(SessionError):
    """Another runner has the session."""


class StoreLock:
    """Keeps runners on all machines but one out of a session; the store decides who that one is."""

    def __init__(
        self, store: ObjectStore, name: str, *, heartbeat_s: float = HEARTBEAT_S, stale_s: float = STALE_S
    ) -> None:
        self._store = store
        self._name = name
        self._heartbeat_s, self._stale_s = heartbeat_s, stale_s
        self._runner = secrets.token_hex(8)  # Else two locks of one millisecond would be one version.
        self._version = ""
        self._beaten_s = 0.0
        self._turn = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name="store-lock", daemon=True)
        self.lost = ""
        """Who took the session over from us; empty while it is ours."""

    def take(self) -> None:
        """Take the lock, or say who has it; one whose holder is dead is taken over."""
        for _ in range(_TRIES):
            try:
                self._version = self._store.write_if(self._name, _owner(self._runner), self._free_version())
            except Conflict:
                continue  # Another runner was faster: look at what it wrote.
            self._beaten_s = time.monotonic()
            self._thread.start()
            return
        raise SessionError(f"{self._store.url}/{self._name} is wanted by many runners at once: try again")

    def release(self) -> None:
        """Let others in; a store that does not answer keeps the lock until it is stale."""
        self._stopped.set()
        if not self._version or self.lost:
            return
        with self._turn:
            try:
                if self._store.version(self._name) == self._version:
                    self._store.remove([self._name])
            except StoreError:
                return

    def is_held(self) -> bool:
        """Whether the session is still ours, asked of the store if it was silent so long that it may not be."""
        if not self.lost and time.monotonic() - self._beaten_s > self._stale_s / 2:
            self._beat()
        return not self.lost

    def _free_version(self) -> str | None:
        """The version of a lock that may be taken over, None if there is none; an error if it is held."""
        head = self._store.head(self._name)
        if head is None:
            return None
        version, age_s = head
        owner = _parse(self._store.read(self._name))
        if age_s > self._stale_s or _is_dead(owner):
            return version
        silent = f"heard of {age_s:.0f} s ago, taken for dead after {self._stale_s:.0f} s"
        session = self._name.partition("/")[0]
        raise SessionHeld(
            f"session {session} in {self._store.url} is being run by {_described(owner)} ({silent}): "
            "wait for it, or end it first"
        )

    def _beat_on(self) -> None:
        while not self._stopped.wait(self._heartbeat_s) and not self.lost:
            try:
                self._beat()
            except StoreError:  # Down for now; the next beat says whether the lock is still ours.
                continue

    def _beat(self) -> None:
        with self._turn:
            if self._stopped.is_set():
                return
            try:
                self._version = self._store.write_if(self._name, _owner(self._runner), self._version)
                self._beaten_s = time.monotonic()
            except Conflict:
                self.lost = _described(_parse(self._store.read(self._name)))


def _owner(runner: str) -> bytes:
    pid = os.getpid()
    return dump(
        {
            "host": socket.gethostname(),
            "pid": pid,
            "runner": runner,
            "machine": _machine(),
            "process_started": _started(pid),
            "time": utc_now(),
        }
    )


def _parse(data: bytes | None) -> Mapping[str, Any]:
    try:
        owner = json.loads(data or b"{}")
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _described(owner: Mapping[str, Any]) -> str:
    return f"process {owner['pid']} on {owner.get('host')}" if "pid" in owner else "another process"


def _is_dead(owner: Mapping[str, Any]) -> bool:
    """Whether a holder ran on this machine and its process is gone."""
    machine, pid = owner.get("machine"), owner.get("pid")
    if not machine or machine != _machine() or not isinstance(pid, int):
        return False
    return _started(pid) != owner.get("process_started")


def _machine() -> str:
    """Names this boot of this machine and, in it, the container: where process numbers mean the same."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty if it is gone or only waits to be collected."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
