"""Sessions in a real MLflow server: all numbers arrive, once, whoever is killed on the way."""

import json
import os
import signal
import subprocess
from typing import Any

import pytest

from mlflow_server import MlflowServer
from patience import PATIENCE_S, wait_until
from workplace import Workplace

ENTRIES = ("one", "two", "three", "four", "five")
SCRIPT = """
import os, pathlib, sys, time
from paceline import emit
value = float(sys.argv[1])
emit.params({"value": value})
emit.metrics({"is_success": True, "score": value / 3, "rows/s [all]": 1e9 + value, "label": f"v{value}"})
print("output of", value)
gate = pathlib.Path(os.environ["GATE"] + sys.argv[1])
while gate.exists():
    time.sleep(0.02)
"""


@pytest.fixture
def mlflow_suite(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # Compiling MLflow anew takes half a minute.
    monkeypatch.setenv("GATE", str(place.path / "gate-"))
    place.write("scripts/value.py", SCRIPT)
    return place


def write_suite(
    place: Workplace, uri: str, experiment: str, *, repeat: int = 1, wait_s: float = PATIENCE_S
) -> None:
    entries = "".join(
        f"  - {{name: {name}, script: value.py, args: '{number}', repeat: {repeat}}}\n"
        for number, name in enumerate(ENTRIES, 1)
    )
    place.write(
        "suite.yaml",
        f"sinks: [{{name: mlflow, tracking_uri: '{uri}', experiment: {experiment}, wait_s: {wait_s}}}]\n"
        f"entries:\n{entries}",
    )


def names(runs: list[Any]) -> list[str]:
    return sorted(run.info.run_name for run in runs)


def test_parent_and_children_have_all_numbers_of_the_files(
    mlflow_suite: Workplace, mlflow_server: MlflowServer
) -> None:
    write_suite(mlflow_suite, mlflow_server.uri, "numbers", repeat=3)
    done = mlflow_suite.run("run", "suite.yaml", "--session-name", "s", "--no-history")
    assert done.returncode == 0, done.stdout + done.stderr
    (parent,) = mlflow_server.parents("numbers")
    children = {run.info.run_name: run for run in mlflow_server.children("numbers")}
    assert sorted(children) == sorted(ENTRIES)
    assert (
        f"{mlflow_server.uri}/#/experiments/{parent.info.experiment_id}/runs/{parent.info.run_id}"
        in done.stdout
    )
    assert parent.info.run_name == "s" and parent.info.status == "FINISHED"
    assert parent.data.metrics["passed"] == 5
    assert parent.data.tags["paceline.hostname"]
    records = mlflow_suite.records("s")
    for name, run in children.items():
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.info.status == "FINISHED"
        check_numbers(mlflow_server, run, records[name])
    files = {item.path for item in mlflow_server.client().list_artifacts(parent.info.run_id)}
    assert {"environment.json", "report.md", "report.json"} <= files
    logs = {item.path for item in mlflow_server.client().list_artifacts(children["one"].info.run_id)}
    assert {"stdouterr.log", "record.json"} <= logs


def check_numbers(server: MlflowServer, run: Any, record: dict[str, Any]) -> None:
    numbers = {
        name: measured
        for name, measured in record["metrics"].items()
        if isinstance(measured["value"], int | float)
    }
    assert numbers.keys() >= {"score", "is_success", "peak_memory_bytes", "rows/s [all]"}
    assert len(run.data.metrics) == len(numbers)
    for name, measured in numbers.items():
        key = next(
            key
            for key in run.data.metrics
            if key == name or (key.startswith("rows/s _all_-") and "[" in name)
        )
        assert run.data.metrics[key] == measured["value"]
        history = sorted(server.client().get_metric_history(run.info.run_id, key), key=lambda one: one.step)
        samples = measured["samples"]
        expected = [*samples, measured["value"]] if len(samples) > 1 else [measured["value"]]
        assert [one.value for one in history] == [float(value) for value in expected]
    assert float(run.data.params["value"]) == record["params"]["value"]
    assert run.data.tags["metric.label"] == record["metrics"]["label"]["value"]
    assert run.data.tags["paceline.status"] == record["status"]


def test_a_server_killed_in_mid_session_gets_the_rest_later(
    mlflow_suite: Workplace, mlflow_server: MlflowServer
) -> None:
    server = mlflow_server
    try:
        write_suite(mlflow_suite, server.uri, "killed", wait_s=1)
        gate = mlflow_suite.write("gate-3", "")
        session = start(mlflow_suite)
        wait_until(lambda: names(server.children("killed")) == ["one", "two"], "the first two runs")
        server.stop()
        gate.unlink()
        output, _ = session.communicate(timeout=PATIENCE_S)
        assert session.returncode == 0, output
        (told,) = [line for line in output.splitlines() if "wait: paceline send s" in line]
        assert told.strip().startswith("sink mlflow: ")
        server.start()
        sent = mlflow_suite.run("send", "s", "--json")
        assert sent.returncode == 0, sent.stdout + sent.stderr
        assert [(one["name"], one["waiting"]) for one in json.loads(sent.stdout)] == [("mlflow", 0)]
        assert names(server.children("killed")) == sorted(ENTRIES)
        (parent,) = server.parents("killed")
        assert parent.info.status == "FINISHED"
        again = mlflow_suite.run("send", "s")
        assert "0 delivered, nothing waits" in again.stdout
        assert names(server.children("killed")) == sorted(ENTRIES)
    finally:
        server.start()  # Others use it, too; it does nothing where it runs.


def test_what_a_killed_runner_left_is_sent_later(
    mlflow_suite: Workplace, mlflow_server: MlflowServer
) -> None:
    write_suite(mlflow_suite, mlflow_server.uri, "runner")
    mlflow_suite.write("gate-3", "")
    session = start(mlflow_suite)
    wait_until(lambda: names(mlflow_server.children("runner"))[:1], "the first run")
    wait_until(lambda: (mlflow_suite.path / "results/s/two/record.json").exists(), "the second record")
    os.kill(session.pid, signal.SIGKILL)
    session.communicate()
    sent = mlflow_suite.run("send", str(mlflow_suite.path / "results/s"))
    assert sent.returncode == 0, sent.stdout + sent.stderr
    assert "nothing waits" in sent.stdout
    assert names(mlflow_server.children("runner")) == ["one", "two"]
    (parent,) = mlflow_server.parents("runner")
    assert parent.info.status == "KILLED"
    assert "3 of 5 cases have no record" in parent.data.tags["paceline.unfinished"]
    assert not mlflow_suite.records("s").keys() & {"three"}


def start(place: Workplace) -> subprocess.Popen[str]:
    return subprocess.Popen(
        place.command("run", "suite.yaml", "--session-name", "s", "--no-history"),
        cwd=place.path,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def test_the_parent_counts_no_failure_that_was_run_again_and_passed(
    mlflow_suite: Workplace, mlflow_server: MlflowServer
) -> None:
    sink = f"{{name: mlflow, tracking_uri: '{mlflow_server.uri}', experiment: again, wait_s: {PATIENCE_S}}}"
    mlflow_suite.write(
        "suite.yaml",
        f"sinks: [{sink}]\nentries: [{{name: a, command: [test, -e, '{mlflow_suite.path}/good']}}]\n",
    )
    first = mlflow_suite.run("run", "suite.yaml", "--session-name", "s", "--no-history")
    assert first.returncode == 1, first.stdout + first.stderr
    mlflow_suite.write("good", "")
    again = mlflow_suite.run("run", "suite.yaml", "--resume", "s", "--rerun-failed", "--no-history")
    assert again.returncode == 0, again.stdout + again.stderr
    (parent,) = mlflow_server.parents("again")
    assert (parent.data.metrics["passed"], parent.data.metrics["failed"]) == (1, 0)
    assert parent.info.status == "FINISHED"
