"""Things that go wrong, done for real: each ends with one clear record and leaves nothing behind."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from living_processes import marked_processes
from patience import wait_until
from workplace import Workplace

PASS = """
import pathlib, sys
where = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
(where / "metrics.json").write_text('{"value": 1}')
"""


def one_entry(place: Workplace, code: str, *lines: str) -> None:
    """A suite of one scripted entry, followed by one that must still pass."""
    place.write("scripts/fault.py", textwrap.dedent(code))
    place.write("scripts/fine.py", PASS)
    extra = "".join(f"    {line}\n" for line in lines)
    place.write(
        "suite.yaml",
        f"entries:\n  - name: fault\n    script: fault.py\n{extra}  - name: fine\n    script: fine.py\n",
    )


@pytest.fixture
def marker() -> str:
    return f"PACELINE_TEST_MARKER={uuid.uuid4().hex}"


def run(place: Workplace, marker: str) -> subprocess.CompletedProcess[str]:
    name, _, value = marker.partition("=")
    return place.run("run", "suite.yaml", "--session-name", "s", "--no-history", **{name: value})


def check_session(place: Workplace, status: str) -> dict[str, object]:
    record = place.record("s", "fault")
    assert record["status"] == status, record["reason"]
    assert place.record("s", "fine")["status"] == "passed"
    return record


def test_grandchild_that_ignores_sigterm_ends_at_the_deadline(place: Workplace, marker: str) -> None:
    one_entry(
        place,
        """
        import subprocess, sys, time
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", stubborn])
        time.sleep(600)
        """,
        "timeout_s: 1",
        "grace_s: 0.5",
    )
    assert run(place, marker).returncode == 1
    record = check_session(place, "timeout")
    assert "timeout of 1 s" in str(record["reason"])
    assert marked_processes(marker) == []


def test_children_that_called_setsid_are_ended_too(place: Workplace, marker: str) -> None:
    one_entry(
        place,
        """
        import os, sys, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)
        time.sleep(600)
        """,
        "timeout_s: 1",
        "grace_s: 0.5",
    )
    assert run(place, marker).returncode == 1
    check_session(place, "timeout")
    assert marked_processes(marker) == []


def test_background_child_of_a_passed_script_is_a_warning(place: Workplace, marker: str) -> None:
    one_entry(
        place,
        PASS + "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n",
        "grace_s: 0.5",
    )
    assert run(place, marker).returncode == 0
    record = check_session(place, "passed")
    assert any("outlived" in note and "sleep" in note for note in record["warnings"])  # type: ignore[union-attr]
    assert marked_processes(marker) == []


def test_deadline_holds_when_the_script_closes_its_output(place: Workplace, marker: str) -> None:
    one_entry(
        place, "import os, time\nos.close(1); os.close(2)\ntime.sleep(600)\n", "timeout_s: 1", "grace_s: 0.5"
    )
    assert run(place, marker).returncode == 1
    check_session(place, "timeout")


def test_bytes_that_are_not_utf8_are_kept_as_they_are(place: Workplace, marker: str) -> None:
    one_entry(place, PASS + "sys.stdout.buffer.write(bytes(range(128, 256)) * 50_000)\n")
    assert run(place, marker).returncode == 0
    check_session(place, "passed")
    kept = (place.path / "results/s/fault/logs/stdout.log").read_bytes()
    assert kept == bytes(range(128, 256)) * 50_000


def test_a_quarter_of_a_gigabyte_of_output_leaves_the_runner_small(place: Workplace) -> None:
    one_entry(place, PASS + "for _ in range(256): sys.stdout.buffer.write((b'x' * 63 + b'\\n') * 16384)\n")
    code = """
        import pathlib, sys
        from paceline.cli import main
        sys.argv = ["paceline", "run", "suite.yaml", "--session-name", "s", "--no-history"]
        try:
            main()
        finally:
            # Not getrusage, whose figure begins with the size of the process that started this one.
            peak = pathlib.Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
            print("PEAK", peak, file=sys.stderr)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=place.path,
        capture_output=True,
        text=True,
        timeout=170,
    )
    check_session(place, "passed")
    assert (place.path / "results/s/fault/logs/stdout.log").stat().st_size == 1 << 28
    peak_kib = int(done.stderr.rpartition("PEAK")[2])
    assert peak_kib < 150_000


def test_fork_bomb_is_bounded_by_the_limit(place: Workplace, marker: str) -> None:
    one_entry(
        place,
        """
        import os, time
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                os.fork()
            except OSError:
                time.sleep(0.01)
        """,
        "limits: {processes: 100}",
        "grace_s: 0.2",
    )
    assert run(place, marker).returncode == 1
    record = check_session(place, "failed")
    assert "100" in str(record["reason"]) and "process" in str(record["reason"])
    wait_until(lambda: marked_processes(marker) == [])


