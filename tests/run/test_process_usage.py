"""What a run used: totals, samples, and that taking output costs no memory."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from living_processes import marked_processes
from paceline.run.local.process import Command, Exit, Usage, Warden
from paceline.run.local.tree import FEW_FAULTS, MAX_SAMPLES, PAGE_BYTES, Process, Watch, look
from patience import wait_until

MIB = 1 << 20
GNU_TIME = "/usr/bin/time"


@pytest.fixture(scope="module")
def warden() -> Iterator[Warden]:
    with Warden() as started:
        yield started


def run_python(warden: Warden, code: str, *args: str, **options: Any) -> tuple[Exit, int]:
    """The exit, and how many bytes were printed."""
    taken = 0

    def take(_stream: str, chunk: bytes) -> None:
        nonlocal taken
        taken += len(chunk)

    argv = (sys.executable, "-c", code, *args)
    return warden.run(Command(argv=argv, env=os.environ, **options), take), taken


def test_cpu_time_and_memory_of_one_process(warden: Warden) -> None:
    code = """
import time
block = bytearray(50 << 20)
while time.process_time() < 0.3:
    sum(range(10_000))
"""
    usage = run_python(warden, code)[0].usage
    assert 0.3 <= usage.cpu_user_s + usage.cpu_system_s < 1.5
    assert usage.wall_s >= 0.25
    assert 50 * MIB < usage.peak_memory_bytes < 120 * MIB
    assert 10 * MIB < usage.mean_memory_bytes <= usage.peak_memory_bytes
    assert usage.involuntary_context_switches + usage.voluntary_context_switches > 0


def test_the_time_of_a_command_ends_with_it_however_late_we_look(warden: Warden) -> None:
    mark = uuid.uuid4().hex
    assert warden._link is not None
    watcher = warden._link.process.pid
    gone_at = 0.0

    def stop_the_warden() -> None:
        nonlocal gone_at
        wait_until(lambda: bool(marked_processes(mark)))
        os.kill(watcher, signal.SIGSTOP)
        wait_until(lambda: not marked_processes(mark))
        gone_at = time.monotonic()
        time.sleep(0.2)
        os.kill(watcher, signal.SIGCONT)

    begun = time.monotonic()
    thread = threading.Thread(target=stop_the_warden)
    thread.start()
    env = {**os.environ, "PACELINE_RUN_ID": mark}
    ended = warden.run(Command(argv=("sleep", "1"), env=env), lambda _stream, _chunk: None)
    thread.join()
    assert 1 <= ended.usage.wall_s <= gone_at - begun


def test_commands_share_a_session(warden: Warden) -> None:
    """A new one for each would be a new scheduling group each time, which waits long for its first turn."""
    said: list[bytes] = []
    for _ in range(2):
        command = Command(argv=(sys.executable, "-c", "import os; print(os.getsid(0))"), env=os.environ)
        warden.run(command, lambda _stream, chunk: said.append(chunk))
    first, second = b"".join(said).split()
    assert first == second


def test_figures_are_of_the_whole_tree(warden: Warden) -> None:
    code = """
import os, time
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        block = bytearray(40 << 20)
        while time.process_time() < 0.2:
            sum(range(10_000))
        time.sleep(1)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""
    usage = run_python(warden, code)[0].usage
    assert 0.6 <= usage.cpu_user_s + usage.cpu_system_s < 3
    assert 120 * MIB < usage.peak_memory_bytes < 300 * MIB
    assert max(processes for _, _, _, processes in usage.samples) == 4


def test_what_an_orphan_used_is_counted_too(warden: Warden) -> None:
    code = """
import os, time
reader, writer = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        begun = time.process_time()
        while time.process_time() - begun < 0.1:
            sum(range(10_000))
    os._exit(0)
os.close(writer)
os.read(reader, 1)
"""
    usage = run_python(warden, code)[0].usage
    assert usage.cpu_user_s + usage.cpu_system_s >= 0.1


