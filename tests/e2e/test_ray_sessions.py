"""Sessions whose entries have Ray clusters of their own, through the real command line."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from living_processes import marked_processes
from paceline.run.ray import cluster as ray_cluster
from paceline.run.ray.ports import LOOPBACK, Ports, reserve
from paceline.session.request import Request
from paceline.session.session import run
from patience import PATIENCE_S, wait_until
from workplace import Workplace

EXAMPLES = Path(__file__).parents[2] / "examples"

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")

# Says that its cluster is up, waits to be let go, and then still gets work done there.
PATIENT = """
import pathlib, time
import ray
from paceline import emit

ray.init(log_to_driver=False)
here = pathlib.Path(__file__).parent
(here / "up").touch()
deadline = time.monotonic() + 120
while not (here / "go").exists() and time.monotonic() < deadline:
    time.sleep(0.05)
emit.metrics({"answer": ray.get(ray.remote(lambda: 42).remote())})
"""

SUITE = """
entries:
  - name: patient
    script: patient.py
    ray: {num_cpus: 1, object_store_memory: 80000000, start_timeout_s: 150}
    requirements: [{metric: answer, exact_value: 42}]
"""

FAULT = """
entries:
  - name: fault
    command: [python, -c, "raise SystemExit('must not run')"]
    ray: {num_cpus: 1, object_store_memory: 80000000, start_timeout_s: 150}
  - name: fine
    command: ["true"]
"""

HIDE_RAY = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, path=None, target=None: None if name == "ray" else find(name, path, target)
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of our own for temporary directories, short as the names of sockets need it."""
    path = Path(tempfile.mkdtemp(prefix="pl", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(path))
    yield path
    shutil.rmtree(path)


@needs_ray
@pytest.mark.ray
def test_each_entry_of_the_example_gets_the_cluster_it_asks_for(place: Workplace, temporary: Path) -> None:
    marker = uuid.uuid4().hex
    done = place.run(
        "run",
        "--no-history",
        EXAMPLES / "ray.yaml",
        "--results-dir",
        "results",
        "--session-name",
        "s",
        TEST_MARKER=marker,
    )
    assert marked_processes(marker) == []
    assert done.returncode == 0, done.stdout + done.stderr
    small, large = place.record("s", "one_cpu"), place.record("s", "three_cpus")
    assert small["metrics"]["cluster_cpus"]["value"] == 1
    assert large["metrics"]["cluster_cpus"]["value"] == 3
    assert small["metrics"]["object_store_bytes"]["value"] < large["metrics"]["object_store_bytes"]["value"]
    for record in (small, large):
        assert record["metrics"]["cluster_gpus"]["value"] == 0
        assert record["timings_s"]["cluster_start"] > 0 and record["timings_s"]["cluster_stop"] > 0
        assert (
            record["timings_s"]["run"] < record["timings_s"]["total"] - record["timings_s"]["cluster_start"]
        )
    logs = place.path / "results/s/one_cpu/ray_cluster"
    assert (logs / "ray_start.log").stat().st_size and (logs / "logs/raylet.out").exists()
    assert list(temporary.glob("paceline-ray-*")) == []


def patient(place: Workplace, name: str) -> Workplace:
    one = Workplace(place.path / name)
    one.write("scripts/patient.py", PATIENT)
    one.write("suite.yaml", SUITE)
    return one


def start(place: Workplace, marker: str, monkeypatch: pytest.MonkeyPatch) -> subprocess.Popen[bytes]:
    monkeypatch.setenv("TEST_MARKER", marker)
    return place.start("run", "--no-history", "suite.yaml", "--session-name", "s")


@needs_ray
@pytest.mark.ray
def test_a_killed_session_harms_no_other_and_is_cleaned_up_by_its_next_run(
    place: Workplace,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doomed, lasting = patient(place, "doomed"), patient(place, "lasting")
    markers = uuid.uuid4().hex, uuid.uuid4().hex
    runs = [start(one, mark, monkeypatch) for one, mark in zip((doomed, lasting), markers, strict=True)]
    try:
        wait_until(lambda: all((one.path / "scripts/up").exists() for one in (doomed, lasting)))
        runs[0].kill()
        runs[0].wait()
        wait_until(lambda: marked_processes(markers[0]) == [], "the end of the killed session's cluster")
        assert len(list(temporary.glob("paceline-ray-*"))) == 2
        (lasting.path / "scripts/go").touch()
        assert runs[1].wait(PATIENCE_S) == 0
    finally:
        for one in runs:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()
    assert lasting.record("s", "patient")["status"] == "passed"
    assert len(list(temporary.glob("paceline-ray-*"))) == 1
    (doomed.path / "scripts/go").touch()
    again = doomed.run("run", "--no-history", "suite.yaml", "--session-name", "again")
    assert again.returncode == 0, again.stdout + again.stderr
    assert list(temporary.glob("paceline-ray-*")) == []
    assert all(marked_processes(mark) == [] for mark in markers)


def check_fault(place: Workplace, *parts: str, status: str = "infra_error") -> None:
    record = place.record("s", "fault")
    assert record["status"] == status, record["reason"]
    assert all(part in record["reason"] for part in parts), record["reason"]
    assert "\n" not in record["reason"]
    assert place.record("s", "fine")["status"] == "passed"


def test_without_ray_the_entry_says_what_to_install(place: Workplace) -> None:
    place.write("suite.yaml", FAULT)
    hidden = place.write("hidden/sitecustomize.py", HIDE_RAY).parent
    done = place.run(
        "run",
        "--no-history",
        "suite.yaml",
        "--session-name",
        "s",
        PYTHONPATH=str(hidden),
        PATH="/usr/bin:/bin",
    )
    assert done.returncode == 1, done.stderr
    check_fault(place, "needs the ray extra: pip install 'paceline[ray]'", status="launch_error")


@needs_ray
def test_a_temporary_directory_that_cannot_be_written_fails_the_entry_only(place: Workplace) -> None:
    place.write("suite.yaml", FAULT)
    done = place.run("run", "--no-history", "suite.yaml", "--session-name", "s", TMPDIR="/dev/null")
    assert done.returncode == 1, done.stderr
    check_fault(place, "cannot make a temporary directory for Ray: Not a directory", "set TMPDIR")


class Silent:
    """A listener that has nothing to say."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


@needs_ray
@pytest.mark.ray
def test_ports_that_are_always_taken_fail_the_entry_only(
    place: Workplace, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = place.write("suite.yaml", FAULT)
    with closing(socket.create_server((LOOPBACK, 0))) as listener:
        port = listener.getsockname()[1]

        def unlucky(purposes: tuple[str, ...]) -> Ports:
            ports = reserve(purposes)
            ports._numbers["gcs"] = port
            return ports

        monkeypatch.setattr(ray_cluster, "reserve", unlucky)
        request = Request(configs=(config,), results_dir=place.path / "results", session_name="s")
        report = run(request, Silent())
    assert not report.ok
    check_fault(place, f"port {port} is in use; 3 tries")
    assert list(temporary.glob("paceline-ray-*")) == []