def test_script_killed_by_sigkill_says_so(place: Workplace, marker: str) -> None:
    one_entry(place, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert run(place, marker).returncode == 1
    record = check_session(place, "failed")
    assert record["returncode"] == -9
    assert "SIGKILL" in str(record["reason"])


def test_program_that_cannot_be_launched(place: Workplace, marker: str) -> None:
    place.write("scripts/fine.py", PASS)
    place.write(
        "suite.yaml",
        "entries:\n  - {name: fault, command: [/no/such/program]}\n  - {name: fine, script: fine.py}\n",
    )
    assert run(place, marker).returncode == 1
    record = check_session(place, "launch_error")
    assert "/no/such/program" in str(record["reason"])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 8 MiB."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(mounted)], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip(f"mounting a small tmpfs needs privileges: {done.stderr.decode().strip()}")
    yield mounted
    subprocess.run(["umount", "-l", str(mounted)], check=True)


def test_full_disk_keeps_the_record_and_the_session_goes_on(place: Workplace, small_disk: Path) -> None:
    one_entry(
        place,
        PASS + "pathlib.Path(sys.argv[1], 'big').write_bytes(b'x' * (64 << 20))\n",
        "args: ['{scratch_dir}']",
    )
    done = place.run("run", "suite.yaml", "--session-name", "s", "--results-dir", small_disk)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    session = small_disk / "s"
    records = {path.parent.name for path in session.glob("*/record.json")}
    assert records == {"fault", "fine"}
    fault = json.loads((session / "fault/record.json").read_text())
    assert fault["status"] == "failed" and "No space left" in fault["reason"]
    assert any("missing from stderr.log" in note for note in fault["warnings"])


def test_disk_full_of_logs_ends_the_session_with_a_record_and_resumes(
    place: Workplace, small_disk: Path
) -> None:
    one_entry(place, PASS + "sys.stdout.buffer.write(b'x' * (32 << 20))\n")
    done = place.run("run", "suite.yaml", "--session-name", "s", "--results-dir", small_disk)
    assert "Traceback" not in done.stderr
    assert (small_disk / "s/fault/record.json").is_file()
    for log in (small_disk / "s/fault/logs").iterdir():
        log.write_bytes(b"")
    again = place.run("run", "suite.yaml", "--resume", "s", "--results-dir", small_disk)
    assert again.returncode == 0, again.stderr + again.stdout
    assert {path.parent.name for path in (small_disk / "s").glob("*/record.json")} == {"fault", "fine"}


def test_results_directory_that_cannot_be_made(place: Workplace) -> None:
    one_entry(place, PASS)
    place.write("results", "a file stands where the directory should be\n")
    done = place.run("run", "suite.yaml")
    assert done.returncode == 2
    assert "results" in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_script_that_removes_its_own_directory_still_gets_a_record(place: Workplace, marker: str) -> None:
    one_entry(
        place,
        "import os, pathlib, shutil\nshutil.rmtree(pathlib.Path(os.environ['PACELINE_RESULTS_PATH']).parent)\n",
    )
    assert run(place, marker).returncode == 1
    check_session(place, "failed")


RESUMED_SUITE = """
entries:
  - name: quick
    script: steps.py
    args: --steps 1
    matrix: {n: [1, 2, 3, 4, 5]}
  - name: slow
    script: steps.py
    args: --steps 15
    matrix: {n: [1, 2, 3]}
  - name: repeated
    script: steps.py
    args: --steps 2
    repeat: 3
"""

STEPS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
for _ in range(int(sys.argv[sys.argv.index("--steps") + 1])):
    time.sleep(0.01)
child.kill()
where = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
(where / "metrics.json").write_text('{"value": 1}')
"""


def test_runner_killed_at_random_moments_loses_and_repeats_nothing(
    place: Workplace,
    marker: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many times `kill -9` and `--resume`: every case ends with one record, nothing finished runs twice, no orphan."""
    name, _, value = marker.partition("=")
    monkeypatch.setenv(name, value)
    place.write("suite.yaml", RESUMED_SUITE)
    place.write("scripts/steps.py", STEPS)
    chance = random.Random(os.environ.get("PACELINE_TEST_SEED", "20"))
    finished: dict[str, dict[str, object]] = {}
    kills = 0
    session = 0
    while kills < 15:
        exists = (place.path / "results" / f"s{session}").exists()
        how = ("--resume", f"s{session}") if exists else ("--session-name", f"s{session}")
        runner = place.start("run", "suite.yaml", *how)
        try:
            runner.wait(timeout=chance.uniform(0.05, 1.6))
        except subprocess.TimeoutExpired:
            os.kill(runner.pid, signal.SIGKILL)
            runner.wait()
            kills += 1
        wait_until(lambda: marked_processes(marker) == [], "the end of all that it started")
        now = place.records(f"s{session}")
        for case, record in finished.items():
            assert now[case] == record, f"{case} had finished and ran again"
        finished = {case: record for case, record in now.items() if record["status"] == "passed"}
        if len(finished) == 9:
            session, finished = session + 1, {}
    # Without the history, which may find that the sessions of a busy machine became slower.
    last = place.run("run", "suite.yaml", "--resume", f"s{session}", "--no-history") if finished else None
    assert last is None or last.returncode == 0, last.stderr
    for number in range(session + bool(finished)):
        records = place.records(f"s{number}")
        assert len(records) == 9
        assert {record["status"] for record in records.values()} == {"passed"}
        assert len(records["repeated"]["metrics"]["value"]["samples"]) == 3


def test_first_interrupt_ends_cleanly_and_the_session_resumes(place: Workplace) -> None:
    place.write(
        "scripts/wait.py", PASS + "import time\nprint('ready', flush=True)\ntime.sleep(float(sys.argv[1]))\n"
    )
    place.write(
        "suite.yaml",
        "entries:\n  - {name: a, script: wait.py, args: ['0']}\n  - {name: b, script: wait.py, args: ['${WAIT:-60}']}\n"
        "  - {name: c, script: wait.py, args: ['0']}\n",
    )
    runner = place.start("run", "suite.yaml", "--session-name", "s", "--no-history")
    log = place.path / "results/s/b/logs/stdout.log"
    wait_until(lambda: log.exists() and b"ready" in log.read_bytes())
    runner.send_signal(signal.SIGINT)
    assert runner.wait(timeout=120) == 130
    records = place.records("s")
    assert records["a"]["status"] == "passed" and records["b"]["status"] == "interrupted"
    assert "c" not in records
    assert (place.path / "results/s/report.json").is_file()
    again = place.run("run", "suite.yaml", "--resume", "s", "--no-history", WAIT="0")
    assert again.returncode == 0, again.stderr
    after = place.records("s")
    assert after["a"] == records["a"]
    assert {record["status"] for record in after.values()} == {"passed"}


def test_second_interrupt_is_immediate(place: Workplace) -> None:
    ignore = "import signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    code = ignore + "print('ready', flush=True)\ntime.sleep(600)\n"
    place.write("scripts/stubborn.py", code)
    place.write("suite.yaml", "grace_s: 300\nentries:\n  - {name: a, script: stubborn.py}\n")
    runner = place.start("run", "suite.yaml", "--session-name", "s", "--no-history")
    log = place.path / "results/s/a/logs/stdout.log"
    wait_until(lambda: log.exists() and b"ready" in log.read_bytes())
    runner.send_signal(signal.SIGINT)
    events = place.path / "results/s/events.jsonl"
    wait_until(lambda: b"stopping" in events.read_bytes())
    runner.send_signal(signal.SIGINT)
    assert runner.wait(timeout=120) == 130
    assert place.record("s", "a")["status"] == "interrupted"


# Whoever listens is stuck at the first case that has ended, so that nothing is taken from the executor any more.
STUCK = """
import threading
from pathlib import Path
from paceline.run.context import SilentListener
from paceline.session.request import Request
from paceline.session.session import run

class Stuck(SilentListener):
    def case_finished(self, record, entry_dir):
        threading.Event().wait()

run(Request(configs=(Path("suite.yaml"),), session_name="s", jobs=4, history=False), Stuck())
"""


def test_a_killed_runner_whose_listener_is_slow_loses_no_finished_case(place: Workplace) -> None:
    command = "[sh, -c, 'echo $PACELINE_CASE >> ledger']"
    entries = [f"  - {{name: {name}, command: {command}, resources: {{cpus: 0.1}}}}" for name in "abcdef"]
    place.write("suite.yaml", "\n".join(["entries:", *entries, ""]))
    runner = subprocess.Popen(
        [sys.executable, "-c", STUCK], cwd=place.path, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_until(lambda: len(place.records("s")) == 4, "the fourth record", by=runner)
    finally:
        runner.kill()
        runner.wait()
    assert sorted(place.ran()) == ["a", "b", "c", "d"]
    assert {record["status"] for record in place.records("s").values()} == {"passed"}
    resumed = place.run("run", "suite.yaml", "--resume", "s", "--no-history")
    assert resumed.returncode == 0 and "Keeping 4 of 6 cases" in resumed.stdout, resumed.stdout
    assert sorted(place.ran()) == ["a", "b", "c", "d", "e", "f"]
