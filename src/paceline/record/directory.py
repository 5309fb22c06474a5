"""The directory of a session: made, filled case by case, and read back."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, Self, overload

from paceline.errors import SessionError
from paceline.model import Case, Plan, Record
from paceline.record import below, codec, layout
from paceline.record.files import append_line
from paceline.record.layout import ARTIFACTS, ATTEMPTS, LOGS, OUTPUT, RECORD, RESULTS, SCRATCH
from paceline.record.lock import SessionLock
from paceline.record.masking import mask_record, mask_result
from paceline.record.packages import CONDA, PACKAGES
from paceline.record.redact import Redactor

log = logging.getLogger(__name__)

# Large or temporary: kept under `artifacts_dir` when there is one.
_ELSEWHERE = (LOGS, SCRATCH, layout.RAY_CLUSTER)
_STAYS = frozenset({ATTEMPTS, RESULTS})

DURABLE_FROM_S = 1.0
"""From which run time on a record is forced to the disk: a shorter run is cheaper to repeat after a power cut."""


class SessionDir:
    """A session's directory, and what is kept for each of its cases.

    Others may have made it, so that links in it are never followed: those that we make (the latest output, and what
    lies under `artifacts_dir`) are for people, and where they lead is computed.
    """

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
        self._artifacts = artifacts_dir
        self._redactor = redactor or Redactor()
        self._lock = SessionLock(path)
        self._last_entry: tuple[Case | None, str] = (None, "")

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
            below.write(path, layout.LOCK, b"", durable=False)  # By it a directory is known as a session.
            below.sync_dirs(path.parent, path.name)
        except FileExistsError:
            if not path.is_dir():
                why = f"cannot create the session directory {path}: a file of that name is in the way"
                raise SessionError(why) from None
            hint = "go on with it by --resume, or choose another --session-name"
            raise SessionError(f"session {path.name} exists already in {path.parent}: {hint}") from None
        except OSError as error:
            why = f"cannot create the session directory {path}: {error.strerror or error}"
            raise SessionError(f"{why}; choose another place with --results-dir") from error

    def check(self, *, resumes: bool = False) -> None:
        """Refuse a directory that is not a session's; to be resumed it may be empty, as a killed runner left it."""
        is_empty = (
            resumes and self.path.is_dir() and not self.path.is_symlink() and not below.names(self.path)
        )
        if not is_empty and not layout.is_session(self.path):
            raise SessionError(
                f"no session at {self.path}: 'paceline list' shows those of a results directory"
            )

    def lock(self) -> None:
        """Keep other runners out of this session for as long as this process lives, and others if it is private."""
        artifacts = self._artifacts / self.path.name if self._artifacts else None
        for path in filter(None, (self.path, artifacts)) if self._private else ():
            path.mkdir(0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
        if self._lock.take():
            below.remove_temporary_files(self.path)
            # Cases run what they find there, and a session that is resumed may be anybody's.
            if not self.remove_shared():
                self.unlock()
                raise SessionError(
                    f"cannot remove {self.path / layout.SHARED}, which cases would trust: remove it yourself"
                )

    def unlock(self) -> None:
        """Let others in, and leave a lock file that says all ended well."""
        self._lock.release()

    def entry_dir(self, case: Case) -> Path:
        return self.path / self._name(case)

    def _name(self, case: Case) -> str:
        known, name = self._last_entry  # asked a dozen times for each case in turn
        if known is not case:
            name = layout.entry_name(case)
            self._last_entry = (case, name)
        return name

    def prepare(self, case: Case) -> Path:
        """Make a case's directories for a new attempt; what an earlier attempt left is moved aside."""
        entry = self._name(case)
        if not below.make_dir(self.path, entry) and self._current_attempt(entry):
            self.move_aside(case)
        directories = [ARTIFACTS]
        if case.runs == 1:
            directories += layout.run_dirs(case)
        if case.cluster is not None:
            directories += (LOGS, layout.RAY_CLUSTER)
        self._make_dirs(entry, dict.fromkeys(directories))
        if case.runs == 1:
            below.link(self.path, f"{entry}/{OUTPUT}", f"{LOGS}/{OUTPUT}")
        for name, copy in ((PACKAGES, "pip-freeze.txt"), (CONDA, CONDA)):
            below.hard_link(self.path, name, f"{entry}/{ARTIFACTS}/{copy}")
        return self.path / entry

    def keep_packages(self, case: Case, packages: str, conda: str) -> None:
        """Those of a prepared case whose Python is not the session's; an empty text is unknown, and no file."""
        for name, text in (("pip-freeze.txt", packages), (CONDA, conda)):
            target = f"{self._name(case)}/{ARTIFACTS}/{name}"
            if text:
                below.write(self.path, target, text.encode(), durable=False)
            else:
                below.remove(self.path, target)

    def run_dir(self, case: Case, label: str | None = None) -> Path:
        """The directory of one run of a prepared case: the entry's own, or `attempts/<label>` of several."""
        entry = self._name(case)
        if label is None:
            return self.path / entry
        directory = f"{entry}/{ATTEMPTS}/{label}"
        self._make_dirs(directory, layout.run_dirs(case))
        results = layout.BENCHMARK_RESULTS
        below.link(self.path, f"{directory}/{OUTPUT}", f"{LOGS}/{OUTPUT}")
        below.link(self.path, f"{entry}/{OUTPUT}", f"{ATTEMPTS}/{label}/{LOGS}/{OUTPUT}")
        below.link(self.path, f"{entry}/{results}", f"{ATTEMPTS}/{label}/{results}")
        return self.path / directory

    def _make_dirs(self, directory: str, names: Iterable[str]) -> None:
        below.make_dir(self.path, directory)
        for name in names:
            if self._artifacts and name in _ELSEWHERE:
                self._artifacts.mkdir(parents=True, exist_ok=True)
                below.make_dir(*self._location(f"{directory}/{name}"))
                self._link_elsewhere(f"{directory}/{name}")
            else:
                below.make_dir(self.path, f"{directory}/{name}")

    def _link_elsewhere(self, name: str) -> None:
        """Let a directory of ours show what `artifacts_dir` has under its name."""
        root, target = self._location(name)
        below.link(self.path, name, str(root.absolute() / target))

    def location(self, case: Case, name: str) -> tuple[Path, str]:
        """The root, ours or `artifacts_dir`, and the name below it, where one of a case's files lies."""
        return self._location(f"{self._name(case)}/{name}")

    def _location(self, name: str) -> tuple[Path, str]:
        in_run = name.split("/")[2 if name.startswith(f"{layout.DATA_SETUP}/") else 1 :]
        while len(in_run) > 2 and in_run[0] == ATTEMPTS:
            in_run = in_run[2:]
        if self._artifacts and in_run and in_run[0] in _ELSEWHERE:
            return self._artifacts, f"{self.path.name}/{name}"
        return self.path, name

    def artifacts(self, case: Case) -> tuple[str, ...]:
        """The files worth keeping with a record, relative to the entry's directory."""
        entry = self._name(case)
        labels = layout.run_labels(self.path, entry)
        directories = (LOGS, *(f"{ATTEMPTS}/{label}/{LOGS}" for label in labels), ARTIFACTS)
        names = [f"{entry}/{name}" for name in directories]
        listed = [f"{name}/{file}" for name in names for file in below.names(*self._location(name))]
        tables = [f"{entry}/{name}" for name in ("resources.csv", "gpustats.csv")]
        listed += [name for name in tables if below.is_file(self.path, name)]
        return tuple(name.removeprefix(f"{entry}/") for name in listed)

    def output_tail(self, case: Case, limit: int) -> bytes:
        """The last bytes that a case's latest run printed; OSError where there is no log."""
        entry = self._name(case)
        latest = f"{layout.last_run(self.path, entry)}/{LOGS}/{OUTPUT}"
        try:
            return below.read_end(*self._location(latest), limit)
        except FileNotFoundError:  # A stub of evals has its output in the entry itself.
            return below.read_end(self.path, f"{entry}/{OUTPUT}", limit)

    def clean(self, case: Case) -> None:
        """Remove the scratch directories of a case that asked for it; one that resists is left and logged."""
        if not case.delete_scratch:
            return
        entry = self._name(case)
        if SCRATCH not in layout.run_dirs(case):
            return
        labels = layout.run_labels(self.path, entry)
        for directory in (entry, *(f"{entry}/{ATTEMPTS}/{label}" for label in labels)):
            name = f"{directory}/{SCRATCH}"
            for root, inner in {self._location(name), (self.path, name)}:
                if not below.remove_tree(root, inner):
                    log.warning("%s could not be removed completely", root / inner)

    def remove_shared(self) -> bool:
        """Remove what the cases have shared; what resists is left and logged. Whether it is gone."""
        is_gone = below.remove_tree(self.path, layout.SHARED)
        if not is_gone:
            log.warning("%s could not be removed completely", self.path / layout.SHARED)
        return is_gone

    def next_attempt(self, case: Case) -> int:
        """The number of the next attempt at a case: one more than any there has been."""
        entry = self._name(case)
        return max(layout.last_moved(self.path, entry), self._current_attempt(entry)) + 1

    def _current_attempt(self, entry: str) -> int:
        """The number of the attempt whose files are in the entry's directory itself; 0 if there is none."""
        names = [name for name in below.names(self.path, entry) if name not in _STAYS]
        if not names and not layout.run_labels(self.path, entry):
            return 0
        record = self._read(entry) if RECORD in names else None
        return record.attempt if record else layout.last_moved(self.path, entry) + 1

    def move_aside(self, case: Case, number: int | None = None) -> Path | None:
        """Move what an attempt left into `attempts/attempt-N`; never into one that is there."""
        entry = self._name(case)
        number = max(number or self._current_attempt(entry), 1)
        labels = layout.run_labels(self.path, entry)
        names = [name for name in below.names(self.path, entry) if name not in _STAYS]
        if not names and not labels:
            return None
        while not below.make_dir(self.path, target := f"{entry}/{ATTEMPTS}/attempt-{number}"):
            number += 1
        # The record goes first: a crash on the way must leave no record whose logs are gone.
        for name in sorted(names, key=lambda name: name != RECORD):
            self._move(f"{entry}/{name}", f"{target}/{name}")
        for label in labels:
            self._move(f"{entry}/{ATTEMPTS}/{label}", f"{target}/{ATTEMPTS}/{label}")
        return self.path / target

    def _move(self, source: str, target: str) -> None:
        """Rename one of an attempt's files or directories; links into `artifacts_dir` move with what they show."""
        if below.is_temporary(source.rpartition("/")[2]):
            below.remove(self.path, source)
            return
        below.rename(self.path, source, target)
        if self._artifacts:
            with suppress(FileNotFoundError):  # Not kept there, or scratch that was cleaned.
                below.rename(self._artifacts, f"{self.path.name}/{source}", f"{self.path.name}/{target}")
            for name in (target, *(f"{target}/{name}" for name in _ELSEWHERE)):
                if name.rpartition("/")[2] in _ELSEWHERE and below.is_link(self.path, name):
                    self._link_elsewhere(name)

    def write_record(self, record: Record, tasks: Iterable[Any] | None = None) -> Record:
        """Write a case's record, and its line with what is known of its `tasks`; the record without secrets.

        An earlier attempt's record is moved aside with its files.
        """
        record = mask_record(record, self._redactor)
        entry = self._name(record.case)
        if not below.make_dir(self.path, entry):
            earlier = self._read(entry)
            if earlier is not None and earlier.attempt != record.attempt:
                self.move_aside(record.case, earlier.attempt)
        data = codec.dump_plain(codec.to_json(record), pretty=True)
        below.write(self.path, f"{entry}/{RECORD}", data, durable=record.exec_time_s >= DURABLE_FROM_S)
        if tasks is not None:
            self.append_result_line(record.case, codec.result_data(record, self.path / entry, tasks))
        return record

    def read_record(self, case: Case) -> Record | None:
        """A case's record; None if there is none, or (logged) none that can be read."""
        return self._read(self._name(case))

    def _read(self, entry: str) -> Record | None:
        return codec.read_record_below(self.path, f"{entry}/{RECORD}")

    def has_record(self, case: Case) -> bool:
        return below.is_file(self.path, f"{self._name(case)}/{RECORD}")

    def stored_records(self) -> Iterator[tuple[Path, Record]]:
        """All records that are on disk, each with its entry's directory, whatever the plan is now."""
        setups = [f"{layout.DATA_SETUP}/{name}" for name in below.names(self.path, layout.DATA_SETUP)]
        for entry in (*setups, *below.names(self.path)):
            record = self._read(entry) if below.is_dir(self.path, entry) else None
            if record is not None:
                yield self.path / entry, record

    def records(self, cases: Iterable[Case]) -> "RecordFiles":
        """The records of these cases that are on disk, read one by one whenever they are asked for."""
        return RecordFiles(self, cases)

    def append_result_line(self, case: Case, data: Mapping[str, Any]) -> None:
        """Add an attempt's line to `results.jsonl`."""
        name = f"{self._name(case)}/{RESULTS}"
        append_line(self.path / name, mask_result(codec.plain(data), self._redactor), root=self.path)


class RecordFiles(Sequence[Record]):
    """The records of a session on disk; holds none of them in memory."""

    def __init__(self, directory: SessionDir, cases: Iterable[Case]) -> None:
        self._directory = directory
        self._cases = [case for case in cases if directory.has_record(case)]

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
    times: dict[str, float] = {}
    for name in below.names(results_dir):
        marks = (below.status(results_dir, f"{name}/{mark}") for mark in (layout.LOCK, "plan.json"))
        mark = next((one for one in marks if one and S_ISREG(one.st_mode)), None)
        if mark is not None:
            times[name] = mark.st_mtime
    return [results_dir / name for name in sorted(times, key=lambda name: (times[name], name), reverse=True)]


def restore_links(session_dir: Path, entry: str) -> None:
    """Make the links again that a case's directory has to its latest run, where they are not there."""
    latest = layout.last_run(session_dir, entry).removeprefix(entry).lstrip("/")
    targets = {OUTPUT: f"{LOGS}/{OUTPUT}"}
    if latest:
        targets = {OUTPUT: f"{latest}/{LOGS}/{OUTPUT}"}
        targets[layout.BENCHMARK_RESULTS] = f"{latest}/{layout.BENCHMARK_RESULTS}"
    for name, target in targets.items():
        is_there = below.status(session_dir, f"{entry}/{target}") is not None
        if is_there and below.status(session_dir, f"{entry}/{name}") is None:
            below.link(session_dir, f"{entry}/{name}", target)


def is_kept(record: Record | None, case: Case, *, rerun_failed: bool) -> bool:
    """Whether a case finished with the same fingerprint, and passed if failures are to be run again."""
    if record is None or not case.is_same_work(record.case):
        return False
    return record.status.ok or (record.status.finished and not rerun_failed)
