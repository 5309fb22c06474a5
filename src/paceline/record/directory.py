"""The directory of a session: its names, its lock, and how its files are written so that a crash leaves no half one."""

import fcntl
import hashlib
import itertools
import json
import logging
import os
import re
import secrets
import shutil
import socket
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from errno import ENOLCK, EOPNOTSUPP
from pathlib import Path
from typing import Any, Self, overload

from paceline.errors import SessionError
from paceline.model import RUN_DIR, Case, Plan, Record
from paceline.record import codec
from paceline.record.events import end_torn_line, utc_now
from paceline.record.packages import CONDA, PACKAGES, link_lists
from paceline.record.redact import Redactor

log = logging.getLogger(__name__)

LOCK, RESERVE = ".lock", ".reserve"
_PLANNED = ("config.yaml", "plan.json", "environment.json", PACKAGES, CONDA)
_REPORTED = ("events.jsonl", "report.json", "report.md", "junit.xml")
SESSION_FILES = (*_PLANNED, *_REPORTED, LOCK, RESERVE)
DATA_SETUP = "data_setup"
RECORD, RESULTS, RUNNING, OUTPUT = "record.json", "results.jsonl", "running.json", "stdouterr.log"
LOGS, ARTIFACTS, BENCHMARK_RESULTS, SCRATCH = "logs", "artifacts", "benchmark_results", "scratch"
RAY_CLUSTER, ATTEMPTS = "ray_cluster", "attempts"
ENTRY_FILES = (RECORD, RESULTS, RUNNING, OUTPUT, "resources.csv", "gpustats.csv")
ENTRY_DIRS = (LOGS, ARTIFACTS, BENCHMARK_RESULTS, SCRATCH, RAY_CLUSTER, ATTEMPTS)

MAX_NAME_BYTES = 120
_RESERVED = frozenset({*SESSION_FILES, DATA_SETUP})
_PLAIN_NAME = re.compile(r"[\w+=,@\[\]-][\w.+=,@\[\]-]*")
_OTHER_CHARACTERS = re.compile(r"[^\w.+=,@\[\]-]")
_MOVED_LABEL = re.compile(r"attempt-(\d+)")
_ELSEWHERE = (LOGS, SCRATCH, RAY_CLUSTER)  # Large or temporary: kept under `artifacts_dir` when there is one.
_STAYS = frozenset({ATTEMPTS, RESULTS, RUNNING})
_TEMPORARY = ".tmp-"

# A process id alone does not tell two runners apart: containers that share a disk often have the same.
_RUNNER = secrets.token_hex(8)
_counter = itertools.count()


def safe_name(name: str) -> str:
    """A directory name for a case; one that had to be changed ends with a hash. Upper and lower case stay."""
    plain = _PLAIN_NAME.fullmatch(name) and name not in _RESERVED and unicodedata.is_normalized("NFC", name)
    if plain and len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    kept = _OTHER_CHARACTERS.sub("_", unicodedata.normalize("NFC", name)).lstrip(".")
    room = MAX_NAME_BYTES - len(digest) - 1
    return f"{kept.encode()[:room].decode('utf-8', 'ignore') or '_'}-{digest}"


def check_session_name(name: str) -> None:
    """Refuse a session name that is no name of a directory inside the results directory."""
    hidden_or_empty = not name.strip() or name.startswith(".")
    if hidden_or_empty or "/" in name or not name.isprintable() or len(name.encode()) > 255:
        raise SessionError(
            f"{name!r} is no session name: give one without '/', control characters or a leading dot, "
            "of at most 255 bytes"
        )


