"""How commands end: by themselves, by a signal, by the deadline, by request, or not begun at all."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.run.local.process import Command, Exit, Usage, Warden
from patience import wait_until


@pytest.fixture(scope="module")
def warden() -> Iterator[Warden]:
    with Warden() as started:
        yield started


class Said:
    """Keeps what a command printed."""

    def __init__(self) -> None:
        self.stdout = b""
        self.stderr = b""

    def __call__(self, stream: str, chunk: bytes) -> None:
        setattr(self, stream, getattr(self, stream) + chunk)


def run(warden: Warden, *argv: str, env: Mapping[str, str] = os.environ, **options: Any) -> tuple[Exit, Said]:
    said = Said()
    return warden.run(Command(argv=argv, env=env, **options), said), said


def run_until_said(warden: Warden, *argv: str, grace_s: float) -> tuple[Exit, Said, str]:
    """Run into a timeout that left the command the time to say something; the timeout's text comes third."""
    for timeout_s in (0.3, 2, 8, 32, 128):
        ended, said = run(warden, *argv, timeout_s=timeout_s, grace_s=grace_s)
        if said.stdout:
            break
    return ended, said, f"timed out after {timeout_s} s"


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_output_and_code_of_a_command_that_ends_well(warden: Warden) -> None:
    ended, said = run(warden, "sh", "-c", "echo out; echo err >&2")
    assert (ended.reason, ended.returncode, ended.message, ended.leftovers) == ("exited", 0, "", ())
    assert (said.stdout, said.stderr) == (b"out\n", b"err\n")


def test_exit_code(warden: Warden) -> None:
    ended, _ = run(warden, "sh", "-c", "exit 3")
    assert (ended.reason, ended.returncode, ended.message) == ("exited", 3, "exited with code 3")


def test_death_by_signal(warden: Warden) -> None:
    ended, _ = run(warden, "sh", "-c", "kill -KILL $$")
    assert (ended.reason, ended.returncode, ended.message) == ("exited", -9, "killed by SIGKILL")


def test_a_signal_without_a_name(warden: Warden) -> None:
    ended, _ = run(warden, *python("import os; os.kill(os.getpid(), 40)"))
    assert (ended.returncode, ended.message) == (-40, "killed by signal 40")


def test_what_a_command_gets_besides_its_arguments(warden: Warden, tmp_path: Path) -> None:
    code = """
import os, signal, sys
print(os.getcwd(), os.environ["COLOUR"], "HOME" in os.environ, sys.stdin.read() == "", os.getpgrp() == os.getpid())
print(os.getsid(0))
print(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1])
print(os.sched_getscheduler(0) == os.SCHED_OTHER, os.getpriority(os.PRIO_PROCESS, 0))
"""
    ended, said = run(warden, *python(code), env={"COLOUR": "blå"}, cwd=str(tmp_path))
    assert ended.returncode == 0, said.stderr
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    first, session, *others = said.stdout.decode().splitlines()
    assert [first, *others] == [f"{tmp_path} blå False True True", "[0, 1, 2]", f"True {nice}"]
    assert int(session) != os.getsid(0)


def test_a_niceness_is_handed_on_to_the_command() -> None:
    program = """
import os, sys
from paceline.run.local.process import Command, Warden
with Warden() as warden:
    warden.run(Command(argv=("sh", "-c", "sleep 0.1; nice"), env=os.environ), lambda _, chunk: print(int(chunk)))
"""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = min(before + 3, 19)
    command = ["nice", "-n", str(wanted - before), sys.executable, "-c", program]
    assert int(subprocess.run(command, capture_output=True, check=True).stdout) == wanted


def test_broken_pipes_end_a_command_as_they_would_in_a_shell(warden: Warden) -> None:
    ended, said = run(warden, "sh", "-c", "yes | head -1")
    assert (ended.returncode, said.stdout, said.stderr) == (0, b"y\n", b"")


def test_bytes_that_are_no_text_survive_in_arguments_and_environment(warden: Warden) -> None:
    raw = os.fsdecode(b"\xff\xfe=x")
    code = "import os; os.write(1, os.fsencode(os.environ['RAW']) + b'|' + os.fsencode(os.sys.argv[1]))"
    _, said = run(warden, *python(code), raw, env={"RAW": raw})
    assert said.stdout == b"\xff\xfe=x|\xff\xfe=x"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=5))
def test_arguments_arrive_as_they_are(warden: Warden, words: list[str]) -> None:
    _, said = run(warden, "printf", r"%s\0", *words)
    assert said.stdout.decode() == "\0".join(words) + "\0"


