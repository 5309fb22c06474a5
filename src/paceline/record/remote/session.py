"""Sessions that run in a directory of this machine and are kept in an object store; and those there, read back.

In the store a session has its own files, and of each case an archive and, sent after it, the record. The summaries of
all sessions lie side by side, so that one listing shows which there are.
"""

import heapq
import math
import os
import queue
import socket
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError, SessionError
from paceline.model import Plan, Record, Status
from paceline.record import below, codec, layout
from paceline.record.directory import SessionDir, is_kept, restore_links, sessions
from paceline.record.events import utc_now
from paceline.record.layout import LOCK, RECORD, SENT
from paceline.record.lock import SessionLock
from paceline.record.remote.address import WORK_DIR, Location, split
from paceline.record.remote.archive import ARCHIVE, UnsafeName, entry_of, pack, unpack
from paceline.record.remote.lock import StoreLock
from paceline.record.remote.object_store import ObjectStore, StoreError, modified_s

KEPT_COPIES = 5
PATIENCE = "PACELINE_STORE_PATIENCE_S"
SUMMARIES, _SUMMARY_SCHEMA = ".sessions", 1
RUNNING, FINISHED = "running", "finished"
_AT_ONCE, _SENDERS = 16, 4
_QUOTED_BYTES, _SHOWN_BYTES = 1 << 20, 1 << 28


class NameTaken(SessionError):
    """An object store has a session of this name."""


@contextmanager
def keep_copy(plan: Plan, *, resumes: bool) -> Iterator["RemoteCopy | None"]:
    """The copy of a plan's session in an object store, which no other runner uses meanwhile; None if it has none."""
    url, session = plan.settings.results_url, plan.session
    if not url:
        yield None
        return
    layout.check_session_name(session)
    store = ObjectStore(url)
    lock = StoreLock(store, f"{session}/{LOCK}")
    copy = RemoteCopy(plan, store, lock)
    lock.take(SessionError if resumes else NameTaken)
    try:
        is_stored = store.head(f"{session}/plan.json") is not None
        if is_stored and not resumes:
            hint = "go on with it by --resume, or choose another --session-name"
            raise NameTaken(f"session {session} exists already in {url}: {hint}")
        if (
            resumes and not is_stored and not plan.directory.is_dir()
        ):  # a killed runner may have come no further
            raise SessionError(f"no session {session} in {url}: 'paceline list' shows those there are")
        try:
            (plan.directory if resumes else plan.directory.parent).mkdir(parents=True, exist_ok=True)
            if resumes:
                (plan.directory / LOCK).touch()
        except OSError as error:
            why = f"cannot run the session in {plan.directory}: {error.strerror or error}"
            raise SessionError(f"{why}; name another directory by {WORK_DIR}") from error
        yield copy
    finally:
        copy.stop()
        lock.release()


