"""Whole trees are ended, however their processes try to leave, and whoever dies first."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from living_processes import marked_processes
from paceline.run.local.process import Command, Exit, Warden
from paceline.run.local.tree import look, sweep
from patience import wait_until

DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("daemon", os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
"""
SLEEP = "\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def warden() -> Iterator[Warden]:
    with Warden() as started:
        yield started


@pytest.fixture
def run_id() -> Iterator[str]:
    """A mark for a test's processes; when the test ends none may be left."""
    mark = uuid.uuid4().hex
    yield mark
    assert marked_processes(mark) == []


def run(warden: Warden, run_id: str, *argv: str, **options: Any) -> tuple[Exit, bytes]:
    chunks: list[bytes] = []
    env = {**os.environ, "PACELINE_RUN_ID": run_id}
    ended = warden.run(Command(argv=argv, env=env, **options), lambda _stream, chunk: chunks.append(chunk))
    return ended, b"".join(chunks)


def run_until_said(warden: Warden, run_id: str, *argv: str, **options: Any) -> tuple[Exit, bytes]:
    """Run into a timeout that left the command the time to say something, however busy the machine is."""
    for timeout_s in (0.5, 2, 8, 32, 128):
        ended, said = run(warden, run_id, *argv, timeout_s=timeout_s, **options)
        if said:
            break
    return ended, said


def test_timeout_reaches_a_grandchild_that_ignores_sigterm(warden: Warden, run_id: str) -> None:
    code = "(trap '' TERM; while :; do sleep 60; done) & sleep 60"
    ended, _ = run(warden, run_id, "sh", "-c", code, timeout_s=0.3, grace_s=0.2)
    assert (ended.reason, ended.returncode, ended.leftovers) == ("timeout", -15, ())


def test_timeout_reaches_a_daemon(warden: Warden, run_id: str) -> None:
    ended, said = run_until_said(warden, run_id, sys.executable, "-c", DAEMON + SLEEP, grace_s=0.2)
    assert said.startswith(b"daemon")
    assert (ended.reason, ended.returncode) == ("timeout", -9)


def test_a_daemon_that_outlives_its_command_is_ended_and_named(warden: Warden, run_id: str) -> None:
    ended, said = run(warden, run_id, sys.executable, "-c", DAEMON, grace_s=0.2)
    daemon = said.split()[1].decode()
    assert (ended.reason, ended.returncode) == ("exited", 0)
    (leftover,) = ended.leftovers
    assert leftover.endswith(f"(pid {daemon})")


def test_a_background_child_on_stdout_is_no_timeout(warden: Warden, run_id: str) -> None:
    ended, said = run(warden, run_id, "sh", "-c", "sleep 600 & echo done", timeout_s=60)
    assert (ended.reason, ended.returncode, said) == ("exited", 0, b"done\n")
    assert [name.partition(" ")[0] for name in ended.leftovers] == ["sleep"]


PATIENT = """
import sys
sys.path.append(sys.argv[1])
from paceline.run.local import spawner, warden
warden.SETTLE_S = 60.0
spawner.main(sys.argv[2])
"""


