"""Sends a session's files to an object store while it runs; what a store does not take waits on the disk."""

import math
import os
import queue
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from paceline.errors import SessionError
from paceline.record.layout import RECORD
from paceline.record.remote.files import complete_entries, entry_files, is_moved, session_files
from paceline.record.remote.ledger import Ledger
from paceline.record.remote.lock import StoreLock
from paceline.record.remote.object_store import ObjectStore, StoreError

PATIENCE = "PACELINE_STORE_PATIENCE_S"
PATIENCE_S = 60.0
"""How long the end of a session waits for a store that takes nothing more."""
EVENTS_EVERY_S = 30.0
_WAITING = 256  # The rest is found on the disk at the end.
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.5, 60.0
_FAILURES_IN_A_ROW = 3
_SESSION = ""  # Stands among the entries for the session's own files.


class _Changed(Exception):
    """A case's files changed while they were being sent: it runs again, and is sent when it has ended."""


class Mirror:
    """A thread that makes the store's copy of a session like the one on disk, entry by entry."""

    def __init__(
        self,
        store: ObjectStore,
        lock: StoreLock,
        session_dir: Path,
        artifacts_dir: Path | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._store = store
        self._lock = lock
        self._session_dir = session_dir
        self._artifacts = artifacts_dir / session_dir.name if artifacts_dir else None
        self.ledger = Ledger(session_dir)
        self.replaced: set[str] = set()
        """Entries that ran here since: what the store has of them besides is left from before."""
        self._waiting: queue.Queue[str] = queue.Queue(_WAITING)
        self._failed: dict[str, None] = {}
        self._closing, self._abandoned = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="store-mirror", daemon=True)
        self._progress_s = time.monotonic()
        self._patience_s = _patience_s(environ)
        self._fault = ""

    def start(self) -> None:
        self._waiting.put(_SESSION)
        self._thread.start()

    def entry_ended(self, name: str) -> None:
        """A case has its record: send its directory when there is time."""
        self.replaced.add(name)
        with suppress(queue.Full):
            self._waiting.put_nowait(name)

    def finish(self) -> str:
        """Send all that is left, for as long as the store takes something; what it did not get, or an empty text."""
        self._moved_on()
        self._closing.set()
        with suppress(queue.Full):
            self._waiting.put_nowait(_SESSION)  # It may be waiting for something to do.
        while self._thread.is_alive() and time.monotonic() - self._progress_s < self._patience_s:
            self._thread.join(0.05)
        self._abandoned.set()
        return self._unsent()

    def stop(self) -> None:
        """Leave the store alone from now on."""
        self._abandoned.set()
        self._closing.set()
        with suppress(queue.Full):
            self._waiting.put_nowait(_SESSION)

    def _unsent(self) -> str:
        names = self._rest()
        if not names:
            return ""
        entries = [name for name in names if name != _SESSION]
        what = (
            f"{len(entries):,} case{'' if len(entries) == 1 else 's'}" if entries else "the session's report"
        )
        return f"{what} could not be sent to {self._store.url}/{self._session_dir.name} ({self._why()})"

    def _why(self) -> str:
        if self._lock.lost:
            return f"the session was taken over by {self._lock.lost}"
        return self._fault or "it was too slow"

    def _work(self) -> None:
        """Send what comes up until the end, then all that the disk has and the store has not."""
        delay_s = _FIRST_DELAY_S
        next_events_s = time.monotonic() + EVENTS_EVERY_S
        while not self._closing.is_set():
            name = self._next(next_events_s - time.monotonic())
            if name is None:
                name, next_events_s = _SESSION, time.monotonic() + EVENTS_EVERY_S
            if self._deliver(name):
                delay_s = _FIRST_DELAY_S
            else:
                self._closing.wait(delay_s)
                delay_s = min(2 * delay_s, _LONGEST_DELAY_S)
        self._send_rest()

    def _next(self, timeout_s: float) -> str | None:
        """What to send now, or None when it is time to look at the session's own files."""
        if timeout_s <= 0:
            return None
        with suppress(queue.Empty):
            return self._waiting.get_nowait() if self._failed else self._waiting.get(timeout=timeout_s)
        return next(iter(self._failed), None)

    def _send_rest(self) -> None:
        delay_s = _FIRST_DELAY_S
        before: list[str] = []
        while (names := self._rest()) and not self._abandoned.is_set():
            if names == before:
                self._abandoned.wait(delay_s)
                delay_s = min(2 * delay_s, _LONGEST_DELAY_S / 8)
            failures = 0
            for name in names:
                failures = 0 if self._deliver(name) else failures + 1
                if failures == _FAILURES_IN_A_ROW or self._abandoned.is_set():
                    break
            before = names

    def _rest(self) -> list[str]:
        """What the disk has and the store has not; what could not be sent before comes last."""
        names = (_SESSION, *complete_entries(self._session_dir))
        return sorted((name for name in names if not self._is_sent(name)), key=self._failed.__contains__)

    def _deliver(self, name: str) -> bool:
        """Send an entry, or the session's own files; False if the store did not take them all."""
        self._failed.pop(name, None)
        try:
            if not self._lock.is_held():
                self.stop()
                return False
            self._send_entry(name) if name else self._send_session()
        except _Changed:
            return True
        except StoreError as error:
            if not self._abandoned.is_set():
                self._fault = str(error)
            self._failed[name] = None
            return False
        return True

    def _send_session(self) -> None:
        for name, path in session_files(self._session_dir).items():
            self._send(name, path)

    def _send_entry(self, entry: str) -> None:
        directory = self._session_dir / entry
        try:
            record = (directory / RECORD).read_bytes()
            files = entry_files(directory, self._artifacts)
        except FileNotFoundError:
            raise _Changed from None
        mine = f"{entry}/{RECORD}"
        is_new = self._is_new(mine, directory / RECORD)
        for name, path in files.items():
            if is_new and not is_moved(name) and self.ledger.knows(mine):
                # From here on the store's record would not be that of the files beside it.
                self._remove([mine])
            if name != RECORD:
                self._send(f"{entry}/{name}", path)
        if entry in self.replaced:
            self._remove([name for name in self.ledger.below(entry) if name[len(entry) + 1 :] not in files])
        if is_new:
            self._send_record(mine, directory / RECORD, record)

    def _send_record(self, name: str, path: Path, record: bytes) -> None:
        """The record goes last: where the store has one, all that belongs to it is there."""
        status = path.stat() if path.exists() else None
        if status is None or path.read_bytes() != record:
            raise _Changed
        self._store.write(self._key(name), record)
        self.ledger.add(name, status)
        self._moved_on()

    def _send(self, name: str, path: Path) -> None:
        try:
            status = path.stat()
            if self.ledger.has(name, status):
                return
            if self._abandoned.is_set():
                raise StoreError("given up")
            self._store.send(path, self._key(name), self._moved_on)
        except FileNotFoundError:
            raise _Changed from None
        except StoreError:
            if not path.exists():
                raise _Changed from None
            raise
        self.ledger.add(name, status)
        self._moved_on()

    def _remove(self, names: list[str]) -> None:
        self._store.remove(map(self._key, names))
        for name in names:
            self.ledger.drop(name)

    def _is_new(self, name: str, path: Path) -> bool:
        try:
            return not self.ledger.has(name, path.stat())
        except FileNotFoundError:
            return False

    def _is_sent(self, entry: str) -> bool:
        directory = self._session_dir / entry
        files = entry_files(directory, self._artifacts) if entry else session_files(directory)
        below = f"{entry}/" if entry else ""
        return not any(self._is_new(f"{below}{name}", path) for name, path in files.items())

    def _key(self, name: str) -> str:
        return f"{self._session_dir.name}/{name}"

    def _moved_on(self) -> None:
        self._progress_s = time.monotonic()


def _patience_s(environ: Mapping[str, str]) -> float:
    text = environ.get(PATIENCE, "") or str(PATIENCE_S)
    try:
        patience_s = float(text)
    except ValueError:
        patience_s = math.nan
    if not 0 <= patience_s < math.inf:
        raise SessionError(f"{PATIENCE} is {text!r}: expected a number of seconds, such as 60")
    return patience_s
