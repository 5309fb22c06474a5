import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from paceline.errors import SessionError
from paceline.record.directory import SessionDir
from paceline.record.events import EventLog
from paceline.record.lock import SessionLock, clear_stale, is_running, stale_run_ids, unchanged_time
from record.session_dirs import names_in

HOLD_LOCK = """
import sys
from pathlib import Path
from paceline.record.directory import SessionDir
from paceline.record.events import EventLog
directory = SessionDir.open(Path(sys.argv[1]))
directory.lock()
events = EventLog(directory.path / "events.jsonl")
for name in ("over", *sys.argv[2:]):
    events.write("run_started", run_id="id-of-" + name)
events.write("run_ended", run_id="id-of-over")
print("locked", flush=True)
sys.stdin.read()
directory.unlock()
"""


def start_runner(path: Path, *running: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", HOLD_LOCK, str(path), *running]
    runner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    assert runner.stdout.readline() == "locked\n"
    return runner


class TestLock:
    def test_a_second_runner_is_told_who_has_it(self, session_dir: SessionDir) -> None:
        with start_runner(session_dir.path) as runner:
            with pytest.raises(SessionError, match=f"s1 is being run by process {runner.pid} on "):
                session_dir.lock()
            runner.communicate("")
        session_dir.lock()
        session_dir.lock()
        session_dir.unlock()
        session_dir.unlock()

    def test_what_a_killed_runner_left_is_known_until_cleared(self, session_dir: SessionDir) -> None:
        with start_runner(session_dir.path, "one", "two", "three") as runner:
            assert stale_run_ids(session_dir.path) == []
            clear_stale(session_dir.path)
            runner.send_signal(signal.SIGKILL)
        expected = ["id-of-one", "id-of-two", "id-of-three"]
        assert stale_run_ids(session_dir.path) == expected
        assert stale_run_ids(session_dir.path) == expected
        clear_stale(session_dir.path)
        assert stale_run_ids(session_dir.path) == []

    def test_clearing_without_resuming_is_enough(self, session_dir: SessionDir) -> None:
        with start_runner(session_dir.path, "one") as runner:
            runner.send_signal(signal.SIGKILL)
        clear_stale(session_dir.path)
        assert stale_run_ids(session_dir.path) == []
        session_dir.lock()

    def test_clearing_makes_no_session_the_newest(self, session_dir: SessionDir) -> None:
        with start_runner(session_dir.path, "one") as runner:
            runner.send_signal(signal.SIGKILL)
        lock = session_dir.path / ".lock"
        os.utime(lock, ns=(1, 1))
        clear_stale(session_dir.path)
        assert lock.stat().st_mtime_ns == 1 and lock.read_bytes() == b""

    def test_a_runner_that_ended_well_left_nothing(self, session_dir: SessionDir) -> None:
        with start_runner(session_dir.path, "one") as runner:
            runner.communicate("")
        assert stale_run_ids(session_dir.path) == []

    def test_our_own_commands_are_not_stale(self, session_dir: SessionDir) -> None:
        session_dir.lock()
        EventLog(session_dir.path / "events.jsonl").write("run_started", run_id="mine")
        assert stale_run_ids(session_dir.path) == []

    def test_half_written_files_of_a_killed_runner_go_when_the_session_is_taken_up(
        self, session_dir: SessionDir
    ) -> None:
        (session_dir.path / ".tmp-left").write_text("half")
        session_dir.lock()
        assert names_in(session_dir.path) == [".lock"]

    def test_a_lock_that_is_a_link_is_refused_and_empties_nothing(
        self, session_dir: SessionDir, tmp_path: Path
    ) -> None:
        mine = tmp_path / "diary.txt"
        mine.write_text('{"runner": "somebody"}')
        (session_dir.path / ".lock").unlink()
        (session_dir.path / ".lock").symlink_to(mine)
        (session_dir.path / "plan.json").write_text("{}")
        with pytest.raises(SessionError, match="cannot lock the session"):
            session_dir.lock()
        clear_stale(session_dir.path)
        assert stale_run_ids(session_dir.path) == []
        assert mine.read_text() == '{"runner": "somebody"}'

    def test_a_copied_session_does_not_end_the_commands_of_a_live_one(
        self, session_dir: SessionDir, tmp_path: Path
    ) -> None:
        with start_runner(session_dir.path, "one") as runner:
            shutil.copytree(session_dir.path, tmp_path / "copy")
            assert stale_run_ids(tmp_path / "copy") == []
            runner.send_signal(signal.SIGKILL)
        assert stale_run_ids(tmp_path / "copy") == []
        assert stale_run_ids(session_dir.path) == ["id-of-one"]

    @pytest.mark.parametrize(
        "owner",
        [
            '{"pid": 1, "host": "elsewhere", "runner": "older"}',
            '{"pid": 1, "host": "elsewhere", "runner": "newer", "machine": "another boot"}',
        ],
    )
    def test_a_runner_of_another_machine_is_not_taken_for_dead(
        self, session_dir: SessionDir, owner: str
    ) -> None:
        """Its lock may not reach here, over NFS; what it started is not here to be ended."""
        (session_dir.path / ".lock").write_text(owner)
        EventLog(session_dir.path / "events.jsonl").write("run_started", run_id="theirs")
        assert stale_run_ids(session_dir.path) == []
        clear_stale(session_dir.path)
        assert (session_dir.path / ".lock").read_text() == owner

    @pytest.mark.parametrize("name", [".lock", "events.jsonl"])
    def test_a_pipe_hangs_nobody(self, session_dir: SessionDir, name: str) -> None:
        with start_runner(session_dir.path, "one") as runner:
            runner.send_signal(signal.SIGKILL)
        (session_dir.path / name).unlink()
        os.mkfifo(session_dir.path / name)
        assert is_running(session_dir.path) is False
        with suppress(OSError):  # Refused at once.
            stale_run_ids(session_dir.path)
        clear_stale(session_dir.path)


def test_a_full_disk_is_said_and_leaves_the_session_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "s").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("paceline.record.lock.os.pwrite", refuse)
        with pytest.raises(SessionError, match=r"cannot lock the session .*No space left on device"):
            SessionLock(tmp_path / "s").take()
    assert SessionLock(tmp_path / "s").take()


def test_an_error_passes_through_where_the_time_is_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    with pytest.raises(FileNotFoundError), unchanged_time(tmp_path):
        (tmp_path / "nothing").read_bytes()
