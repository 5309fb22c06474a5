"""What every place that runs cases promises, held against real sessions on this machine and on a pool of nodes."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paceline.model import Case, Record, Report
from paceline.run.ray import pool as ray_pool
from paceline.session.request import Request
from paceline.session.session import run
from patience import wait_until
from ray_nodes import simulated_nodes
from workplace import Workplace

CPUS, GPUS = 2, 2

# Writes down when it began and ended, and what it could see.
STAMP = """
import json, os, sys, time
from paceline import emit

def stamp(kind):
    line = {"case": os.environ["PACELINE_CASE"], "kind": kind, "at": time.monotonic(),
            "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", "")}
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps(line) + "\\n")

stamp("begin")
time.sleep(0.1)
stamp("end")
emit.metrics({"answer": 42})
"""


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[str]:
    with simulated_nodes({"num_cpus": CPUS, "num_gpus": GPUS}, {"num_cpus": CPUS, "num_gpus": GPUS}) as found:
        import ray

        ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
        yield found.address
        ray.shutdown()


@dataclass
class Runs:
    """Runs suites in this process, at one of the places; and listens."""

    place: Workplace
    on: str
    finished: list[str] = field(default_factory=list)
    tails: dict[str, Callable[[int], list[str]]] = field(default_factory=dict)

    def __call__(self, suite: str, **options: Any) -> Report:
        config = self.place.write("suite.yaml", suite)
        settings = {"jobs": 4, "session_name": "s", "results_dir": self.place.path / "results", **options}
        return run(Request(configs=(config,), on=self.on, **settings), self)

    def case_started(
        self, case: Case, command: Any, entry_dir: Path, tail: Callable[[int], list[str]]
    ) -> None:
        self.tails[case.name] = tail

    def case_finished(self, record: Record, entry_dir: Path) -> None:
        self.finished.append(record.case.name)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        return self.place.records("s")

    def statuses(self) -> dict[str, str]:
        return {name: record["status"] for name, record in self.records.items()}

    def entry_dir(self, name: str) -> Path:
        return self.place.path / "results" / "s" / name


@pytest.fixture(params=["local", pytest.param("pool", marks=pytest.mark.ray)])
def runs(request: pytest.FixtureRequest, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(GPUS))))
    on = "local" if request.param == "local" else request.getfixturevalue("two_nodes")
    monkeypatch.chdir(place.path)
    place.write("scripts/stamp.py", STAMP)
    return Runs(place, on)


def stamps(place: Workplace) -> list[dict[str, Any]]:
    lines = (place.path / "stamps").read_text().splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda line: line["at"])


def test_each_case_ends_once_and_after_what_it_needs(runs: Runs) -> None:
    report = runs("""
data_setups:
  - {name: data, command: [sh, -c, "echo made > made.txt"], cwd: "{session_entry_dir}"}
entries:
  - {name: last, command: [cat, "{needs:first}/seen.txt"], needs: [first]}
  - {name: first, command: [sh, -c, "cat {needs:data}/made.txt > seen.txt"], cwd: "{session_entry_dir}", needs: [data]}
  - {name: broken, command: ["false"]}
  - {name: hopeless, command: ["true"], needs: [broken]}
  - {name: more_hopeless, command: ["true"], needs: [hopeless, first]}
""")
    assert not report.ok
    assert runs.statuses() == {
        "first": "passed",
        "last": "passed",
        "broken": "failed",
        "hopeless": "skipped",
        "more_hopeless": "skipped",
    }
    assert (runs.entry_dir("last") / "stdouterr.log").read_text() == "made\n"
    assert sorted(runs.finished) == sorted(["data", *runs.statuses()])
    assert runs.finished.index("data") == 0
    assert runs.finished.index("first") < runs.finished.index("last")
    assert runs.records["hopeless"]["reason"] == "needs broken, which ended as failed"


def test_never_more_at_once_than_there_is(runs: Runs) -> None:
    sizes = [
        {"cpus": 1},
        {"cpus": 1, "gpus": 1},
        {"exclusive": True},
        {"cpus": 2},
        {"cpus": 0.5, "gpus": 1},
        {"cpus": 64},
        {"cpus": 0},
        {"exclusive": True, "gpus": 2},
        {"cpus": 0.5, "gpus": 1},
        {"cpus": 1},
        {"cpus": 0.5},
    ]
    file = runs.place.path / "stamps"
    entries = [
        {"name": f"c{number}", "script": "stamp.py", "args": [str(file)], "resources": size}
        for number, size in enumerate(sizes)
    ]
    report = runs(json.dumps({"entries": entries}))
    assert report.ok, runs.statuses()
    running: dict[str, dict[str, Any]] = {}
    for stamp in stamps(runs.place):
        if stamp["kind"] == "begin":
            running[stamp["case"]] = stamp
            check_company(running, sizes, runs.records)
        else:
            del running[stamp["case"]]
    assert running == {}
    assert len(stamps(runs.place)) == 2 * len(sizes)


def check_company(
    running: dict[str, dict[str, Any]], sizes: list[dict[str, Any]], records: dict[str, dict[str, Any]]
) -> None:
    """Those that ran at one moment, machine by machine."""
    machines: dict[str, list[str]] = {}
    for name in running:
        machines.setdefault(records[name].get("details", {}).get("node", "here"), []).append(name)
    for names in machines.values():
        wanted = [sizes[int(name[1:])] for name in names]
        assert len(names) == 1 or not any(size.get("exclusive") for size in wanted), names
        assert sum(min(size.get("cpus", 1), CPUS) for size in wanted) <= CPUS, names
        gpus = [running[name]["gpus"].split(",") for name in names if sizes[int(name[1:])].get("gpus")]
        assert all(
            len(ids) == sizes[int(name[1:])]["gpus"] for name in names if (ids := _gpus(running, sizes, name))
        )
        flat = [gpu for ids in gpus for gpu in ids]
        assert len(flat) == len(set(flat)), "a GPU was handed out twice"


def _gpus(running: dict[str, dict[str, Any]], sizes: list[dict[str, Any]], name: str) -> list[str]:
    return running[name]["gpus"].split(",") if sizes[int(name[1:])].get("gpus") else []


def test_one_at_a_time_is_the_order_of_the_plan(runs: Runs) -> None:
    names = [f"c{number}" for number in range(6)]
    file = runs.place.path / "stamps"
    entries = [{"name": name, "script": "stamp.py", "args": [str(file)]} for name in names]
    assert runs(json.dumps({"entries": entries}), jobs=1).ok
    assert [stamp["case"] for stamp in stamps(runs.place) if stamp["kind"] == "begin"] == names


def test_every_end_has_its_status(runs: Runs) -> None:
    runs(
        """