@pytest.mark.parametrize(
    ("argv", "options", "message"),
    [
        (("no-such-program",), {}, "cannot run 'no-such-program': no such program on PATH"),
        (("./missing",), {}, "cannot run './missing': no such file"),
        (("true",), {"cwd": "missing"}, "cannot start in 'missing': No such file or directory"),
        (("true",), {"cwd": "plain"}, "cannot start in 'plain': Not a directory"),
        (("./plain",), {}, "cannot run './plain': is not executable; chmod +x it or name an interpreter"),
        ((".",), {"env": {"PATH": "/"}}, "cannot run '.': no such program on PATH"),
        (("./",), {}, "cannot run './': is a directory"),
        (
            ("./no-interpreter",),
            {},
            "cannot run './no-interpreter': its interpreter (the '#!' line, or the loader) does not exist",
        ),
        (
            ("./no-format",),
            {},
            "cannot run './no-format': neither a program for this machine nor a script with a '#!' line",
        ),
        ((), {}, "cannot run the command: there is no argument"),
        (("true", "a\0b"), {}, "cannot run the command: an argument holds a NUL character"),
        (("true",), {"env": {"": "x"}}, "cannot run 'true': illegal environment variable name"),
        (("true", "x" * 3_000_000), {}, "cannot run 'true': Argument list too long"),
    ],
)
def test_what_cannot_be_launched_says_why(
    warden: Warden,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: tuple[str, ...],
    options: dict[str, Any],
    message: str,
) -> None:
    (tmp_path / "plain").write_text("text")
    for name, text in {"no-interpreter": "#!/missing/python\n", "no-format": "text"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    ended, _ = run(warden, *argv, **options)
    assert (ended.reason, ended.returncode, ended.usage) == ("launch_error", None, Usage())
    assert re.sub(rf"(/usr)?/bin/|{tmp_path}/", "", ended.message) == message


def test_the_path_is_the_commands_own(warden: Warden, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "tool").chmod(0o755)
    _, said = run(warden, "tool", env={"PATH": f"/missing:{tmp_path}"})
    assert said.stdout == b"mine\n"


def test_timeout_ends_a_command_gently(warden: Warden) -> None:
    code = 'trap "echo bye; exit 7" TERM; echo up; sleep 60 & wait'
    ended, said, timed_out = run_until_said(warden, "sh", "-c", code, grace_s=60)
    assert (ended.reason, ended.returncode, ended.message) == ("timeout", 7, timed_out)
    assert said.stdout == b"up\nbye\n"
    assert ended.usage.wall_s >= 0.3


def test_timeout_kills_a_command_that_ignores_sigterm(warden: Warden) -> None:
    code = "trap '' TERM; echo up; while :; do sleep 60; done"
    ended, _, timed_out = run_until_said(warden, "sh", "-c", code, grace_s=0.2)
    assert (ended.reason, ended.returncode) == ("timeout", -9)
    assert ended.message == f"{timed_out}; did not end on SIGTERM within 0.2 s and was killed"


def test_timeout_reaches_a_stopped_command(warden: Warden) -> None:
    ended, _ = run(warden, "sh", "-c", "kill -STOP $$; sleep 60", timeout_s=0.3, grace_s=30)
    assert (ended.reason, ended.returncode) == ("timeout", -15)


def test_the_deadline_holds_for_a_command_that_closed_its_output(warden: Warden) -> None:
    ended, _ = run(warden, "sh", "-c", "exec >&- 2>&-; sleep 60", timeout_s=0.3)
    assert (ended.reason, ended.returncode) == ("timeout", -15)


def test_a_command_may_go_on_without_its_output(warden: Warden) -> None:
    ended, _ = run(warden, "sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 4")
    assert (ended.reason, ended.returncode) == ("exited", 4)


def test_no_timeout_at_all(warden: Warden) -> None:
    ended, _ = run(warden, "true", timeout_s=float("inf"))
    assert ended.returncode == 0


def when_up(said: Said, act: Callable[[], None]) -> threading.Thread:
    """Do something in another thread once the command has printed."""

    def wait() -> None:
        wait_until(lambda: said.stdout)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize(("now", "returncode"), [(False, 5), (True, -9)])
def test_stop_from_another_thread(warden: Warden, now: bool, returncode: int) -> None:
    said = Said()
    thread = when_up(said, lambda: warden.stop(now=now))
    code = 'trap "exit 5" TERM; echo up; sleep 60 & wait'
    ended = warden.run(Command(argv=("sh", "-c", code), env=os.environ), said)
    thread.join()
    assert (ended.reason, ended.returncode, ended.message) == ("stopped", returncode, "stopped")


def test_a_second_stop_does_not_wait_for_the_grace_time(warden: Warden) -> None:
    said = Said()

    def stop_twice() -> None:
        warden.stop()
        wait_until(lambda: b"asked" in said.stdout)
        warden.stop(now=True)

    thread = when_up(said, stop_twice)
    code = 'trap "echo asked" TERM; echo up; while :; do sleep 0.05; done'
    ended = warden.run(Command(argv=("sh", "-c", code), env=os.environ, grace_s=600), said)
    thread.join()
    assert (ended.reason, ended.returncode) == ("stopped", -9)


def test_stop_in_a_signal_handler_of_the_thread_that_runs(warden: Warden) -> None:
    said = Said()
    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: warden.stop())
    try:
        thread = when_up(said, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        ended = warden.run(Command(argv=("sh", "-c", "echo up; sleep 600"), env=os.environ), said)
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (ended.reason, ended.returncode) == ("stopped", -15)


def test_a_stop_between_runs_is_forgotten_unless_the_caller_remembers_it(warden: Warden) -> None:
    warden.stop()
    assert run(warden, "true")[0].reason == "exited"
    warden.stop()
    ended = warden.run(Command(argv=("true",), env=os.environ), Said(), cancelled=lambda: True)
    assert (ended.reason, ended.returncode) == ("stopped", None)


def test_stopping_a_closed_warden_does_nothing() -> None:
    with Warden() as warden:
        pass
    warden.stop()


def test_an_exception_while_output_is_taken_ends_the_command(warden: Warden) -> None:
    def interrupt(_stream: str, _chunk: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warden.run(Command(argv=("sh", "-c", "echo; sleep 600"), env=os.environ), interrupt)
    assert run(warden, "true")[0].returncode == 0