class RemoteCopy:
    """Sends a session's files to the store as its cases end, and fetches what others added before it goes on."""

    def __init__(self, plan: Plan, store: ObjectStore, lock: StoreLock) -> None:
        self.location: Location = f"{store.url}/{plan.session}"
        self._plan, self._store, self._lock = plan, store, lock
        self._dir = plan.directory
        self._artifacts = plan.artifacts_dir / plan.session if plan.artifacts_dir else None
        self._sent: dict[str, tuple[int, int]] = {}
        """Records and the session's own files as they were when they were last the same here and in the store."""
        self._queue: queue.Queue[str] = queue.Queue()
        self._turns: dict[str, threading.Lock] = {}
        self._packing = threading.Lock()  # One at a time: a benchmark may be running beside it.
        self._stopped = False
        self._why = "it was too slow"
        self._patience_s = _patience_s()
        self._progress_s = 0.0
        self._started_at = utc_now()
        self._planned = 0
        self._statuses: dict[Path, Status] = {}
        self._summary: dict[str, Any] = {}
        self._fetch = partial(_fetch_entry, store, plan.directory, self._artifacts)

    @property
    def fault(self) -> str:
        """Why no further case should begin."""
        lost = self._lock.lost
        return f"the session was taken over by {lost}; what ran here stays in {self._dir}" if lost else ""

    def catch_up(self, directory: SessionDir, *, rerun_failed: bool) -> None:
        """Fetch what is not on this machine, for a session that is resumed.

        Archives come of cases that run again, whose results others need, or that failed, as the report quotes these.
        """
        plan, objects = self._plan, _objects(self._store, self._plan.session)
        with tempfile.TemporaryDirectory(prefix="paceline-") as temporary:
            stored = Path(temporary) / plan.session
            stored.mkdir()
            for name in {*objects.pop("", ())} - {LOCK}:
                self._store.receive(f"{plan.session}/{name}", stored, name)
                self._adopt_file(stored, name)
            _fetch_records(self._store, stored, objects)
            for path, theirs in SessionDir(stored).stored_records():
                self._adopt_record(directory, theirs, path / RECORD, objects)
        running = [
            case
            for case in (*plan.setups, *plan.cases)
            if not is_kept(directory.read_record(case), case, rerun_failed=rerun_failed)
        ]
        needs = {name for case in running for name in case.needs}
        needed = [case for case in plan.cases if case.name in needs]
        wanted = {directory.entry_dir(case) for case in (*running, *needed)}
        entries = []
        for entry, sizes in objects.items():
            path = self._dir / entry
            record = codec.read_record(path / RECORD, self._dir)
            is_quoted = record and not record.status.ok and sum(sizes.values()) <= _QUOTED_BYTES
            files = [directory.location(record.case, name) for name in record.artifacts] if record else []
            is_whole = files and all(below.is_file(*file) for file in files)
            if (path in wanted or is_quoted) and not is_whole:
                entries.append(entry)
        with ThreadPoolExecutor(_SENDERS) as pool:
            list(pool.map(self._fetch, entries, [objects[entry] for entry in entries]))

    def _adopt_file(self, stored: Path, name: str) -> None:
        """Take over one of the session's own files; events that only we have stay, all in one order."""
        data = below.read(stored, name, codec.MAX_RECORD_BYTES)
        if name == layout.EVENTS and below.is_file(self._dir, name):
            theirs = data.splitlines(keepends=True)
            known = set(theirs)
            here = below.read(self._dir, name, codec.MAX_RECORD_BYTES).splitlines(keepends=True)
            data = b"".join(heapq.merge(theirs, [line for line in here if line not in known]))
        below.write(self._dir, name, data)

    def _adopt_record(
        self, directory: SessionDir, theirs: Record, stored: Path, objects: Mapping[str, Iterable[str]]
    ) -> None:
        """Take over the store's record of a case, unless ours is of a later attempt."""
        path = directory.entry_dir(theirs.case) / RECORD
        name, data = self._name(path), codec.load(below.read(stored.parent, RECORD, codec.MAX_RECORD_BYTES))
        ours = codec.read_record(path, self._dir)
        if ours and ours.attempt > theirs.attempt:
            return  # It is sent at the end.
        if ours is None or codec.load(below.read(self._dir, name, codec.MAX_RECORD_BYTES)) != data:
            # An earlier one of ours is in theirs, under its number.
            number = ours.attempt if ours and ours.attempt < theirs.attempt else theirs.attempt + 1
            aside = directory.move_aside(theirs.case, number)
            below.write(self._dir, name, codec.dump_plain(data, pretty=True))
            if aside and number > theirs.attempt:
                self._fetch(entry_of(name), objects[entry_of(name)])
                return  # Both go back together.
        self._sent[name] = _mark(path)

    def start(self) -> None:
        """The session's own files are written, and the first case is about to begin."""
        below.remove(self._dir, SENT)
        plan = codec.load(below.read(self._dir, "plan.json", codec.MAX_RECORD_BYTES))
        self._planned = len(plan.get("setups", ())) + len(plan.get("cases", ()))
        for _, record in SessionDir(self._dir).stored_records():
            self._note(record)
        self._write_summary()
        self._lock.on_beat = self._write_summary
        for _ in range(_SENDERS):
            threading.Thread(target=self._work, name="store-sender", daemon=True).start()
        for name in self._rest():
            self._queue.put(name)

    def _note(self, record: Record) -> Path:
        entry = layout.entry_path(self._dir, record.case)
        self._statuses[entry] = record.status
        self._started_at = min(self._started_at, record.started_at or self._started_at)
        return entry

    def case_ended(self, record: Record) -> None:
        """A case's record and all its files are on disk."""
        self._queue.put(self._name(self._note(record) / RECORD))

    def finish(self, *, ok: bool) -> str:
        """The report is written: what could not be sent and how to send it, or an empty text."""
        self._moved_on()
        before: list[str] = []
        while (names := self._rest()) and not self._lock.lost and self._is_patient():
            time.sleep(0.5 if names == before else 0)
            for name in names:
                self._queue.put(name)
            while self._queue.unfinished_tasks and self._is_patient():
                time.sleep(0.01)
            before = names
        self.stop()
        try:
            if not names and self._lock.is_held():
                self._write_summary(ok=ok)
                if not any(f"/{layout.SCRATCH}/" in name for name, _ in below.walk(self._dir)):
                    below.write(self._dir, SENT, b"", durable=False)
                remove_old_copies(self._dir.parent)
                return ""
        except StoreError as error:
            self._why = str(error)
        cases = sum(1 for name in names if entry_of(name))
        what = f"{cases:,} case{'' if cases == 1 else 's'}" if cases else "the session's report"
        why = f"the session was taken over by {self._lock.lost}" if self._lock.lost else self._why
        text = f"{what} could not be sent to {self.location} ({why}); all is in {self._dir}"
        self.location = self._dir
        return f"{text}, and --resume {self._plan.session} sends the rest"

    def stop(self) -> None:
        """Leave the store alone from now on."""
        self._stopped = True
        for _ in range(_SENDERS):
            self._queue.put("")

    def _write_summary(self, *, ok: bool | None = None) -> None:
        """Say how the session stands; where this says that it is finished, all of it is in the store."""
        with self._turns.setdefault("", threading.Lock()):
            counts = Counter(self._statuses.copy().values())
            summary = {
                "schema": _SUMMARY_SCHEMA,
                "session": self._plan.session,
                "state": RUNNING if ok is None else FINISHED,
                "started_at": self._started_at,
                "ok": ok,
                "counts": {status.value: counts[status] for status in Status if counts[status]},
                "planned": self._planned,
                "unfinished": max(0, self._planned - counts.total()),
                "host": socket.gethostname(),
            }
            is_late = self._lock.lost or (self._stopped and ok is None)
            if summary != self._summary and not is_late:
                self._store.write(f"{SUMMARIES}/{self._plan.session}.json", codec.dump(summary))
                self._summary = summary

    def _rest(self) -> list[str]:
        """The records and the session's own files that the store has not as they are here."""
        own = below.names(self._dir)
        entries = [
            *own,
            *(f"{layout.DATA_SETUP}/{name}" for name in below.names(self._dir, layout.DATA_SETUP)),
        ]
        names = [name for name in own if not name.startswith(".")] + [f"{name}/{RECORD}" for name in entries]
        files = [name for name in names if below.is_file(self._dir, name)]
        return [name for name in files if self._sent.get(name) != _mark(self._dir / name)]

    def _name(self, path: Path) -> str:
        return path.relative_to(self._dir).as_posix()

    def _work(self) -> None:
        while not self._stopped:
            name = self._queue.get()
            try:
                with self._turns.setdefault(name, threading.Lock()):
                    if not self._stopped and self._lock.is_held():
                        self._send(name)
            except FileNotFoundError:  # A case that runs again: it is sent when it has ended.
                continue
            except (StoreError, OSError) as error:
                self._why = str(error)
            finally:
                self._queue.task_done()

    def _send(self, name: str) -> None:
        """Send a file; before a record all that belongs to it, so that where the store has it, that is there, too."""
        path, key, entry = self._dir / name, f"{self._plan.session}/{name}", entry_of(name)
        mark = _mark(path)
        if self._sent.get(name) == mark:
            return
        if not entry:
            self._store.send(path, key, self._moved_on)
        else:
            record = below.read(self._dir, name, codec.MAX_RECORD_BYTES)
            with tempfile.NamedTemporaryFile(dir=self._dir, prefix=".tmp-") as packed:
                with self._packing:
                    pack(path.parent, self._artifacts and self._artifacts / entry, packed)
                packed.flush()
                if below.read(self._dir, name, codec.MAX_RECORD_BYTES) != record:
                    return
                self._store.send(Path(packed.name), f"{self._plan.session}/{entry}/{ARCHIVE}", self._moved_on)
            if self._stopped or not self._lock.is_held():
                return
            self._store.write(key, record)
        self._sent[name] = mark
        self._moved_on()

    def _is_patient(self) -> bool:
        return time.monotonic() - self._progress_s < self._patience_s

    def _moved_on(self) -> None:
        self._progress_s = time.monotonic()