pool: {wait_for_node_s: 0}
entries:
  - {name: failed, command: [sh, -c, "echo what went wrong >&2; exit 3"]}
  - {name: timeout, command: [sleep, "60"], timeout_s: 0.3}
  - {name: no_program, command: [there-is-no-such-program]}
  - {name: too_many_gpus, command: ["true"], resources: {gpus: 3}}
  - {name: blocked, command: [echo, "${NOT_SET_ANYWHERE}"]}
  - {name: unmet, script: stamp.py, args: [stamps], requirements: {answer: {exact_value: 41}}}
  - {name: killed, command: [sh, -c, "kill -9 $$$$"]}
  - {name: no_metrics, script: stamp.py, interpreter: ['true']}
"""
    )
    assert runs.statuses() == {
        "failed": "failed",
        "timeout": "timeout",
        "no_program": "launch_error",
        "too_many_gpus": "launch_error",
        "blocked": "launch_error",
        "unmet": "requirement_failed",
        "killed": "failed",
        "no_metrics": "failed",
    }
    records = runs.records
    assert records["failed"]["reason"] == "exit code 3: what went wrong"
    assert "3 GPUs" in records["too_many_gpus"]["reason"]
    assert "NOT_SET_ANYWHERE" in records["blocked"]["reason"]
    assert records["killed"]["reason"] == "killed by SIGKILL"
    assert all(record["attempt"] == 1 for record in records.values())


LEAVES = """
import os, pathlib, sys
from paceline import emit

here = pathlib.Path(sys.argv[1])
(here / "scratch/tmp.bin").write_bytes(b"x")
(here / "kept").mkdir()
(here / "kept/large.bin").write_bytes(os.urandom(1 << 20) * 20)
(here / "kept/tool").write_text("#!/bin/sh\\n")
(here / "kept/tool").chmod(0o755)
(here / "latest").symlink_to("kept")
emit.params({"rows": 5})
emit.metrics({"answer": 42})
with emit.task("work", items=3):
    pass
print("the token is", os.environ["MY_TOKEN"])
print("to the other stream", file=sys.stderr)
print(os.environ["PACELINE_SESSION"], os.environ["PACELINE_CASE"], os.environ["PACELINE_RESULTS_PATH"])
"""


def test_what_a_case_leaves_is_in_its_directory(runs: Runs) -> None:
    runs.place.write("scripts/leaves.py", LEAVES)
    report = runs("""
env: {MY_TOKEN: open-sesame-123}
entries:
  - {name: leaves, script: leaves.py, args: ["{session_entry_dir}"]}
