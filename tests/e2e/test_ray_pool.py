"""Sessions on a pool of simulated nodes, through the real command line: nodes, workers and drivers die on the way."""

import importlib.util
import json
import os
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from free_port import free_port
from living_processes import marked_processes
from patience import PATIENCE_S, wait_until
from ray_nodes import SimulatedNodes, simulated_nodes
from workplace import Workplace

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


STAMP = """
import json, os, pathlib, sys, time
from paceline import emit

def stamp(kind):
    line = {"case": os.environ["PACELINE_CASE"], "kind": kind, "at": time.monotonic(),
            "gpus": os.environ["CUDA_VISIBLE_DEVICES"]}
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps(line) + "\\n")

stamp("begin")
go = pathlib.Path(sys.argv[2])
deadline = time.monotonic() + 120
while not go.exists() and time.monotonic() < deadline:
    time.sleep(0.02)
stamp("end")
emit.metrics({"answer": 42})
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[SimulatedNodes]:
    with simulated_nodes({"num_cpus": 2}, *[{"num_cpus": 2, "num_gpus": 2}] * 2) as found:
        yield found


def stamps(place: Workplace) -> list[dict[str, Any]]:
    file = place.path / "stamps"
    lines = file.read_text().splitlines() if file.exists() else []
    return sorted((json.loads(line) for line in lines), key=lambda line: line["at"])


def placements(place: Workplace, session: str = "s") -> dict[str, list[str]]:
    """The nodes that each case was begun on, in order."""
    found: dict[str, list[str]] = {}
    for line in (place.path / "results" / session / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "placed":
            found.setdefault(event["case"], []).append(event["node"])
    return found


def suite_of_sixty(place: Workplace) -> None:
    place.write("scripts/stamp.py", STAMP)
    stamps_file, here, later = place.path / "stamps", place.path / "suite.yaml", place.path / "go"
    sizes: list[dict[str, Any]] = [{}, {"gpus": 1}, {}]
    entries = [{"name": "long", "args": [str(stamps_file), str(later)], "resources": {"gpus": 1}}]
    for number in range(1, 60):
        size = {"exclusive": True} if number % 10 == 5 else sizes[number % len(sizes)]
        entries.append({"name": f"c{number}", "args": [str(stamps_file), str(here)], "resources": size})
    place.write("suite.yaml", json.dumps({"defaults": {"script": "stamp.py"}, "entries": entries}))


@pytest.mark.ray
def test_a_node_dies_among_sixty_cases_and_every_case_has_one_record(
    place: Workplace, nodes: SimulatedNodes
) -> None:
    suite_of_sixty(place)
    process = place.start("run", "--no-history", "suite.yaml", "--on", nodes.address, "--session-name", "s")
    try:
        wait_until(lambda: "long" in {one["case"] for one in stamps(place)} and len(place.records("s")) > 10)
        (doomed_name,) = placements(place)["long"]
        doomed = next(node for node in nodes.nodes if doomed_name.endswith(node.node_id[:8]))
        nodes.kill(doomed)
        wait_until(lambda: len(placements(place)["long"]) == 2)
        (place.path / "go").touch()
        assert process.wait(PATIENCE_S) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    nodes.add(num_cpus=2, num_gpus=2)
    check_sixty(place, doomed_name)


def check_sixty(place: Workplace, doomed: str) -> None:
    records = place.records("s")
    assert len(records) == 60
    assert {record["status"] for record in records.values()} == {"passed"}
    assert all(record["metrics"]["answer"]["samples"] == [42] for record in records.values())
    for name in records:
        lines = (place.path / "results/s" / name / "results.jsonl").read_text().splitlines()
        assert sum(json.loads(line)["success"] for line in lines) == 1, "a case was recorded twice"
    long = records["long"]
    assert long["attempt"] == 2 and long["details"]["node"] != doomed
    assert long["warnings"][-1] == f"an earlier attempt was lost with its node {doomed}"
    first = json.loads((place.path / "results/s/long/attempts/attempt-1/record.json").read_text())
    assert first["status"] == "infra_error" and first["details"]["lost_node"] == doomed
    for name in records:
        assert (place.path / "results/s" / name / "stdouterr.log").exists()
    check_company(place)


def check_company(place: Workplace) -> None:
    """At any moment, on each node: an exclusive case alone, and no GPU in two hands."""
    suite = json.loads((place.path / "suite.yaml").read_text())
    sizes = {entry["name"]: entry["resources"] for entry in suite["entries"]}
    nodes_of = placements(place)
    begins = Counter(one["case"] for one in stamps(place) if one["kind"] == "begin")
    # A placement whose node died before the script had begun left no stamp.
    begun = Counter({name: len(nodes_of[name]) - count for name, count in begins.items()})
    running: dict[str, tuple[str, dict[str, Any]]] = {}
    for one in stamps(place):
        name = one["case"]
        if one["kind"] == "end":
            running.pop(name, None)
            continue
        running[name] = (nodes_of[name][begun[name]], one)
        begun[name] += 1
        here = running[name][0]
        company = {other: stamp for other, (node, stamp) in running.items() if node == here}
        assert len(company) == 1 or not any(sizes[other].get("exclusive") for other in company), company
        gpus = [stamp["gpus"] for other, stamp in company.items() if sizes[other].get("gpus")]
        assert len(gpus) == len(set(gpus)) and all(gpus), company
        assert all(not stamp["gpus"] for other, stamp in company.items() if not sizes[other].get("gpus"))


@pytest.mark.ray
def test_the_driver_dies_and_the_session_goes_on_where_it_was(
    place: Workplace, nodes: SimulatedNodes
) -> None:
    place.write("scripts/stamp.py", STAMP)
    marker = uuid.uuid4().hex
    file, go = place.path / "stamps", place.path / "go"
    place.write(
        "suite.yaml",
        f"""
