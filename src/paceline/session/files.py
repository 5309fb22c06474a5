"""What a session writes besides its cases' own files, and how records get onto a disk that is full."""

import errno
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.config.load import Loaded
from paceline.config.resolved import resolved_text
from paceline.errors import SessionError
from paceline.model import Plan, Record, Setting
from paceline.plan import plan_json
from paceline.record.atomic import write_atomic
from paceline.record.codec import dump, result_data
from paceline.record.directory import SessionDir, sessions
from paceline.record.environment import Environment, capture
from paceline.record.lock import clear_stale, stale_run_ids
from paceline.record.packages import CONDA, PACKAGES
from paceline.record.redact import Redactor
from paceline.record.remote.session import KeptHere
from paceline.record.reserve import Reserve
from paceline.run.local.leftovers import sweep
from paceline.run.ray.home import sweep_stale

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def remove_leftovers(results_dir: Path) -> None:
    """End what runners that were killed left running; only processes that carry the mark of one of our runs."""
    for session_dir in sessions(results_dir):
        sweep(stale_run_ids(session_dir))
        clear_stale(session_dir)
    sweep_stale()


def write_start(
    plan: Plan,
    loaded: Loaded,
    directory: SessionDir,
    redactor: Redactor,
    *,
    keep_plan: bool = False,
    setting: Setting | None = None,
) -> Environment:
    """The session's own files, all written before the first case starts; `keep_plan` if this is only a part of it."""
    repo_dir = setting.repo_dir if setting else None
    environment = capture(
        python=(setting and setting.python) or sys.executable,
        cwd=Path(repo_dir) if repo_dir else None,
        redactor=redactor,
        secret_names=plan.secret_names,
        # What is measured is the setting's repository, whichever one the suite lies in.
        config_files=() if repo_dir else loaded.files,
        settings=plan.settings,
    )
    files: dict[str, bytes] = {
        "config.yaml": resolved_text(loaded, redactor.data).encode(),
        "plan.json": dump(plan_json(plan, redactor), pretty=True),
        "environment.json": dump(environment.data, pretty=True),
        PACKAGES: "".join(f"{line}\n" for line in environment.packages).encode(),
    }
    if environment.conda_explicit:
        files[CONDA] = environment.conda_explicit.encode()
    try:
        if plan.artifacts_dir is not None:
            plan.artifacts_dir.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            if not (keep_plan and name in ("config.yaml", "plan.json") and (directory.path / name).exists()):
                write_atomic(directory.path / name, data)
    except OSError as error:
        where = error.filename or directory.path
        raise SessionError(f"cannot write the session's files: {where}: {error.strerror or error}") from error
    return environment


class Store:
    """Writes records, with a reserve for the moment when the disk is full."""

    def __init__(self, directory: SessionDir, kept: KeptHere) -> None:
        self._directory = directory
        self._kept = kept
        self._reserve = Reserve(directory.path)
        self._reserve.hold()
        self.fault = ""

    def write(self, record: Record, tasks: Sequence[Mapping[str, Any]]) -> bool:
        """Write a record; False when no further case should begin: the disk is full, or the session not ours."""
        is_written = self._write_for_sure(record, tasks)
        self._kept.case_ended(record.case)
        self.fault = self.fault or self._kept.fault
        return is_written and not self.fault

    def _write_for_sure(self, record: Record, tasks: Sequence[Mapping[str, Any]]) -> bool:
        try:
            self._write(record, tasks)
            return True
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise self._unwritable(record, error) from error
        self._reserve.release()
        try:
            self._write(record, tasks)
        except OSError as error:
            raise self._unwritable(record, error) from error
        return self._reserve.hold() or self._give_up()

    def release(self) -> None:
        """Free the reserve: the session is ending, and its report needs the room."""
        self._reserve.release()

    def _write(self, record: Record, tasks: Sequence[Mapping[str, Any]]) -> None:
        self._directory.write_record(record)
        entry_dir = self._directory.entry_dir(record.case)
        self._directory.append_result_line(record.case, result_data(record, entry_dir, tasks))

    def _give_up(self) -> bool:
        name = self._directory.path.name
        self.fault = (
            f"the disk is full: free space under {self._directory.path}, then go on with --resume {name}"
        )
        return False

    def _unwritable(self, record: Record, error: OSError) -> SessionError:
        entry_dir = self._directory.entry_dir(record.case)
        return SessionError(
            f"cannot write the record of {record.case.name} into {entry_dir}: {error.strerror or error}"
        )
