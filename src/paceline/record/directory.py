"""The directory of a session: made, filled case by case, and read back."""

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, overload

from paceline.errors import SessionError
from paceline.model import Case, Plan, Record
from paceline.record import codec, layout
from paceline.record.files import append_line, is_temporary, remove_temporary_files, write_atomic
from paceline.record.layout import ARTIFACTS, ATTEMPTS, LOGS, OUTPUT, RECORD, RESULTS, SCRATCH
from paceline.record.lock import SessionLock
from paceline.record.masking import mask_record, mask_result
from paceline.record.packages import link_lists
from paceline.record.redact import Redactor

log = logging.getLogger(__name__)

# Large or temporary: kept under `artifacts_dir` when there is one.
_ELSEWHERE = (LOGS, SCRATCH, layout.RAY_CLUSTER)
_STAYS = frozenset({ATTEMPTS, RESULTS})

DURABLE_FROM_S = 1.0
"""From which run time on a record is forced to the disk: a shorter run is cheaper to repeat after a power cut."""


class SessionDir:
    """A session's directory, and what is kept for each of its cases."""

    def __init__(
        self,
        path: Path,
        artifacts_dir: Path | None = None,
        redactor: Redactor | None = None,
        *,
        private: bool = False,
    ) -> None:
        self.path = path
        self._private = private
        self._artifacts = artifacts_dir / path.name if artifacts_dir else None
        self._redactor = redactor or Redactor()
        self._lock = SessionLock(path)
        self._last_entry: tuple[Case | None, Path] = (None, path)

    @classmethod
    def create(cls, plan: Plan, redactor: Redactor | None = None) -> Self:
        """A new directory for a plan."""
        directory = cls(plan.directory, plan.artifacts_dir, redactor, private=plan.settings.private)
        directory.make()
        return directory

    @classmethod
    def open(cls, path: Path, artifacts_dir: Path | None = None, redactor: Redactor | None = None) -> Self:
        """The directory of a session that was started before."""
        directory = cls(path, artifacts_dir, redactor)
        directory.check()
        return directory

    def make(self) -> None:
        """Make it; that one of this name is there already is an error."""
        path = self.path
        layout.check_session_name(path.name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(0o700 if self._private else 0o777)
            (path / layout.LOCK).touch()  # By it a directory is known as a session.
        except FileExistsError:
            if not path.is_dir():
                why = f"cannot create the session directory {path}: a file of that name is in the way"
                raise SessionError(why) from None
            hint = "go on with it by --resume, or choose another --session-name"
            raise SessionError(f"session {path.name} exists already in {path.parent}: {hint}") from None
        except OSError as error:
            why = f"cannot create the session directory {path}: {error.strerror or error}"
            raise SessionError(f"{why}; choose another place with --results-dir") from error

    def check(self) -> None:
        """Refuse a directory that is not a session's."""
        if not layout.is_session(self.path):
            raise SessionError(
                f"no session at {self.path}: 'paceline list' shows those of a results directory"
            )

    def lock(self) -> None:
        """Keep other runners out of this session for as long as this process lives, and others if it is private."""
        for path in filter(None, (self.path, self._artifacts)) if self._private else ():
            path.mkdir(0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
        if self._lock.take():
            remove_temporary_files(self.path)

    def unlock(self) -> None:
        """Let others in, and leave a lock file that says all ended well."""
        self._lock.release()

    def entry_dir(self, case: Case) -> Path:
        known, path = self._last_entry  # asked a dozen times for each case in turn
        if known is not case:
            path = layout.entry_path(self.path, case)
            self._last_entry = (case, path)
        return path

    def prepare(self, case: Case) -> Path:
        """Make a case's directories for a new attempt; what an earlier attempt left is moved aside."""
        entry = self.entry_dir(case)
        if not _make_dir(entry) and self._current_attempt(entry):
            self.move_aside(case)
        directories = [ARTIFACTS]
        if case.runs == 1:
            directories += layout.run_dirs(case)
        if case.cluster is not None:
            directories += (LOGS, layout.RAY_CLUSTER)
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
        self._make_dirs(directory, layout.run_dirs(case))
        _link_to(directory / OUTPUT, f"{LOGS}/{OUTPUT}")
        _link_to(entry / OUTPUT, f"{ATTEMPTS}/{label}/{LOGS}/{OUTPUT}")
        _link_to(entry / layout.BENCHMARK_RESULTS, f"{ATTEMPTS}/{label}/{layout.BENCHMARK_RESULTS}")
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
        directories = (LOGS, *(f"{ATTEMPTS}/{label}/{LOGS}" for label in layout.run_labels(entry)), ARTIFACTS)
        listed = [f"{name}/{file}" for name in directories for file in sorted(layout.names_in(entry / name))]
        return (*listed, *(name for name in ("resources.csv", "gpustats.csv") if (entry / name).exists()))

    def clean(self, case: Case) -> None:
        """Remove the scratch directories of a case that asked for it; one that resists is left and logged."""
        if not case.delete_scratch:
            return
        entry = self.entry_dir(case)
        if SCRATCH in layout.run_dirs(case):
            for directory in (entry, *(entry / ATTEMPTS / label for label in layout.run_labels(entry))):
                _remove_tree(directory / SCRATCH)

    def next_attempt(self, case: Case) -> int:
        """The number of the next attempt at a case: one more than any there has been."""
        entry = self.entry_dir(case)
        return max(layout.last_moved(entry), self._current_attempt(entry)) + 1

    def _current_attempt(self, entry: Path) -> int:
        """The number of the attempt whose files are in the entry's directory itself; 0 if there is none."""
        names = [name for name in layout.names_in(entry) if name not in _STAYS]
        if not names and not layout.run_labels(entry):
            return 0
        record = codec.read_record(entry / RECORD) if RECORD in names else None
        return record.attempt if record else layout.last_moved(entry) + 1

    def move_aside(self, case: Case, number: int | None = None) -> Path | None:
        """Move what an attempt left into `attempts/attempt-N`; never into one that is there."""
        entry = self.entry_dir(case)
        number = max(number or self._current_attempt(entry), 1)
        while (entry / ATTEMPTS / f"attempt-{number}").exists():
            number += 1
        labels = layout.run_labels(entry)
        names = [name for name in layout.names_in(entry) if name not in _STAYS]
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
        if is_temporary(source.name):
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

    def write_record(self, record: Record, tasks: Iterable[Any] | None = None) -> Record:
        """Write a case's record, and its line with what is known of its `tasks`; the record without secrets.

        An earlier attempt's record is moved aside with its files.
        """
        record = mask_record(record, self._redactor)
        entry = self.entry_dir(record.case)
        if not _make_dir(entry):
            earlier = codec.read_record(entry / RECORD)
            if earlier is not None and earlier.attempt != record.attempt:
                self.move_aside(record.case, earlier.attempt)
        data = codec.dump_plain(codec.to_json(record), pretty=True)
        write_atomic(entry / RECORD, data, durable=record.exec_time_s >= DURABLE_FROM_S)
        if tasks is not None:
            self.append_result_line(record.case, codec.result_data(record, entry, tasks))
        return record

    def read_record(self, case: Case) -> Record | None:
        """A case's record; None if there is none, or (logged) none that can be read."""
        return codec.read_record(self.entry_dir(case) / RECORD)

    def stored_records(self) -> Iterator[tuple[Path, Record]]:
        """All records that are on disk, each with its entry's directory, whatever the plan is now."""
        for pattern in (f"{layout.DATA_SETUP}/*/{RECORD}", f"*/{RECORD}"):
            for file in sorted(self.path.glob(pattern)):
                record = codec.read_record(file)
                if record is not None:
                    yield file.parent, record

    def records(self, cases: Iterable[Case]) -> "RecordFiles":
        """The records of these cases that are on disk, read one by one whenever they are asked for."""
        return RecordFiles(self, cases)

    def append_result_line(self, case: Case, data: Mapping[str, Any]) -> None:
        """Add an attempt's line to `results.jsonl`."""
        append_line(self.entry_dir(case) / RESULTS, mask_result(codec.plain(data), self._redactor))


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


def sessions(results_dir: Path) -> list[Path]:
    """The sessions of a results directory, the one started or resumed last first."""
    found = [path for name in layout.names_in(results_dir) if layout.is_session(path := results_dir / name)]
    return sorted(found, key=lambda path: (_last_started(path), path.name), reverse=True)


def _last_started(session_dir: Path) -> float:
    for name in (layout.LOCK, "plan.json"):
        with suppress(OSError):
            return (session_dir / name).stat().st_mtime
    return 0.0


def _make_dir(path: Path) -> bool:
    """Make a directory and, if need be, its parents; whether it is new."""
    try:
        os.mkdir(path)  # noqa: PTH102 - mostly the parent is there, and this is the cheapest way to know
    except FileExistsError:
        return False
    except FileNotFoundError:
        path.mkdir(parents=True, exist_ok=True)
    return True


def restore_links(entry: Path) -> None:
    """Make the links again that a case's directory has to its latest run, where they are not there."""
    label = layout.last_run_label(entry)
    latest = f"{ATTEMPTS}/{label}/" if label else ""
    targets = {OUTPUT: f"{latest}{LOGS}/{OUTPUT}"}
    if latest:
        targets[layout.BENCHMARK_RESULTS] = f"{latest}{layout.BENCHMARK_RESULTS}"
    for name, target in targets.items():
        if (entry / target).exists() and not os.path.lexists(entry / name):
            (entry / name).symlink_to(target)


def _link_to(link: Path, target: str) -> None:
    """Make a symbolic link, or let one that is there lead elsewhere."""
    try:
        link.symlink_to(target)
    except FileExistsError:
        link.unlink()
        link.symlink_to(target)


def _remove_tree(path: Path) -> None:
    if path.is_symlink():
        shutil.rmtree(path.resolve(), ignore_errors=True)
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        log.warning("%s could not be removed completely", path)


def is_kept(record: Record | None, case: Case, *, rerun_failed: bool) -> bool:
    """Whether a case finished with the same fingerprint, and passed if failures are to be run again."""
    if record is None or not case.is_same_work(record.case):
        return False
    return record.status.ok or (record.status.finished and not rerun_failed)