def test_bytes_read_and_written(warden: Warden, tmp_path: Path) -> None:
    code = """
import os, subprocess, sys
with open(sys.argv[1], "wb") as file:
    file.write(bytes(3 << 20))
subprocess.run(["sh", "-c", f"cat {sys.argv[1]} > /dev/null"])
"""
    usage = run_python(warden, code, str(tmp_path / "data"))[0].usage
    # `cat` may copy inside the kernel; either way the bytes pass it once in and once out.
    assert 3 * MIB <= usage.io_write_bytes < 8 * MIB
    assert 3 * MIB <= usage.io_read_bytes < 8 * MIB


def test_samples_tell_the_course_of_a_run(warden: Warden) -> None:
    code = "import time; time.sleep(0.3); block = bytearray(30 << 20); time.sleep(1.5)"
    usage = run_python(warden, code)[0].usage
    times = [t_s for t_s, _, _, _ in usage.samples]
    assert len(times) >= 4
    assert times == sorted(times) and times[0] > 0 and times[-1] <= usage.wall_s
    memory = [memory_bytes for _, memory_bytes, _, _ in usage.samples]
    # Not the last one: it may be taken while the process is giving its memory back.
    assert max(memory) > memory[0] + 20 * MIB
    assert memory[0] < usage.mean_memory_bytes < max(memory)


def gnu_time_bytes(*argv: str) -> int:
    if not Path(GNU_TIME).exists():
        pytest.skip("GNU time is not installed (apt-get install time)")
    done = subprocess.run([GNU_TIME, "-f", "%M", *argv], capture_output=True, check=True)
    return int(done.stderr.split()[-1]) * 1024


