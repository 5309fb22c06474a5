"""Whether a run had the machine to itself, and the samples' file."""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from paceline.run import collectors
from paceline.run.collectors import SystemCollector, make_collectors, write_samples
from paceline.run.conditions import Conditions, disturbances
from paceline.run.local.process import Usage

BURN = "import time\nprint('up', flush=True)\nwhile True: pass"


@pytest.fixture(autouse=True)
def first_run_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemCollector, "_last_ended", None)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A machine whose figures the test sets: 2 CPUs with nothing to do."""
    files = {
        "/proc/stat": b"cpu  1000 0 1000 9000 0 0 0 0 0 0\ncpu0 1 1\n",
        "/proc/pressure/cpu": b"some avg10=0.00 avg60=0.00 avg300=0.00 total=5000\nfull avg10=0.00 total=1\n",
    }
    monkeypatch.setattr(collectors, "read_proc", lambda path: files.get(path, b""))
    monkeypatch.setattr(collectors, "_load", lambda: 0.1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    return files


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.process_time", lambda: 0.0)
    return now


def test_other_processes_are_told_from_the_run_itself(idle: dict[str, bytes], clock: list[float]) -> None:
    with SystemCollector() as system:
        idle["/proc/stat"] = b"cpu  1200 50 1100 9000 77 30 10 10 0 0\n"  # 4 s of work, iowait is none
        idle["/proc/pressure/cpu"] = b"some avg10=1.00 avg60=0.00 avg300=0.00 total=505000\n"
        clock[0] += 2
    usage = Usage(cpu_user_s=2, cpu_system_s=0.5)
    assert system.metrics(usage) == {"load_before": 0.1, "other_cpu_cores": 0.75, "cpu_pressure_pct": 25.0}
    assert system.conditions(usage).disturbance() == "other processes used 0.75 CPU cores on average"
    alone = Usage(cpu_user_s=3.9, cpu_system_s=0.2)
    assert system.metrics(alone)["other_cpu_cores"] == 0
    assert system.conditions(alone).disturbance() == ""


@pytest.mark.parametrize(("wall_s", "measured"), [(0.05, False), (0.3, True)])
def test_a_short_run_is_not_judged_by_a_coarse_clock(
    idle: dict[str, bytes], clock: list[float], wall_s: float, measured: bool
) -> None:
    with SystemCollector() as system:
        idle["/proc/stat"] = b"cpu  1100 0 1000 9000 0 0 0 0 0 0\n"
        clock[0] += wall_s
    assert ("other_cpu_cores" in system.metrics(Usage())) is measured
    assert system.conditions(Usage()).disturbance() == ""


def test_load_before_the_first_run_is_told_and_is_no_disturbance_by_itself(
    idle: dict[str, bytes], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collectors, "_load", lambda: 1.75)
    with SystemCollector() as system:
        clock[0] += 1
    line = "the machine was busy before the run: a load average of 1.75 on 2 CPUs"
    assert system.warnings() == (line,) and system.conditions(Usage()).disturbance() == ""
    with SystemCollector() as system:
        clock[0] += 1
    assert system.warnings() == ()  # it may well come from the first
    assert system.metrics(Usage())["load_before"] == 1.75
    clock[0] += 600
    with SystemCollector() as system:
        clock[0] += 1
    assert system.warnings() == (line,)


def test_a_machine_that_tells_nothing_has_fewer_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectors, "read_proc", lambda _path: b"")
    monkeypatch.setattr(collectors, "_load", lambda: None)
    with SystemCollector() as system:
        pass
    assert (system.metrics(Usage()), system.warnings()) == ({}, ())
    assert system.conditions(Usage()).disturbance() == ""


def test_a_real_disturbance_is_seen() -> None:
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE))
        stack.callback(process.kill)
        assert process.stdout is not None
        process.stdout.readline()
        with SystemCollector() as system:
            time.sleep(1)
    found = system.metrics(Usage(wall_s=1))
    assert found["other_cpu_cores"] > 0.25
    assert found["load_before"] >= 0
    assert "CPU cores on average" in system.conditions(Usage(wall_s=1)).disturbance()


def test_samples_become_a_table(tmp_path: Path) -> None:
    path = tmp_path / "resources.csv"
    assert write_samples(path, ((0.01, 1000, 0.0, 1), (0.025, 2000, 0.01, 3))) == ""
    assert path.read_text().split() == [
        "t_s,memory_bytes,cpu_s,processes",
        "0.01,1000,0.0,1",
        "0.025,2000,0.01,3",
    ]


def test_no_samples_no_table(tmp_path: Path) -> None:
    assert write_samples(tmp_path / "resources.csv", ()) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "resources.csv").symlink_to("/dev/full")
    warning = write_samples(tmp_path / "resources.csv", ((0.01, 1000, 0.0, 1),))
    assert warning == "resources.csv is incomplete: No space left on device"


def test_without_an_interval_gpus_are_left_alone(tmp_path: Path) -> None:
    assert make_collectors(tmp_path, gpu_interval_s=None) == []


def test_short_runs_are_looked_at_together() -> None:
    busy, calm = Conditions(elapsed_s=0.06, others_s=0.06), Conditions(elapsed_s=0.06)
    assert busy.disturbance() == "" and disturbances([busy] * 5) == ()
    assert disturbances([busy] * 10) == ("other processes used 1 CPU cores on average",) * 10
    assert disturbances([calm] * 10) == ()
    long = Conditions(elapsed_s=2, others_s=1)
    texts = disturbances([calm, long])
    assert texts == ("", "other processes used 0.5 CPU cores on average")


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        (Conditions(elapsed_s=1, stolen_s=0.2), "other machines on the host took 0.2 CPU cores"),
        (Conditions(elapsed_s=1, memory_wait_s=0.4), "something waited for memory for 40 % of the time"),
        (Conditions(throttled=2), "a core slowed down for its heat"),
        (Conditions(gpus=("GPU 0 slowed down its clock",)), "GPU 0 slowed down its clock"),
    ],
)
def test_all_that_is_known_of_the_machine_can_disturb(conditions: Conditions, said: str) -> None:
    assert conditions.disturbance() == said


def test_what_runs_beside_as_planned_is_no_disturbance(idle: dict[str, bytes], clock: list[float]) -> None:
    with SystemCollector(1) as one, SystemCollector(1.5) as other:
        idle["/proc/stat"] = b"cpu  1300 0 1000 9000 0 0 0 0 0 0\n"
        clock[0] += 2
    assert one.conditions(Usage(cpu_user_s=1)).disturbance() == ""
    assert other.conditions(Usage(cpu_user_s=0.2)).disturbance() == (
        "other processes used 0.4 CPU cores on average"
    )


def test_what_other_slots_of_a_pool_may_use_is_no_disturbance(
    idle: dict[str, bytes], clock: list[float]
) -> None:
    with SystemCollector(1, beside_cpus=1) as system:
        idle["/proc/stat"] = b"cpu  1300 0 1000 9000 0 0 0 0 0 0\n"  # 3 s of work in 2 s
        clock[0] += 2
    assert system.conditions(Usage(cpu_user_s=1)).disturbance() == ""
    assert system.conditions(Usage()).disturbance() == "other processes used 0.5 CPU cores on average"