def _mark(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _patience_s() -> float:
    """How long the end of a session waits for a store that takes nothing more."""
    text = os.environ.get(PATIENCE) or "60"
    with suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise SessionError(f"{PATIENCE} is {text!r}: expected a number of seconds, such as 60")


def remove_old_copies(results_dir: Path, keep: int = KEPT_COPIES) -> None:
    """Remove all but the latest copies; one that the store has not all of, or that a sink waits for, stays."""
    waiting = {*below.names(results_dir, layout.OUTBOX)}
    for session_dir in sessions(results_dir)[keep:]:
        if below.is_file(session_dir, SENT) and session_dir.name not in waiting:
            lock = SessionLock(session_dir)
            with suppress(SessionError):
                lock.take()
                if below.is_file(session_dir, SENT):
                    below.remove_tree(results_dir, session_dir.name)
            lock.release()


def session_names(location: Location) -> list[str]:
    """The names of the sessions in a directory or at an address, the one that was started or ended last first."""
    if isinstance(location, Path):
        return [path.name for path in sessions(location)]
    store = ObjectStore(location)
    times = {
        Path(key).stem: modified_s(info) for key, info in store.find(SUMMARIES).items() if key.count("/") == 1
    }
    # Those of older versions have no summary, and are known by their plans.
    old = [name for name in store.children() if name != SUMMARIES and name not in times]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        heads = zip(old, pool.map(lambda name: store.head(f"{name}/plan.json"), old), strict=True)
        times |= {name: round(time.time() - head[1]) for name, head in heads if head}
    return sorted(times, key=lambda name: (times[name], name), reverse=True)


def is_stored_session(url: str) -> bool:
    """Whether this is the address of a session."""
    try:
        parent, name = split(url)
    except PacelineError:  # A whole bucket.
        return False
    return bool(read_summary(url) or ObjectStore(parent).head(f"{name}/plan.json"))


def read_summary(url: str) -> Mapping[str, Any] | None:
    """How a session stands; None if it has no summary, as those of older versions."""
    parent, name = split(url)
    with suppress(ValueError):
        summary = codec.load(ObjectStore(parent).read(f"{SUMMARIES}/{name}.json") or b"")
        if isinstance(summary, dict) and summary.get("session") == name:
            if summary.get("schema") != _SUMMARY_SCHEMA:
                raise codec.NewerSchema(f"{url} was written by a newer paceline: update to read it")
            return summary
    return None


@contextmanager
def fetched_session(url: str, *, case: str | None = None) -> Iterator[Path]:
    """A directory with a session's plan, report and records, for as long as it is looked at; and all of one case."""
    parent, session = split(url)
    layout.check_session_name(session)
    store = ObjectStore(parent)
    with tempfile.TemporaryDirectory(prefix="paceline-") as temporary:
        directory = Path(temporary) / session
        directory.mkdir()
        (directory / LOCK).touch()
        for name in ("plan.json", "report.json"):
            below.write(directory, name, store.read(f"{session}/{name}") or b"", durable=False)
        _fetch_records(store, directory)
        name = layout.safe_name(case) if case else ""
        for entry in (name, f"{layout.DATA_SETUP}/{name}") if name else ():
            if below.is_file(directory, f"{entry}/{RECORD}"):
                objects = _objects(store, session, entry)[entry]
                if sum(objects.values()) <= _SHOWN_BYTES:
                    _fetch_entry(store, directory, None, entry, objects)
        yield directory


def _objects(store: ObjectStore, session: str, entry: str = "") -> dict[str, dict[str, int]]:
    """The names and sizes of a session's objects, or of one of its entries, by entry; its own are those of none."""
    objects: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for key, info in store.find(f"{session}/{entry}".rstrip("/")).items():
        name = key.removeprefix(f"{session}/")
        try:
            below.check_name(store.url, name)
        except below.Refused:
            why = f"{store.url}/{session} has an object {name!r}, which is refused: remove it"
            raise UnsafeName(why) from None
        objects[entry_of(name)][name] = info["size"]
    return objects


def _fetch_records(
    store: ObjectStore, session_dir: Path, objects: Mapping[str, Iterable[str]] | None = None
) -> None:
    """Fetch the records of a session: out of its report, which is here, if it has ended, else each by itself."""
    session = session_dir.name
    summary = read_summary(f"{store.url}/{session}")
    if summary and summary.get("state") == FINISHED:
        with suppress(OSError, ValueError, KeyError, TypeError):
            report = below.read(session_dir, "report.json", codec.MAX_RECORD_BYTES)
            for data in codec.load(report)["records"]:
                entry = layout.entry_name(codec.from_json(data).case)
                below.write(session_dir, f"{entry}/{RECORD}", codec.dump_plain(data), durable=False)
            return
    objects = objects or _objects(store, session)
    names = [f"{entry}/{RECORD}" for entry, names in objects.items() if f"{entry}/{RECORD}" in names]

    def fetch(name: str) -> None:
        with suppress(FileNotFoundError):  # Removed since it was listed.
            store.receive(f"{session}/{name}", session_dir, name)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(fetch, names))


def _fetch_entry(
    store: ObjectStore, session_dir: Path, artifacts_dir: Path | None, entry: str, names: Iterable[str]
) -> None:
    """Fetch what is not here of a case: its archive or, as older versions kept it, each file by itself."""
    archive = f"{entry}/{ARCHIVE}"
    if archive in names:
        with tempfile.NamedTemporaryFile(dir=session_dir, prefix=".tmp-") as packed:
            store.receive(f"{session_dir.name}/{archive}", session_dir, Path(packed.name).name)
            below.make_dir(session_dir, entry)
            unpack(Path(packed.name), session_dir / entry, artifacts_dir and artifacts_dir / entry)
    for name in () if archive in names else names:
        if below.status(session_dir, name) is None:
            store.receive(f"{session_dir.name}/{name}", session_dir, name)
    restore_links(session_dir, entry)
