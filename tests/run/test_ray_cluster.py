"""An entry's own Ray cluster: first against a stand-in for `ray start`, then against Ray itself."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import venv
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from living_processes import marked_processes
from paceline.record.redact import Redactor
from paceline.run.ray import cluster as ray_cluster
from paceline.run.ray.cluster import ClusterError, RayCluster
from paceline.run.ray.ports import LOOPBACK, Ports, reserve

# Does what `ray start --head --block` does as far as we can tell: logs, a port, a daemon in a session of its own.
STAND_IN = """
import json, os, pathlib, socket, subprocess, sys, time
flags = dict(word.partition("=")[::2] for word in sys.argv[1:])
logs = pathlib.Path(flags["--temp-dir"], "session_2026-01-01_00-00-00_000000_1", "logs")
logs.mkdir(parents=True)
(logs / "seen.json").write_text(json.dumps({"flags": flags, "env": dict(os.environ), "cwd": os.getcwd()}))
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", int(flags["--port"])))
server.listen()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
BEHAVIOUR
"""
READY = "print('x SUCC -- Ray runtime started.', flush=True); time.sleep(300)"

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture
def base() -> Iterator[Path]:
    """A short place for temporary directories, as the names of sockets need it."""
    path = Path(tempfile.mkdtemp(prefix="pl", dir="/tmp"))
    yield path
    assert list(path.iterdir()) == [], "a cluster left something behind"
    shutil.rmtree(path)


@pytest.fixture
def environ(base: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(base)}


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace Ray by a program that ends its start in a given way."""

    def use(behaviour: str) -> None:
        script = tmp_path / "stand_in.py"
        script.write_text(STAND_IN.replace("BEHAVIOUR", textwrap.dedent(behaviour)))
        monkeypatch.setattr(ray_cluster, "ray_command", lambda environ: [sys.executable, "-u", str(script)])

    return use


def seen(directory: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((directory / "seen.json").read_text())
    return loaded


def test_a_cluster_lives_inside_the_with_and_is_gone_after_it(
    stand_in: Callable[[str], None], environ: dict[str, str], tmp_path: Path
) -> None:
    stand_in(READY)
    environ["RAY_ADDRESS"] = "users.example:6379"
    cluster = RayCluster({"num_cpus": 2}, tmp_path / "ray_cluster", environ, cwd=str(tmp_path))
    with cluster:
        mark = cluster.env["RAY_AUTH_TOKEN_PATH"]
        port = int(cluster.env["RAY_ADDRESS"].rpartition(":")[2])
        socket.create_connection((LOOPBACK, port)).close()
        assert len(marked_processes(mark)) == 2
    assert marked_processes(mark) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port))
    assert cluster.warnings == () and set(cluster.timings_s) == {"cluster_start", "cluster_stop"}
    found = seen(tmp_path / "ray_cluster/logs")
    assert found["flags"]["--num-cpus"] == "2" and found["cwd"] == str(tmp_path)
    assert "RAY_ADDRESS" not in found["env"] and environ["RAY_ADDRESS"] == "users.example:6379"
    assert "started" in (tmp_path / "ray_cluster/ray_start.log").read_text()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (
            "raise ValueError('the store is too small')",
            "exited with code 1; its log ends: ValueError: the store",
        ),
        ("os.kill(os.getpid(), 9)", "Ray did not start: killed by SIGKILL"),
        (
            "print('2026-01-01 00:00:00,000\\tERR a.py:1 -- no luck'); sys.exit(3)",
            "code 3; its log ends: no luck",
        ),
    ],
)
def test_a_failed_start_is_one_line_with_the_end_of_its_log(
    stand_in: Callable[[str], None], environ: dict[str, str], tmp_path: Path, behaviour: str, message: str
) -> None:
    stand_in(behaviour)
    cluster = RayCluster({}, tmp_path / "ray_cluster", environ)
    with pytest.raises(ClusterError, match=message) as caught, cluster:
        pass
    assert "\n" not in str(caught.value)
    assert cluster.timings_s["cluster_start"] > 0
    tried = seen(tmp_path / "ray_cluster/failed-1")
    assert marked_processes(tried["flags"]["--temp-dir"]) == []
    assert not (tmp_path / "ray_cluster/failed-2").exists()


def test_a_start_that_takes_too_long_is_ended(
    stand_in: Callable[[str], None], environ: dict[str, str], tmp_path: Path
) -> None:
    stand_in("print('still at it', flush=True); time.sleep(300)")
    cluster = RayCluster({"start_timeout_s": 2}, tmp_path / "ray_cluster", environ)
    with pytest.raises(ClusterError, match=r"did not start within 2 s \(`start_timeout_s`\)"), cluster:
        pass