@pytest.mark.parametrize(
    "argv",
    [
        ("/bin/true",),
        ("sleep", "0.3"),
        ("sh", "-c", "exec sleep 0.01"),
        ("bash", "-c", "x=$(printf %0500000d 1); exec sleep 0.3"),
        (sys.executable, "-I", "-S", "-c", "pass"),
        (sys.executable, "-c", "import json, asyncio"),
        (sys.executable, "-c", "bytearray(60 << 20); import time; time.sleep(0.5)"),
    ],
    ids=["true", "sleep", "exec", "exec_of_a_smaller_one", "python", "modules", "freed"],
)
def test_a_peak_is_that_of_gnu_time_or_none(warden: Warden, argv: tuple[str, ...]) -> None:
    """Whatever the size of the process that spawns it."""
    peak = warden.run(
        Command(argv=argv, env=os.environ), lambda _stream, _chunk: None
    ).usage.peak_memory_bytes
    expected = gnu_time_bytes(*argv)
    assert peak is not None or expected < 8 * MIB
    assert peak is None or abs(peak - expected) <= max(MIB // 2, expected // 10)


def test_a_process_that_still_has_its_parents_memory_is_not_counted_twice(
    warden: Warden, tmp_path: Path
) -> None:
    """One that was spawned has, until it runs its program; here that takes as long as nobody writes into a fifo."""
    code = """
import os, sys, time
os.mkfifo(sys.argv[1])
if os.fork() == 0:
    time.sleep(0.5)
    os.close(os.open(sys.argv[1], os.O_WRONLY))
    os._exit(0)
block = bytearray(80 << 20)
wait = [(os.POSIX_SPAWN_OPEN, 9, sys.argv[1], os.O_RDONLY, 0)]
os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], os.environ, file_actions=wait), 0)
os.wait()
"""
    usage = run_python(warden, code, str(tmp_path / "fifo"))[0].usage
    assert max(processes for _, _, _, processes in usage.samples) == 3
    assert usage.peak_memory_bytes is not None and 80 * MIB < usage.peak_memory_bytes < 140 * MIB


def test_a_small_peak_is_known_only_if_hardly_a_page_was_touched_after_it_was_seen() -> None:
    program = shutil.which("sleep")
    assert program is not None
    with subprocess.Popen([program, "600"]) as small:
        try:
            wait_until(
                lambda: (seen := look(small.pid)) is not None and seen.name == "sleep" and seen.state == b"S"
            )
            seen = look(small.pid)
            assert seen is not None
            for more, known in ((0, True), (FEW_FAULTS, True), (FEW_FAULTS + 1, False)):
                watch = Watch(0.0)
                watch.program = os.fsencode(program)
                watch.sample([seen])
                usage = [0, 0, 1024, 0, 0, 0, seen.faults + more, *[0] * 9]
                status = b"VmHWM:  7000 kB\n"
                watch.add_main({"started": 0, "ended": 1, "own_status": status, "usage": usage, "io": b""})
                assert (watch.peak_bytes is not None) == known
                assert not watch.peak_bytes or watch.peak_bytes < 4 * MIB
        finally:
            small.kill()


def test_a_run_too_short_to_sample_has_no_mean(warden: Warden) -> None:
    ended = warden.run(Command(argv=("true",), env=os.environ), lambda _stream, _chunk: None)
    assert ended.usage.wall_s > 0
    assert ended.usage.mean_memory_bytes is None or ended.usage.samples


def test_a_sample_that_saw_no_memory_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("paceline.run.local.tree.monotonic", lambda: now)
    watch = Watch(0.0)
    now = 1.0
    watch.sample([])
    watch.add_ended(b"", resource.getrusage(resource.RUSAGE_SELF))
    assert watch.peak_bytes is None  # unknown is, how large the spawner was
    assert watch.mean_bytes(2.0) is None
    now = 2.0
    watch.sample([make_process(pages=10)])
    now = 3.0
    watch.sample([make_process(pages=0)])
    assert watch.mean_bytes(4.0) == 10 * PAGE_BYTES


def make_process(pages: int) -> Process:
    return Process(1, f"1 (x) R {'0 ' * 20}{pages}".encode())


def test_samples_are_bounded_and_stay_even(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("paceline.run.local.tree.monotonic", lambda: now)
    watch = Watch(0.0)
    while now < 10_000:
        now = watch.next_at
        watch.sample([])
        watch.schedule(0.0, soon=False)
    times = [sample[0] for sample in watch.samples]
    assert MAX_SAMPLES // 3 < len(times) < MAX_SAMPLES
    gaps = [later - earlier for earlier, later in pairwise(times[10:])]
    assert max(gaps) < 4 * min(gaps)


def test_a_flood_of_bytes_that_are_no_text(warden: Warden) -> None:
    code = (
        "import os\nfor _ in range(200): os.write(1, bytes(range(256)) * 256); os.write(2, b'\\xff' * 65536)"
    )
    ended, taken = run_python(warden, code)
    assert (ended.reason, ended.returncode, taken) == ("exited", 0, 200 * 2 * 65536)


def test_output_passes_through_in_flat_memory(tmp_path: Path) -> None:
    """Measured in a process of its own: 100 MB of output may cost a few."""
    code = """
import os, resource, sys
from pathlib import Path
from paceline.run.script_output import OutputLog
from paceline.run.local.process import Command, Warden

def run(megabytes):
    program = f"import os\\nfor _ in range({megabytes}): os.write(1, (b'x' * 99 + b'\\\\n') * 10_000)"
    with OutputLog(Path(sys.argv[1])) as log, Warden() as warden:
        ended = warden.run(Command(argv=(sys.executable, "-c", program), env=os.environ), log.write)
    assert ended.returncode == 0 and log.tail(1) == ["x" * 99] and not log.warning
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before, after = run(2), run(100)
print(after - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 4096  # KiB
    assert (
        (tmp_path / "stdout.log").stat().st_size == (tmp_path / "stdouterr.log").stat().st_size == 100_000_000
    )


def test_usage_of_nothing_is_zero() -> None:
    assert Usage().wall_s == 0 and Usage().samples == ()