""")
    assert report.ok, runs.records["leaves"]["reason"]
    entry_dir, record = runs.entry_dir("leaves"), runs.records["leaves"]
    assert record["metrics"]["answer"]["value"] == 42
    assert record["params"] == {"rows": 5}
    assert record["metrics"]["peak_memory_bytes"]["value"] > 0
    assert not (entry_dir / "scratch").exists()
    assert (entry_dir / "kept/large.bin").stat().st_size == 20 << 20
    assert os.access(entry_dir / "kept/tool", os.X_OK)
    assert (entry_dir / "latest").readlink() == Path("kept")
    text = (entry_dir / "stdouterr.log").read_text()
    assert "the token is ***" in text and "open-sesame" not in text
    assert "to the other stream" in (entry_dir / "logs/stderr.log").read_text()
    assert "s leaves /" in text
    assert "logs/stdout.log" in record["artifacts"] and "artifacts/pip-freeze.txt" in record["artifacts"]
    assert (entry_dir / "artifacts/pip-freeze.txt").stat().st_size > 100
    lines = (entry_dir / "results.jsonl").read_text().splitlines()
    assert len(lines) == 1 and json.loads(lines[0])["tasks"]


def test_repetitions_have_directories_of_their_own(runs: Runs) -> None:
    file = runs.place.path / "stamps"
    entry = {"name": "c", "script": "stamp.py", "args": [str(file)], "repeat": 2, "warmup": 1}
    assert runs(json.dumps({"entries": [entry]})).ok
    labels = sorted(path.name for path in (runs.entry_dir("c") / "attempts").iterdir())
    assert labels == ["repeat-1", "repeat-2", "warmup-1"]
    assert runs.records["c"]["metrics"]["answer"]["samples"] == [42, 42]
    for label in labels:
        assert (runs.entry_dir("c") / "attempts" / label / "benchmark_results/metrics.json").exists()


def test_a_resumed_session_runs_only_what_has_not_finished(runs: Runs) -> None:
    suite = """
entries:
  - {name: passes, command: [sh, -c, "echo ran >> {session_dir}/passes.txt"]}
  - {name: fails, command: [sh, -c, "echo ran >> {session_dir}/fails.txt; exit 1"]}
  - {name: absent, command: [./late-tool]}
"""
    runs(suite)
    assert runs.statuses() == {"passes": "passed", "fails": "failed", "absent": "launch_error"}
    tool = runs.place.write("late-tool", "#!/bin/sh\n")
    tool.chmod(0o755)
    runs(suite, resume="s", session_name=None)
    assert runs.statuses() == {"passes": "passed", "fails": "failed", "absent": "passed"}
    session_dir = runs.place.path / "results/s"
    assert (session_dir / "passes.txt").read_text() == (session_dir / "fails.txt").read_text() == "ran\n"
    assert runs.records["absent"]["attempt"] == 2
    assert (runs.entry_dir("absent") / "attempts/attempt-1/record.json").exists()


def test_output_can_be_seen_while_a_case_runs(runs: Runs) -> None:
    go = runs.place.path / "go"
    seen: list[str] = []

    def watch() -> None:
        try:
            wait_until(lambda: "c" in runs.tails and "first line" in runs.tails["c"](5))
            seen.extend(runs.tails["c"](5))
        finally:
            go.touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    report = runs(f"""
entries:
  - {{name: c, command: [sh, -c, "echo first line; until [ -e {go} ]; do sleep 0.05; done; echo last line"]}}
""")
    watcher.join()
    assert report.ok
    assert seen == ["first line"]
    assert (runs.entry_dir("c") / "stdouterr.log").read_text() == "first line\nlast line\n"


def interrupt_when(*conditions: Callable[[], bool]) -> threading.Thread:
    """Send this process Ctrl-C as soon as something is true, and again for each that is to be true after it."""

    def send() -> None:
        for condition in conditions:
            wait_until(condition)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_a_stop_ends_what_runs_and_begins_nothing(runs: Runs) -> None:
    up = runs.place.path / "up"
    clean = runs.place.path / "clean"
    sender = interrupt_when(up.exists)
    report = runs(
        f"""
entries:
  - {{name: c0, command: [sh, -c, "trap 'touch {clean}; exit 1' TERM; touch {up}; sleep 60 & wait"]}}
  - {{name: c1, command: ["true"]}}
""",
        jobs=1,
    )
    sender.join()
    assert report.interrupted and report.exit_code == 130
    assert runs.statuses() == {"c0": "interrupted"}
    assert clean.exists()
    again = runs(
        "entries: [{name: c0, command: ['true']}, {name: c1, command: ['true']}]",
        resume="s",
        session_name=None,
    )
    assert again.ok and runs.statuses() == {"c0": "passed", "c1": "passed"}


def test_a_second_stop_does_not_wait(runs: Runs) -> None:
    up, events = runs.place.path / "up", runs.place.path / "results/s/events.jsonl"
    # Two signals that come before the first was heard are one.
    sender = interrupt_when(up.exists, lambda: b"stopping" in events.read_bytes())
    report = runs(f"""
entries:
  - {{name: deaf, grace_s: 600, command: [sh, -c, "trap '' TERM; touch {up}; while :; do sleep 0.1; done"]}}
""")
    sender.join()
    assert report.interrupted
    assert runs.statuses() == {"deaf": "interrupted"}


@pytest.mark.ray
def test_a_node_without_our_paceline_gets_a_copy(
    place: Workplace, two_nodes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes do have it, so it is told to be another one."""
    monkeypatch.setattr(ray_pool, "digest", lambda package: "of another version")
    monkeypatch.chdir(place.path)
    runs = Runs(place, two_nodes)
    program = "import os; print(open(f'/proc/{os.getppid()}/cmdline').read().replace(chr(0), ' '))"
    entry = {"name": "c", "command": [sys.executable, "-c", program]}
    assert runs(json.dumps({"entries": [entry]})).ok
    warden = (runs.entry_dir("c") / "stdouterr.log").read_text()
    assert "paceline-pool-" in warden and "/code" in warden