env: {{TEST_MARKER: {marker}}}
defaults: {{script: stamp.py}}
entries:
  - {{name: quick, args: [{file}, {place.path}]}}
  - {{name: long, args: [{file}, {go}], needs: [quick]}}
  - {{name: after, args: [{file}, {place.path}], needs: [long]}}
""",
    )
    driver = place.start("run", "--no-history", "suite.yaml", "--on", nodes.address, "--session-name", "s")
    try:
        wait_until(lambda: any(one["case"] == "long" for one in stamps(place)))
        assert marked_processes(marker)
    finally:
        driver.kill()
        driver.wait()
    wait_until(lambda: not marked_processes(marker), "the end of what the dead driver had started")
    go.touch()
    done = place.run("run", "--no-history", "suite.yaml", "--on", nodes.address, "--resume", "s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name: record["status"] for name, record in place.records("s").items()} == {
        "quick": "passed",
        "long": "passed",
        "after": "passed",
    }
    kinds = Counter((one["case"], one["kind"]) for one in stamps(place))
    assert kinds["quick", "begin"] == 1, "what had finished was run again"
    assert kinds["long", "end"] == kinds["after", "end"] == 1
    assert place.record("s", "long")["attempt"] == 2


SHIPPED = """
import pathlib, sys
import sibling
from paceline import emit

print("script", __file__)
print("cwd", pathlib.Path.cwd())
print("made", pathlib.Path(sys.argv[1], "made.txt").read_text())
emit.metrics({"answer": sibling.ANSWER, "rows": len(pathlib.Path("rows.txt").read_text().split())})
"""


@pytest.mark.ray
def test_scripts_and_files_are_copied_to_nodes_that_do_not_have_them(
    place: Workplace, nodes: SimulatedNodes
) -> None:
    place.write("scripts/shipped.py", SHIPPED)
    place.write("scripts/sibling.py", "ANSWER = 42\n")
    place.write("data/rows.txt", "a b c")
    place.write("data/large.bin", "x" * 300_000)
    suite = """
pool: {ship: always, ship_limit: 100kB, exclude: ["*.bin"]}
entries:
  - {name: makes, command: [sh, -c, "echo it > made.txt"], cwd: "{session_entry_dir}"}
  - {name: shipped, script: shipped.py, args: ["{needs:makes}"], cwd: data, needs: [makes]}
