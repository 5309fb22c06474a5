"""The temporary directory of a cluster, and what is left of it when its runner was killed."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from living_processes import is_alive
from paceline.record.redact import Redactor
from paceline.run.ray import home as ray_home
from paceline.run.ray.home import Home, sweep_stale
from patience import wait_until

HOLD = """
import os, subprocess, sys, uuid
from paceline.run.ray.home import Home
run_id = os.environ["PACELINE_RUN_ID"] = uuid.uuid4().hex
home = Home.create(os.environ, run_id)
child = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
print(home.path, child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def base() -> Iterator[Path]:
    """A short place of our own, as the names of sockets need it."""
    path = Path(tempfile.mkdtemp(prefix="pl", dir="/tmp"))
    yield path
    shutil.rmtree(path)


def swept_in(base: Path) -> list[Path]:
    """What is swept of a place; there may be more in the one that is always looked through."""
    return [path for path in sweep_stale({"TMPDIR": str(base)}) if path.parent == base]


def test_only_its_user_can_enter_and_it_goes_whole(base: Path) -> None:
    home = Home.create({"TMPDIR": str(base)}, "run")
    assert home.path.parent == base and home.path.stat().st_mode & 0o777 == 0o700
    assert home.token_path.stat().st_mode & 0o777 == 0o600 and len(home.token_path.read_text()) == 64
    assert json.loads((home.path / "owner").read_text())["pid"] == os.getpid()
    assert home.remove() is None and not home.path.exists()


def test_a_place_too_deep_for_sockets_is_not_used(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 80)
    deep.mkdir()
    home = Home.create({"TMPDIR": str(deep)}, "run")
    assert home.path.parent == Path("/tmp")
    home.remove()


def test_what_is_in_use_is_not_swept(base: Path) -> None:
    home = Home.create({"TMPDIR": str(base)}, "run")
    (base / f"{ray_home.PREFIX}half-made").mkdir()
    assert swept_in(base) == [] and home.path.exists()
    home.remove()


@pytest.mark.parametrize("is_link", [False, True])
def test_a_pipe_or_a_link_as_an_owner_holds_nobody_up(base: Path, tmp_path: Path, is_link: bool) -> None:
    path = base / f"{ray_home.PREFIX}trap"
    path.mkdir()
    os.mkfifo(tmp_path / "pipe")
    if is_link:
        (path / ray_home.OWNER).symlink_to(tmp_path / "pipe")
    else:
        os.mkfifo(path / ray_home.OWNER)
    assert swept_in(base) == [] and path.exists()


def test_a_killed_runners_directory_and_processes_are_swept(base: Path) -> None:
    env = {**os.environ, "TMPDIR": str(base)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as runner:
        assert runner.stdout is not None
        path, child = runner.stdout.readline().split()
        assert swept_in(base) == []
        runner.kill()
    assert Path(path).exists()
    assert swept_in(base) == [Path(path)] and not Path(path).exists()
    wait_until(lambda: not is_alive(int(child)))


def test_homes_that_earlier_versions_of_curation_left_are_swept(base: Path) -> None:
    stale, living, foreign = (base / name for name in (f"{ray_home.PREFIX}a", f"{ray_home.PREFIX}b", "other"))
    for path in (stale, living, foreign):
        path.mkdir()
        (path / "lock").touch()
    env = {**os.environ, "RAY_TMPDIR": str(stale)}
    with (living / "lock").open() as lock, subprocess.Popen(["sleep", "300"], env=env) as left:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert swept_in(base) == [stale] and left.wait(60) == -signal.SIGKILL
        assert sorted(base.iterdir()) == [foreign, living]


def session(home: Home) -> Path:
    logs = home.ray_dir / "session_2026-01-01_00-00-00_000000_1/logs"
    (logs / "events").mkdir(parents=True)
    (logs / "raylet.out").write_text(
        "[2026-01-01 00:00:00,000 I 4567 4567] (raylet) main.cc:1: hello s3cr3t-value\n"
    )
    (logs / "events/event.log").write_text("{}")
    (logs.parent / "sockets").mkdir()
    (logs.parent / "runtime_resources").mkdir()
    (logs.parent / "runtime_resources/package.zip").write_bytes(b"x" * 1000)
    (home.ray_dir / "session_latest").symlink_to(logs.parent)
    return logs


@pytest.mark.parametrize("redactor", [Redactor(), Redactor(["s3cr3t-value"])])
def test_logs_are_kept_without_sockets_and_packages(base: Path, tmp_path: Path, redactor: Redactor) -> None:
    home = Home.create({"TMPDIR": str(base)}, "run")
    session(home)
    home.keep_logs(tmp_path / "logs", redactor)
    home.remove()
    kept = {
        str(path.relative_to(tmp_path / "logs")) for path in (tmp_path / "logs").rglob("*") if path.is_file()
    }
    assert kept == {"raylet.out", "events/event.log"}
    text = (tmp_path / "logs/raylet.out").read_text()
    assert "hello" in text and ("s3cr3t-value" in text) == (not redactor)


def test_semaphores_of_the_cluster_go_with_it_and_no_others(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_home, "SHARED_MEMORY", tmp_path)
    home = Home.create({"TMPDIR": str(base)}, "run")
    session(home)
    now = time.time_ns()
    ours = [tmp_path / f"sem.obj4567-{now + 10**9}", tmp_path / f"sem.hdr4567-{now + 10**9}"]
    others = [
        tmp_path / name
        for name in (f"sem.obj4568-{now + 10**9}", f"sem.obj4567-{now - 10**12}", "sem.obj4567", "data")
    ]
    for file in (*ours, *others):
        file.touch()
    home.remove_semaphores()
    home.remove()
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_a_taken_port_is_seen_in_the_log(base: Path) -> None:
    home = Home.create({"TMPDIR": str(base)}, "run")
    logs = session(home)
    assert not home.names_taken_port()
    (logs / "gcs_server.err").write_text(
        "Check failed: server_ Failed to start the grpc server. The port is 1."
    )
    assert home.names_taken_port()
    home.remove()
