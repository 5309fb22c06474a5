"""What the image is made of besides the package: the part of the lock that it installs, and its health check."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from patience import wait_until
from workplace import Workplace

REPOSITORY = Path(__file__).parents[2]
PINS = re.compile(r"^([a-z0-9][a-z0-9._-]*)==", re.MULTILINE)


def locked(*words: str) -> subprocess.CompletedProcess[str]:
    program = REPOSITORY / "docker" / "locked_requirements.py"
    return subprocess.run([sys.executable, program, *words], cwd=REPOSITORY, capture_output=True, text=True)


def pins(*words: str) -> set[str]:
    done = locked(*words)
    assert done.returncode == 0, done.stderr
    return set(PINS.findall(done.stdout))


def needed_by(name: str) -> Iterator[str]:
    """What an installed package asks for on this machine, without extras."""
    for line in distribution(name).requires or ():
        if ";" not in line:
            yield re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", line)[0]).lower()


def test_the_core_is_locked_with_all_it_needs() -> None:
    found = pins("--extras", "none")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert {re.split(r"[>=\[]", one)[0].lower() for one in project["dependencies"]} <= found
    for name in found:
        assert set(needed_by(name)) <= found, name
    assert not found & {"ray", "pytest", "mlflow-skinny"}


def test_every_line_has_its_hash() -> None:
    for extras in ("none", "ray,mlflow,postgres,s3,curate", "gpu,slack"):
        text = locked("--extras", extras).stdout
        blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
        assert blocks
        assert all("--hash=sha256:" in block for block in blocks)


def test_extras_add_what_they_ask_for() -> None:
    core = pins("--extras", "none")
    assert "ray" in pins("--extras", "ray") - core
    assert {"mlflow-skinny", "psycopg-binary"} <= pins("--extras", "mlflow,postgres")
    assert pins("--extras", "") == core


def test_torch_is_asked_for_apart() -> None:
    done = locked("--extras", "evals")
    assert done.returncode == 2
    assert "not in requirements.lock: torch" in done.stderr
    assert "transformers" in pins("--extras", "evals", "--without", "torch")


def test_an_unknown_extra_is_refused() -> None:
    done = locked("--extras", "rai")
    assert done.returncode == 2
    assert "no extra 'rai'" in done.stderr


def health(pid: int) -> subprocess.CompletedProcess[str]:
    program = REPOSITORY / "docker" / "healthcheck.py"
    return subprocess.run([sys.executable, program, str(pid)], capture_output=True, text=True, timeout=60)


@pytest.fixture
def serving(place: Workplace) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A dashboard that serves; its process and address."""
    (place.path / "results").mkdir()
    server = subprocess.Popen(
        place.command("dashboard", "serve", "--port", "0", "--bind", "127.0.0.1", "--results", "results"),
        cwd=place.path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield server, server.stdout.readline().strip()
    finally:
        server.send_signal(signal.SIGCONT)
        server.kill()
        server.wait()
        server.stdout.close()


def test_a_dashboard_is_well_when_it_answers(serving: tuple[subprocess.Popen[str], str]) -> None:
    server, address = serving
    port = address.rstrip("/").rpartition(":")[2]
    # The check reads the port from the command line, where a free one is 0: ask as if it stood there.
    program = (
        "import runpy, sys; print(runpy.run_path(sys.argv[1])['find_fault_of_server'](int(sys.argv[2])))"
    )
    words = [sys.executable, "-c", program, REPOSITORY / "docker" / "healthcheck.py"]
    assert subprocess.run([*words, port], capture_output=True, text=True).stdout == "None\n"

    unreachable = health(server.pid)
    assert unreachable.returncode == 1
    assert "does not answer on port 0" in unreachable.stdout

    os.kill(server.pid, signal.SIGSTOP)
    wait_until(lambda: "is stopped" in health(server.pid).stdout)
    assert health(server.pid).returncode == 1

    server.kill()
    server.wait()
    gone = subprocess.run([*words, port], capture_output=True, text=True).stdout
    assert f"does not answer on port {port}" in gone


def test_a_run_is_well_behind_an_init_and_other_programs_are_not_ours(place: Workplace) -> None:
    place.write("suite.yaml", "entries:\n  - name: wait\n    command: [sleep, '600']\n")
    words = place.command("run", "suite.yaml", "--no-history", "--log", "plain")
    # A shell that waits for its child stands for the engine's init.
    init = subprocess.Popen(
        ["bash", "-c", '"$@" & trap "kill $!" TERM; wait $!; wait', "init", *words],
        cwd=place.path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert init.stdout is not None
    try:
        while "Running wait" not in (line := init.stdout.readline()):
            assert line, "the run ended"
        done = health(init.pid)
        assert (done.returncode, "paceline runs as process" in done.stdout) == (0, True)
    finally:
        init.terminate()
        init.stdout.read()
        init.wait()
        init.stdout.close()
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        other = health(sleeper.pid)
        sleeper.kill()
    assert (other.returncode, other.stdout) == (0, "nothing of paceline runs here\n")