def test_a_start_ends_when_the_session_does(
    stand_in: Callable[[str], None], environ: dict[str, str], tmp_path: Path
) -> None:
    stand_in("time.sleep(300)")
    cluster = RayCluster({}, tmp_path / "ray_cluster", environ, stopping=lambda: True)
    with pytest.raises(ClusterError, match="stopped while"), cluster:
        pass


def test_an_interrupt_leaves_nothing(
    stand_in: Callable[[str], None], environ: dict[str, str], tmp_path: Path
) -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    stand_in("time.sleep(300)")
    with pytest.raises(KeyboardInterrupt), RayCluster({}, tmp_path / "r", environ, stopping=interrupt):
        pass


def test_a_cluster_that_dies_early_is_noted(
    stand_in: Callable[[str], None], environ: dict[str, str], tmp_path: Path
) -> None:
    stand_in("print('Ray runtime started.', flush=True); print('ERR raylet died'); sys.exit(1)")
    cluster = RayCluster({}, tmp_path / "ray_cluster", environ)
    with cluster:
        head = cluster._head
        assert head is not None
        head._thread.join(60)
    assert ["ended before the script" in note and "raylet died" in note for note in cluster.warnings] == [
        True
    ]


def taken_port(monkeypatch: pytest.MonkeyPatch, times: int, purpose: str = "gcs") -> socket.socket:
    """Let the next reservations hold a port that somebody listens on."""
    listener = socket.create_server((LOOPBACK, 0))
    left = [listener.getsockname()[1]] * times

    def unlucky(purposes: tuple[str, ...]) -> Ports:
        ports = reserve(purposes)
        if left:
            ports._numbers[purpose] = left.pop()
        return ports

    monkeypatch.setattr(ray_cluster, "reserve", unlucky)
    return listener


@pytest.mark.parametrize(("unlucky", "up"), [(1, True), (2, True), (3, False)])
def test_a_taken_port_is_tried_again_on_others(
    stand_in: Callable[[str], None],
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unlucky: int,
    up: bool,
) -> None:
    stand_in(READY)
    with closing(taken_port(monkeypatch, unlucky)) as listener, ExitStack() as stack:
        if not up:
            port = listener.getsockname()[1]
            stack.enter_context(pytest.raises(ClusterError, match=rf"in use.*port {port} is in use; 3 tries"))
        with RayCluster({}, tmp_path / "ray_cluster", environ):
            assert up
    assert len(list((tmp_path / "ray_cluster").glob("failed-*"))) == unlucky