def test_a_helper_that_ends_with_its_parent_is_no_leftover(
    run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.run.local.process.BOOT", PATIENT)
    code = """
import os, sys
reader, writer = os.pipe()
if os.fork() == 0:
    os.close(writer)
    os.read(reader, 1)
    os.write(1, b"helper ends\\n")
    os._exit(0)
"""
    with Warden() as warden:
        ended, said = run(warden, run_id, sys.executable, "-c", code, grace_s=60)
    assert (ended.returncode, ended.leftovers, said) == (0, (), b"helper ends\n")


def test_a_child_with_another_environment_and_a_hostile_name_is_ended(warden: Warden, run_id: str) -> None:
    code = "exec -a ') Z 1 (' env -i sleep 600 & exec sleep 0.1"
    ended, _ = run(warden, run_id, "bash", "-c", code)
    assert len(ended.leftovers) == 1
    pid = int(ended.leftovers[0].rpartition("pid ")[2].rstrip(")"))
    assert not Path(f"/proc/{pid}").exists()


BOMB = """
import os, signal, time
signal.alarm(60)   # should all else fail
for _ in range(12):
    if os.fork() == 0:
        signal.alarm(60)
        {escape}
time.sleep(60)
"""


@pytest.mark.parametrize("escape", ["pass", "os.setsid()", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_a_fork_bomb_is_bounded(warden: Warden, run_id: str, escape: str) -> None:
    code = BOMB.format(escape=escape)
    ended, _ = run(warden, run_id, sys.executable, "-c", code, max_processes=64)
    assert (ended.reason, ended.returncode) == ("limit", -9)
    assert ended.message == "had more than 64 processes at once, which is the limit"
    assert marked_processes(run_id) == []
    assert run(warden, run_id, "true")[0].returncode == 0


def test_memory_is_bounded_over_the_whole_tree(warden: Warden, run_id: str) -> None:
    code = "import os, time; os.fork(); block = bytearray(60 << 20); time.sleep(600)"
    ended, _ = run(warden, run_id, sys.executable, "-c", code, max_memory_bytes=100 << 20)
    assert (ended.reason, ended.returncode) == ("limit", -9)
    assert "MiB of memory in 2 processes, the limit is 100 MiB" in ended.message


def test_a_killed_warden_loses_its_run_but_leaves_nothing(run_id: str) -> None:
    with Warden() as warden:
        assert warden._link is not None
        victim = warden._link.process.pid

        def kill_when_up() -> None:
            wait_until(lambda: len(marked_processes(run_id)) >= 2)
            os.kill(victim, signal.SIGKILL)

        thread = threading.Thread(target=kill_when_up)
        thread.start()
        ended, _ = run(warden, run_id, "sh", "-c", "setsid env -i sleep 600 & setsid sleep 600 & sleep 600")
        thread.join()
        assert (ended.reason, ended.returncode) == ("lost", None)
        assert "was lost (it was killed)" in ended.message
        assert ended.usage.wall_s > 0
        assert run(warden, run_id, "sh", "-c", "exit 6")[0].returncode == 6


def test_a_warden_that_died_idle_is_replaced(run_id: str) -> None:
    with Warden() as warden:
        assert run(warden, run_id, "true")[0].returncode == 0
        assert warden._link is not None
        warden._link.process.kill()
        warden._link.process.wait()
        assert run(warden, run_id, "sh", "-c", "exit 6")[0].returncode == 6


def spawner_of(warden: Warden) -> int:
    assert warden._link is not None
    pid = warden._link.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def test_a_killed_spawner_loses_its_run_but_leaves_nothing(run_id: str) -> None:
    with Warden() as warden:
        assert run(warden, run_id, "true")[0].returncode == 0
        victim = spawner_of(warden)

        def kill_when_up() -> None:
            wait_until(lambda: len(marked_processes(run_id)) >= 3)
            os.kill(victim, signal.SIGKILL)

        thread = threading.Thread(target=kill_when_up)
        thread.start()
        code = "setsid env -i sleep 600 & setsid sleep 600 & sleep 600 & exec sleep 600"
        ended, _ = run(warden, run_id, "sh", "-c", code)
        thread.join()
        assert (ended.reason, ended.returncode) == ("lost", None)
        assert "the process that starts the commands was killed" in ended.message
        assert run(warden, run_id, "sh", "-c", "exit 6")[0].returncode == 6


def test_a_spawner_that_died_idle_is_replaced(run_id: str) -> None:
    with Warden() as warden:
        assert run(warden, run_id, "true")[0].returncode == 0
        assert warden._link is not None
        os.kill(spawner_of(warden), signal.SIGKILL)
        warden._link.process.wait()
        assert run(warden, run_id, "sh", "-c", "exit 6")[0].returncode == 6


def test_what_joins_the_group_of_the_spawner_is_ended_alone(warden: Warden, run_id: str) -> None:
    code = "import os, time; os.setpgid(0, os.getsid(0)); print('up', flush=True); time.sleep(600)"
    ended, said = run_until_said(
        warden, run_id, sys.executable, "-c", f"import os\nif os.fork() == 0: {code}\nos.wait()"
    )
    assert (ended.reason, said) == ("timeout", b"up\n")
    assert run(warden, run_id, "sh", "-c", "exit 6")[0].returncode == 6


def test_a_warden_that_hangs_is_given_up(run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.run.local.process.WARDEN_LATE_S", 0.2)
    monkeypatch.setattr("paceline.run.local.warden.KILL_WAIT_S", 0.2)
    with Warden() as warden:
        assert run(warden, run_id, "true")[0].returncode == 0
        assert warden._link is not None
        os.kill(warden._link.process.pid, signal.SIGSTOP)
        ended, _ = run(warden, run_id, "sleep", "600", timeout_s=0.1, grace_s=0.1)
        assert ended.reason == "lost"
        assert "it hung" in ended.message


UNABLE = """
import sys
sys.path.append(sys.argv[1])
from paceline.run.local import spawner, warden
warden.kill_all = lambda find, spared: []
warden.KILL_WAIT_S = 0.1
spawner.main(sys.argv[2])
"""


def test_a_process_that_cannot_be_killed_is_reported(run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that hangs in the kernel, on a dead mount for example; here the warden is kept from killing it."""
    with monkeypatch.context() as patch:
        patch.setattr("paceline.run.local.process.BOOT", UNABLE)
        warden = Warden()
        code = "trap '' TERM; echo up; while :; do sleep 600; done"
        ended, said = run_until_said(warden, run_id, "sh", "-c", code, grace_s=0.1)
    assert (ended.reason, ended.returncode, said) == ("timeout", None, b"up\n")
    assert "sh (pid " in ended.leftovers[0] and ended.leftovers[0].endswith("which could not be ended")
    with warden:
        assert run(warden, run_id, "sh", "-c", "exit 6")[0].returncode == 6
    sweep([run_id])


def test_a_fault_of_the_warden_itself_is_told(run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Warden() as warden:
        with monkeypatch.context() as patch:
            broken = {"do": "run", "id": 1, "timeout_s": 60, "grace_s": 1}
            patch.setattr("paceline.run.local.process._request", lambda _command, _number: broken)
            ended, _ = run(warden, run_id, "true")
        assert ended.reason == "lost"
        assert "was lost (KeyError: 'first_look_s'" in ended.message
        assert run(warden, run_id, "sh", "-c", "exit 6")[0].returncode == 6


RUNNER = """
import json, os, sys
from paceline.run.local.tree import sweep
from paceline.run.local.process import Command, Warden
with Warden() as warden:
    print(json.dumps(warden._link.process.pid), flush=True)
    command = Command(argv=tuple(sys.argv[1:]), env=os.environ)
    warden.run(command, lambda stream, chunk: None)
"""


@pytest.mark.parametrize("code", [DAEMON + SLEEP, DAEMON, "while True: print('x' * 1000)"])
def test_a_killed_runner_leaves_nothing(run_id: str, code: str) -> None:
    env = {**os.environ, "PACELINE_RUN_ID": run_id}
    command = [sys.executable, "-c", RUNNER, sys.executable, "-c", code]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        warden_pid = json.loads(runner.stdout.readline())
        wait_until(lambda: len(marked_processes(run_id)) >= 3)
        runner.kill()
    wait_until(lambda: marked_processes(run_id) == [])
    wait_until(lambda: (warden := look(warden_pid)) is None or not warden.alive)


def test_wardens_do_not_touch_each_other(run_id: str, tmp_path: Path) -> None:
    wait = f"until [ -e '{tmp_path}/go' ]; do sleep 0.05; done"
    with Warden() as one, Warden() as other:
        results: list[Exit] = []
        long = threading.Thread(
            target=lambda: results.append(
                run(one, run_id, "sh", "-c", f"({wait}) & {wait}; wait; exit 8", grace_s=60)[0]
            )
        )
        long.start()
        wait_until(lambda: len(marked_processes(run_id)) >= 2)
        ended, _ = run(other, run_id, "sh", "-c", "sleep 600 & sleep 600", timeout_s=0.2)
        (tmp_path / "go").touch()
        long.join()
    assert ended.reason == "timeout"
    assert (results[0].reason, results[0].returncode, results[0].leftovers) == ("exited", 8, ())


def test_an_outsider_that_holds_the_pipe_does_not_hold_us_up(
    warden: Warden, run_id: str, tmp_path: Path
) -> None:
    """A process out of the tree gets stdout handed over and keeps it open, as a container daemon might."""
    code = """
import os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
socket.send_fds(link, [b"!"], [1])
link.recv(1)
print("done")
"""
    received: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        server = socket.socket(socket.AF_UNIX)
        server.bind("link")

    def hold() -> None:
        peer, _ = server.accept()
        with peer:
            received.extend(socket.recv_fds(peer, 1, 1)[1])
            peer.send(b"!")

    with server:
        server.listen()
        thread = threading.Thread(target=hold)
        thread.start()
        ended, said = run(warden, run_id, sys.executable, "-c", code, str(tmp_path / "link"))
        thread.join()
    os.close(received[0])
    assert (ended.reason, ended.returncode, said) == ("exited", 0, b"done\n")