"""
    place.write("suite.yaml", suite)
    done = place.run("run", "--no-history", "suite.yaml", "--on", nodes.client_address, "--session-name", "s")
    assert done.returncode == 0, done.stdout + done.stderr
    record = place.record("s", "shipped")
    assert record["metrics"]["answer"]["value"] == 42 and record["metrics"]["rows"]["value"] == 3
    text = (place.path / "results/s/shipped/stdouterr.log").read_text()
    assert "made it" in text
    assert str(place.path) not in text, "it ran from the original directories"
    assert not list((place.path / "results/s").glob(".pool-*"))
    place.write("suite.yaml", suite.replace("*.bin", "*.tmp"))
    refused = place.run("run", "--no-history", "suite.yaml", "--on", nodes.address, "--session-name", "t")
    assert refused.returncode == 1, refused.stderr
    reason = place.record("t", "shipped")["reason"]
    assert place.record("t", "shipped")["status"] == "launch_error"
    assert "most of it in large.bin" in reason and "pool.ship_limit" in reason


# Kills the process of the slot that runs it, the nearest ancestor that is a worker of Ray, once it was heard at home.
ENDS_ITS_SLOT = """
import os, pathlib, sys, time

def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

worker = os.getppid()
while not pathlib.Path(f"/proc/{worker}/cmdline").read_text().startswith("ray::"):
    worker = parent(worker)
if sys.argv[1] == "always" or not pathlib.Path(sys.argv[1]).exists():
    print("about to go", flush=True)
    if sys.argv[1] != "always":
        pathlib.Path(sys.argv[1]).touch()
    seen = pathlib.Path(sys.argv[2], os.environ["PACELINE_CASE"], "logs/stdouterr.log")
    while not seen.exists() or "about to go" not in seen.read_text():
        time.sleep(0.02)
    os.kill(worker, 9)
    time.sleep(60)
"""


@pytest.mark.ray
def test_a_worker_that_dies_is_replaced_a_few_times(place: Workplace, nodes: SimulatedNodes) -> None:
    place.write("scripts/ends.py", ENDS_ITS_SLOT)
    place.write(
        "suite.yaml",
        f"""
pool: {{node_retries: 1}}
defaults: {{command: [{sys.executable}, {place.path}/scripts/ends.py]}}
entries:
  - {{name: once, args: [{place.path}/died, {place.path}/results/s]}}
  - {{name: always, args: [always, {place.path}/results/s]}}
""",
    )
    done = place.run("run", "--no-history", "suite.yaml", "--on", nodes.address, "--session-name", "s")
    assert done.returncode == 1, done.stdout + done.stderr
    once, always = place.record("s", "once"), place.record("s", "always")
    assert (once["status"], once["attempt"]) == ("passed", 2)
    assert (always["status"], always["attempt"]) == ("infra_error", 2)
    assert always["reason"].startswith(f"lost with its node {always['details']['node']}: ")
    log = place.path / "results/s/always/attempts/attempt-1/logs/stdouterr.log"
    assert log.read_text() == "about to go\n", "what had been printed until then is lost"


@pytest.mark.ray
def test_an_entry_has_its_own_cluster_on_a_node_of_the_pool(place: Workplace, nodes: SimulatedNodes) -> None:
    program = "import ray; ray.init(log_to_driver=False); print('cpus', ray.cluster_resources()['CPU'])"
    entry: dict[str, Any] = {"command": [sys.executable, "-c", program]}
    own = {"num_cpus": 1, "object_store_memory": 80_000_000, "start_timeout_s": 150}
    entries = [{**entry, "name": "own", "ray": own}, {**entry, "name": "joins", "ray": {"address": "auto"}}]
    place.write("suite.yaml", json.dumps({"entries": entries}))
    done = place.run("run", "--no-history", "suite.yaml", "--on", nodes.address, "--session-name", "s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cpus 1.0" in (place.path / "results/s/own/stdouterr.log").read_text()
    assert "cpus 6.0" in (place.path / "results/s/joins/stdouterr.log").read_text()
    assert (place.path / "results/s/own/ray_cluster/logs/raylet.out").exists()


def test_no_cluster_is_told_in_one_line(place: Workplace) -> None:
    place.write("suite.yaml", "entries: [{name: c, command: ['true']}]")
    port = free_port()
    done = place.run("run", "--no-history", "suite.yaml", "--on", f"127.0.0.1:{port}", "--session-name", "s")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and f"no Ray cluster answers at 127.0.0.1:{port}" in done.stderr
    assert not (place.path / "results/s").exists()
    here = place.run("run", "--no-history", "suite.yaml", "--on", "local", "--session-name", "s")
    assert here.returncode == 0, here.stderr