def test_a_start_that_hangs_on_a_taken_port_is_tried_again_in_time(
    stand_in: Callable[[str], None], environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself hangs so when its agent cannot have its port."""
    stand_in(f"""
        agent = socket.socket()
        if agent.connect_ex(("127.0.0.1", int(flags["--dashboard-agent-listen-port"]))) == 0:
            time.sleep(300)
        {READY}
    """)
    listener = taken_port(monkeypatch, 1, purpose="agent_http")
    with closing(listener), RayCluster({"start_timeout_s": 15}, tmp_path / "ray_cluster", environ):
        pass
    assert len(list((tmp_path / "ray_cluster").glob("failed-*"))) == 1


def test_secrets_are_masked_in_all_logs(
    stand_in: Callable[[str], None], environ: dict[str, str], tmp_path: Path
) -> None:
    stand_in("print('password is hunter2', flush=True)\n" + READY)
    environ["MY_PASSWORD"] = "hunter2"
    with RayCluster({}, tmp_path / "ray_cluster", environ, redactor=Redactor(["hunter2"])):
        pass
    kept = [path.read_text() for path in (tmp_path / "ray_cluster").rglob("*") if path.is_file()]
    assert len(kept) == 2 and all("***" in text and "hunter2" not in text for text in kept)


def test_without_ray_the_extra_is_named(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    environ["PATH"] = str(tmp_path)
    wanted = r"^an entry with `ray:` needs the ray extra: pip install 'paceline\[ray\]'$"
    with pytest.raises(ClusterError, match=wanted), RayCluster({}, tmp_path / "r", environ):
        pass


def make_environment(path: Path) -> tuple[Path, Path]:
    """An environment of Python: its interpreter, and where its packages go."""
    venv.create(path, with_pip=False, symlinks=True)
    (site,) = path.glob("lib/python*/site-packages")
    return path / "bin/python", site


def test_an_entrys_own_python_starts_its_cluster(environ: dict[str, str], tmp_path: Path) -> None:
    python, site = make_environment(tmp_path / "environment")
    (site / "ray/scripts").mkdir(parents=True)
    (site / "ray/__init__.py").touch()
    said = "print(sys.executable, sys.argv[1]); sys.argv.pop(1)\n"
    (site / "ray/scripts/scripts.py").write_text(f"import sys\n{said}{STAND_IN.replace('BEHAVIOUR', READY)}")
    here = tmp_path / "here"
    here.mkdir()
    (here / "ray.py").write_text("raise SystemExit('not Ray')")
    with RayCluster({}, tmp_path / "ray_cluster", environ, cwd=str(here), python=["env", str(python)]):
        assert (tmp_path / "ray_cluster/ray_start.log").read_text().startswith(f"{python} start\n")


def test_an_entrys_own_python_without_ray_is_said_in_one_line(
    environ: dict[str, str], tmp_path: Path
) -> None:
    python, _ = make_environment(tmp_path / "environment")
    with pytest.raises(ClusterError) as raised:
        RayCluster({}, tmp_path / "ray_cluster", environ, python=[str(python)]).__enter__()
    install = f"install it there: {python} -m pip install ray"
    assert str(raised.value) == f"the entry's interpreter has no Ray: {python}; {install}"


USERS_SCRIPT = """
import json, os, pathlib, sys
import ray
ray.init(log_to_driver=False)

@ray.remote
def work():
    import users_package
    return sys.executable, users_package.ANSWER

python, answer = ray.get(work.remote())
metrics = {"answer": answer, "is_same": python == sys.executable}
pathlib.Path(os.environ["PACELINE_RESULTS_PATH"], "metrics.json").write_text(json.dumps(metrics))
"""


@needs_ray
@pytest.mark.ray
def test_workers_import_what_the_entrys_interpreter_has(base: Path, tmp_path: Path) -> None:
    python, site = make_environment(tmp_path / "environment")
    (site / "users_package.py").write_text("ANSWER = 42")
    (site / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    (tmp_path / "script.py").write_text(USERS_SCRIPT)
    ray = {"num_cpus": 1, "object_store_memory": 80_000_000, "start_timeout_s": 300, "dashboard": False}
    wanted = [{"metric": "answer", "exact_value": 42}, {"metric": "is_same", "exact_value": True}]
    entry = {
        "name": "e",
        "script": "script.py",
        "interpreter": str(python),
        "ray": ray,
        "requirements": wanted,
    }
    (tmp_path / "suite.json").write_text(
        json.dumps({"results_dir": str(tmp_path / "out"), "entries": [entry]})
    )
    command = [sys.executable, "-m", "paceline", "run", "suite.json", "--no-history"]
    environ = {**os.environ, "TMPDIR": str(base)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ray_on_the_users_path_will_do(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/ray"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho Ray runtime started.; exec sleep 300\n")
    program.chmod(0o755)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    environ["PATH"] = f"{program.parent}:{environ['PATH']}"
    with RayCluster({}, tmp_path / "r", environ) as cluster:
        assert cluster.env["RAY_ADDRESS"].startswith("127.0.0.1:")


def test_a_temporary_directory_that_cannot_be_written_is_named(
    environ: dict[str, str], base: Path, tmp_path: Path
) -> None:
    environ["TMPDIR"] = "/dev/null"
    with pytest.raises(ClusterError, match=r"Not a directory: /dev/null/.*set TMPDIR"):
        RayCluster({}, tmp_path / "r", environ).__enter__()


def test_an_impossible_store_is_refused(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="object_store_memory is 0"):
        RayCluster({"object_store_memory": 0}, tmp_path / "r", environ).__enter__()


def test_an_existing_cluster_is_used_and_left_alone(tmp_path: Path) -> None:
    with closing(socket.create_server((LOOPBACK, 0))) as server:
        address = f"{LOOPBACK}:{server.getsockname()[1]}"
        environ: Mapping[str, str] = {"RAY_ADDRESS": address}
        for given in (address, f"ray://{address}", "auto"):
            options = {"address": given, "num_cpus": 4}
            with RayCluster(options, tmp_path / "r", environ) as cluster:
                assert cluster.env == {"RAY_ADDRESS": address if given == "auto" else given}
            assert "ray.num_cpus had no effect" in cluster.warnings[0]
    assert environ == {"RAY_ADDRESS": address} and not (tmp_path / "r").exists()
    with pytest.raises(ClusterError, match=f"no Ray cluster answers at {address}: Connection refused"):
        RayCluster({"address": address}, tmp_path / "r", environ).__enter__()


def test_auto_without_an_address_is_left_to_ray(tmp_path: Path) -> None:
    with RayCluster({"address": "auto"}, tmp_path / "r", {}) as cluster:
        assert cluster.env == {"RAY_ADDRESS": "auto"}


# Puts 200 MB into a store of 100 MB; says what it saw. With --graph, leaves semaphores of a compiled graph.
FILL = """
import json, os, pathlib, sys
import ray
from ray.dag import InputNode

ray.init(log_to_driver=False, logging_level="ERROR")
seen = {"resources": ray.cluster_resources(), "error": None}
kept = []
try:
    for _ in range(10):
        kept.append(ray.put(bytearray(20_000_000)))
except ray.exceptions.RayError as error:
    seen["error"] = type(error).__name__
home = pathlib.Path(os.environ["RAY_AUTH_TOKEN_PATH"]).parent
seen["spilled"] = sum(path.stat().st_size for path in home.rglob("ray_spilled_objects*/*") if path.is_file())
if seen["error"] is None:
    seen["intact"] = all(len(ray.get(one)) == 20_000_000 for one in kept)
del kept


@ray.remote(num_cpus=0)
class Adder:
    def add(self, number):
        return number + 1


with InputNode() as number:
    graph = Adder.remote().add.bind(number).experimental_compile()
seen["sum"] = ray.get(graph.execute(1))
seen["semaphores"] = sorted(path.name for path in pathlib.Path("/dev/shm").glob("sem.*"))
print(json.dumps(seen), flush=True)
os._exit(0)
"""


def run_script(code: str, environ: Mapping[str, str], **env: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environ, **env}, capture_output=True, text=True, timeout=170
    )
    assert done.returncode == 0, done.stderr
    loaded: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return loaded


def semaphores() -> set[str]:
    """What is in shared memory now; other programs may have left some."""
    return {path.name for path in Path("/dev/shm").glob("sem.*")}


def listening(pids: list[int]) -> set[str]:
    """The addresses that these processes accept connections on, as the kernel writes them."""
    sockets = set()
    for pid in pids:
        with suppress(OSError):  # a worker may end at any moment
            for entry in list(Path(f"/proc/{pid}/fd").iterdir()):
                with suppress(OSError):
                    sockets.add(str(entry.readlink()))
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].partition(":")[0])
    return found


@needs_ray
@pytest.mark.ray
def test_two_clusters_side_by_side_spilling_and_not(environ: dict[str, str], tmp_path: Path) -> None:
    of_others = semaphores()
    small = {"object_store_memory": 100_000_000, "start_timeout_s": 170}
    options = ({"num_cpus": 1, **small}, {"num_cpus": 2, "enable_object_spilling": True, **small})
    clusters = [
        RayCluster(each, tmp_path / str(number), environ, cwd=str(tmp_path))
        for number, each in enumerate(options)
    ]
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        list(pool.map(stack.enter_context, clusters))
        off, on = pool.map(lambda cluster: run_script(FILL, {**environ, **cluster.env}), clusters)
        marks = [cluster.env["RAY_AUTH_TOKEN_PATH"] for cluster in clusters]
        alive = [marked_processes(mark) for mark in marks]
        addresses = listening([pid for pids in alive for pid in pids])
        stolen = {**clusters[0].env, "RAY_ADDRESS": clusters[1].env["RAY_ADDRESS"]}
        intruder = subprocess.run(
            [sys.executable, "-c", "import ray; ray.init()"], env={**environ, **stolen}, capture_output=True
        )
    assert off["resources"]["CPU"] == 1 and on["resources"]["CPU"] == 2
    assert "GPU" not in off["resources"] and "GPU" not in on["resources"]
    assert off["error"] is not None and off["spilled"] == 0
    assert on["error"] is None and on["spilled"] > 0 and on["intact"]
    assert intruder.returncode != 0, "one cluster's token opened the other"
    assert addresses == {"0100007F", "0000000000000000FFFF00000100007F"}, "something listens beyond loopback"
    assert all(len(pids) > 4 for pids in alive)
    assert [marked_processes(mark) for mark in marks] == [[], []]
    assert [cluster.warnings for cluster in clusters] == [(), ()]
    assert off["sum"] == on["sum"] == 2 and on["semaphores"]
    assert not ({*off["semaphores"], *on["semaphores"]} - of_others) & semaphores()
    for number in range(2):
        logs = tmp_path / str(number) / "logs"
        assert (logs / "raylet.out").stat().st_size and (logs / "gcs_server.out").exists()
        assert all(path.is_file() or path.is_dir() for path in logs.rglob("*"))


@needs_ray
@pytest.mark.ray
def test_ray_itself_is_started_again_when_its_port_is_taken(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"num_cpus": 1, "object_store_memory": 80_000_000, "start_timeout_s": 170}
    with closing(taken_port(monkeypatch, 1)), RayCluster(options, tmp_path / "r", environ) as cluster:
        code = "import json, ray; ray.init(); print(json.dumps(ray.cluster_resources()))"
        assert run_script(code, environ, **cluster.env)["CPU"] == 1
    assert [path.name for path in (tmp_path / "r").glob("failed-*")] == ["failed-1"]