def entry_path(session_dir: Path, case: Case) -> Path:
    """The directory of a case inside its session's."""
    parent = session_dir / DATA_SETUP if case.kind == "data_setup" else session_dir
    return parent / safe_name(case.name)


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Write a whole file or nothing; readers see the old one or the new one."""
    temporary = f"{path.parent}/{_TEMPORARY}{_RUNNER}-{os.getpid()}-{next(_counter)}"
    try:
        with open(temporary, "xb", buffering=0) as file:  # noqa: PTH123
            for part in (data,) if isinstance(data, bytes) else data:
                _write_all(file.fileno(), part)
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105 - a Path object more would cost as much as the call
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class SessionDir:
    """A session's directory, and what is kept for each of its cases."""

    def __init__(
        self, path: Path, artifacts_dir: Path | None = None, redactor: Redactor | None = None
    ) -> None:
        self.path = path
        self._artifacts = artifacts_dir / path.name if artifacts_dir else None
        self._redactor = redactor
        self._lock_fd: int | None = None

    @classmethod
    def create(cls, plan: Plan, redactor: Redactor | None = None) -> Self:
        """A new directory for a plan; that one of this name is there already is an error."""
        check_session_name(plan.session)
        path = plan.directory
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir()
            (path / LOCK).touch()  # By it a directory is known as a session.
        except FileExistsError:
            raise _exists(path) from None
        except OSError as error:
            why = f"cannot create the session directory {path}: {error.strerror or error}"
            raise SessionError(f"{why}; choose another place with --results-dir") from error
        return cls(path, plan.artifacts_dir, redactor)

    @classmethod
    def open(cls, path: Path, artifacts_dir: Path | None = None, redactor: Redactor | None = None) -> Self:
        """The directory of a session that was started before."""
        if not is_session(path):
            raise SessionError(f"no session at {path}: 'paceline list' shows those of a results directory")
        return cls(path, artifacts_dir, redactor)

    def lock(self) -> None:
        """Keep other runners out of this session for as long as this process lives."""
        if self._lock_fd is not None:
            return
        fd = _open_lock(self.path)
        if _try_lock(fd) is False:
            os.close(fd)
            raise _locked(self.path)
        owner = codec.dump({"pid": os.getpid(), "host": socket.gethostname(), "runner": _RUNNER})
        os.ftruncate(fd, os.pwrite(fd, owner, 0))
        self._lock_fd = fd
        _remove_temporary_files(self.path)

    def unlock(self) -> None:
        """Let others in, and leave a lock file that says all ended well."""
        if self._lock_fd is not None:
            with suppress(OSError):
                os.ftruncate(self._lock_fd, 0)
            os.close(self._lock_fd)
            self._lock_fd = None

    def entry_dir(self, case: Case) -> Path:
        return entry_path(self.path, case)

    def prepare(self, case: Case) -> Path:
        """Make a case's directories for a new attempt; what an earlier attempt left is moved aside."""
        entry = self.entry_dir(case)
        if not _make_dir(entry) and self._current_attempt(entry):
            self.move_aside(case)
        directories = [ARTIFACTS]
        if case.runs == 1:
            directories += _run_dirs(case)
        if case.cluster is not None:
            directories += (LOGS, RAY_CLUSTER)
        self._make_dirs(entry, dict.fromkeys(directories))
        if case.runs == 1:
            _link_to(entry / OUTPUT, f"{LOGS}/{OUTPUT}")
        self.link_packages(case)
        return entry

    def run_dir(self, case: Case, label: str | None = None) -> Path:
        """The directory of one run of a prepared case: the entry's own, or `attempts/<label>` of several."""
        entry = self.entry_dir(case)
        if label is None:
            return entry
        directory = entry / ATTEMPTS / label
        self._make_dirs(directory, _run_dirs(case))
        _link_to(directory / OUTPUT, f"{LOGS}/{OUTPUT}")
        _link_to(entry / OUTPUT, f"{ATTEMPTS}/{label}/{LOGS}/{OUTPUT}")
        return directory

    def _make_dirs(self, directory: Path, names: Iterable[str]) -> None:
        _make_dir(directory)
        for name in names:
            if self._artifacts and name in _ELSEWHERE:
                target = self._elsewhere(directory) / name
                _make_dir(target)
                _link_to(directory / name, str(target.absolute()))
            else:
                _make_dir(directory / name)

    def _elsewhere(self, directory: Path) -> Path:
        """The directory under `artifacts_dir` that belongs to one of ours."""
        return (self._artifacts or self.path) / directory.relative_to(self.path)

    def link_packages(self, case: Case) -> None:
        """Give an entry the session's list of packages, as a hard link where the disk has them."""
        link_lists(self.path, self.entry_dir(case) / ARTIFACTS)

    def artifacts(self, case: Case) -> tuple[str, ...]:
        """The files worth keeping with a record, relative to the entry's directory."""
        entry = self.entry_dir(case)
        directories = (LOGS, *(f"{ATTEMPTS}/{label}/{LOGS}" for label in _run_labels(entry)), ARTIFACTS)
        listed = [f"{name}/{file}" for name in directories for file in sorted(_names(entry / name))]
        return (*listed, *(name for name in ("resources.csv", "gpustats.csv") if (entry / name).exists()))

    def clean(self, case: Case) -> None:
        """Remove the scratch directories of a case that asked for it; one that resists is left and logged."""
        if not case.delete_scratch:
            return
        entry = self.entry_dir(case)
        for directory in (entry, *(entry / ATTEMPTS / label for label in _run_labels(entry))):
            _remove_tree(directory / SCRATCH)

    def next_attempt(self, case: Case) -> int:
        """The number of the next attempt at a case: one more than any there has been."""
        entry = self.entry_dir(case)
        return max(_last_moved(entry), self._current_attempt(entry)) + 1

    def _current_attempt(self, entry: Path) -> int:
        """The number of the attempt whose files are in the entry's directory itself; 0 if there is none."""
        names = [name for name in _names(entry) if name not in _STAYS]
        if not names and not _run_labels(entry):
            return 0
        record = codec.read_record(entry / RECORD) if RECORD in names else None
        return record.attempt if record else _last_moved(entry) + 1

    def move_aside(self, case: Case, number: int | None = None) -> Path | None:
        """Move what an attempt left into `attempts/attempt-N`; never into one that is there."""
        entry = self.entry_dir(case)
        number = max(number or self._current_attempt(entry), 1)
        while (entry / ATTEMPTS / f"attempt-{number}").exists():
            number += 1
        labels = _run_labels(entry)
        names = [name for name in _names(entry) if name not in _STAYS]
        if not names and not labels:
            return None
        target = entry / ATTEMPTS / f"attempt-{number}"
        target.mkdir(parents=True)
        # The record goes first: a crash on the way must leave no record whose logs are gone.
        for name in sorted(names, key=lambda name: name != RECORD):
            self._move(entry / name, target / name)
        for label in labels:
            _make_dir(target / ATTEMPTS)
            self._move(entry / ATTEMPTS / label, target / ATTEMPTS / label)
        return target

    def _move(self, source: Path, target: Path) -> None:
        """Rename one of an attempt's files or directories; links into `artifacts_dir` move with what they show."""
        if source.name.startswith(_TEMPORARY):
            source.unlink(missing_ok=True)
            return
        source.rename(target)
        if self._artifacts:
            moved = self._elsewhere(target)
            moved.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # Not kept there, or scratch that was cleaned.
                self._elsewhere(source).rename(moved)
            for link in (target, *(target / name for name in _ELSEWHERE)):
                if link.is_symlink() and link.name in _ELSEWHERE:
                    _link_to(link, str(self._elsewhere(link).absolute()))

    def write_record(self, record: Record) -> None:
        """Write a case's record; an earlier attempt's is moved aside with its files."""
        entry = self.entry_dir(record.case)
        if not _make_dir(entry):
            earlier = codec.read_record(entry / RECORD)
            if earlier is not None and earlier.attempt != record.attempt:
                self.move_aside(record.case, earlier.attempt)
        data = codec.dump_plain(codec.to_json(record), pretty=True, redactor=self._redactor)
        write_atomic(entry / RECORD, data)

    def read_record(self, case: Case) -> Record | None:
        """A case's record; None if there is none, or (logged) none that can be read."""
        return codec.read_record(self.entry_dir(case) / RECORD)

    def records(self, cases: Iterable[Case]) -> "RecordFiles":
        """The records of these cases that are on disk, read one by one whenever they are asked for."""
        return RecordFiles(self, cases)

    def append_result_line(self, case: Case, data: Mapping[str, Any]) -> None:
        """Add an attempt's line to `results.jsonl`."""
        fd = os.open(self.entry_dir(case) / RESULTS, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            end_torn_line(fd)
            _write_all(fd, codec.dump(data, redactor=self._redactor) + b"\n")
        finally:
            os.close(fd)

    def mark_running(self, case: Case, run_id: str) -> None:
        """Note, before a command starts, by which mark its processes are known."""
        marker = {"run_id": run_id, "pid": os.getpid(), "started_at": utc_now(), "runner": _RUNNER}
        (self.entry_dir(case) / RUNNING).write_bytes(codec.dump(marker))

    def unmark_running(self, case: Case) -> None:
        (self.entry_dir(case) / RUNNING).unlink(missing_ok=True)


class RecordFiles(Sequence[Record]):
    """The records of a session on disk; holds none of them in memory."""

    def __init__(self, directory: SessionDir, cases: Iterable[Case]) -> None:
        self._directory = directory
        self._cases = [case for case in cases if os.path.exists(directory.entry_dir(case) / RECORD)]  # noqa: PTH110

    def __len__(self) -> int:
        return len(self._cases)

    def __iter__(self) -> Iterator[Record]:
        return (record for case in self._cases if (record := self._directory.read_record(case)) is not None)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if isinstance(index, slice):
            return RecordFiles(self._directory, self._cases[index])
        case = self._cases[index]
        record = self._directory.read_record(case)
        if record is None:
            path = self._directory.entry_dir(case) / RECORD
            raise SessionError(f"{path} cannot be read: run the session again with --resume")
        return record


def is_session(path: Path) -> bool:
    """Whether a directory is one of ours."""
    return (path / LOCK).is_file() or (path / "plan.json").is_file()


def sessions(results_dir: Path) -> list[Path]:
    """The sessions of a results directory, the one started or resumed last first."""
    found = [path for name in _names(results_dir) if is_session(path := results_dir / name)]
    return sorted(found, key=lambda path: (_last_started(path), path.name), reverse=True)


def newest(results_dir: Path) -> Path | None:
    """The session that was started or resumed last."""
    return next(iter(sessions(results_dir)), None)


def stale_run_ids(session_dir: Path) -> list[str]:
    """The marks of commands that a runner, now dead, had started and did not see end."""
    if not _was_abandoned(session_dir):
        return []
    return [marker["run_id"] for _, marker in _foreign_markers(session_dir)]


def clear_stale(session_dir: Path) -> None:
    """Forget what `stale_run_ids` told, once those processes are gone."""
    if not _was_abandoned(session_dir):
        return
    for path, _ in list(_foreign_markers(session_dir)):
        path.unlink(missing_ok=True)
    if _read_small(session_dir / LOCK).get("runner") != _RUNNER:
        fd = _open_lock(session_dir)
        if _try_lock(fd):  # Else a runner took the session up just now, and its name must stay.
            os.ftruncate(fd, 0)
        os.close(fd)


def _foreign_markers(session_dir: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    setups = session_dir / DATA_SETUP
    for parent in (session_dir, setups):
        for name in _names(parent):
            path = parent / name / RUNNING
            marker = _read_small(path)
            if isinstance(marker.get("run_id"), str) and marker.get("runner") != _RUNNER:
                yield path, marker


def _was_abandoned(session_dir: Path) -> bool:
    """Whether a runner has died in this session: it is named in the lock file and does not hold it."""
    owner = _read_small(session_dir / LOCK)
    if not owner:
        return False
    if owner.get("runner") == _RUNNER:
        return True
    try:
        fd = os.open(session_dir / LOCK, os.O_RDWR)
    except OSError:  # Somebody else's session that we may only read.
        return False
    try:
        return _try_lock(fd) is True
    finally:
        os.close(fd)


def _open_lock(session_dir: Path) -> int:
    try:
        return os.open(session_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise SessionError(f"cannot lock the session {session_dir}: {error.strerror or error}") from error


def _try_lock(fd: int) -> bool | None:
    """Whether the lock is ours now; None on a file system that has no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return None if error.errno in (ENOLCK, EOPNOTSUPP) else False
    return True


def _locked(session_dir: Path) -> SessionError:
    owner = _read_small(session_dir / LOCK)
    who = f"process {owner['pid']} on {owner.get('host')}" if "pid" in owner else "another process"
    return SessionError(f"session {session_dir.name} is being run by {who}: wait for it, or end it first")


def _exists(path: Path) -> SessionError:
    if not path.is_dir():
        return SessionError(f"cannot create the session directory {path}: a file of that name is in the way")
    hint = "go on with it by --resume, or choose another --session-name"
    return SessionError(f"session {path.name} exists already in {path.parent}: {hint}")


def _read_small(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _last_started(session_dir: Path) -> float:
    for name in (LOCK, "plan.json"):
        with suppress(OSError):
            return (session_dir / name).stat().st_mtime
    return 0.0


def _run_dirs(case: Case) -> tuple[str, ...]:
    """The directories of a run; scratch only for a command that is told where its directory is."""
    inside = case.results_path.startswith(f"{RUN_DIR}/")
    texts = (*case.argv, *case.env.values(), case.cwd or "")
    others = (text.replace(case.results_path, "") if inside else text for text in texts if RUN_DIR in text)
    told = any(RUN_DIR in text for text in others)
    return (LOGS, BENCHMARK_RESULTS, SCRATCH) if told else (LOGS, BENCHMARK_RESULTS)


def _make_dir(path: Path) -> bool:
    """Make a directory and, if need be, its parents; whether it is new."""
    try:
        os.mkdir(path)  # noqa: PTH102 - mostly the parent is there, and this is the cheapest way to know
    except FileExistsError:
        return False
    except FileNotFoundError:
        path.mkdir(parents=True, exist_ok=True)
    return True


def _link_to(link: Path, target: str) -> None:
    """Make or turn a symbolic link."""
    try:
        link.symlink_to(target)
    except FileExistsError:
        link.unlink()
        link.symlink_to(target)


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208 - only the names are wanted
    except (FileNotFoundError, NotADirectoryError):
        return []


def _run_labels(entry: Path) -> list[str]:
    """The labels of the current attempt's own runs, not those of attempts moved aside."""
    return sorted(name for name in _names(entry / ATTEMPTS) if not _MOVED_LABEL.fullmatch(name))


def _last_moved(entry: Path) -> int:
    matches = (_MOVED_LABEL.fullmatch(name) for name in _names(entry / ATTEMPTS))
    return max((int(match[1]) for match in matches if match), default=0)


def _remove_tree(path: Path) -> None:
    if path.is_symlink():
        shutil.rmtree(path.resolve(), ignore_errors=True)
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        log.warning("%s could not be removed completely", path)


def _remove_temporary_files(directory: Path) -> None:
    for name in _names(directory):
        if name.startswith(_TEMPORARY):
            (directory / name).unlink(missing_ok=True)
