"""What every sink does: it sees each record once, whatever fails, and no secret gets out."""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hook_server import HookServer, serving
from mlflow_server import MlflowServer
from paceline.model import SinkSpec, Status
from sink_bench import SinkBench, make_record, spec

PATIENCE_S = 150.0  # On a busy machine the imports of these two alone take their time.

CUSTOM = """
import json, pathlib

class Noting:
    def __init__(self, path):
        self.path = pathlib.Path(path)

    def note(self, word, key):
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        if [word, key] not in map(json.loads, lines):
            with self.path.open("a") as file:
                file.write(json.dumps([word, key]) + "\\n")

class Ours(Noting):
    def __init__(self, options, context):
        super().__init__(options["path"])
        self.context = context
    def open(self, plan): self.note("open " + plan.session, self.context.key)
    def record(self, record): self.note(record.case.name, self.context.key)
    def close(self, report): self.note("close", self.context.key)

class RunLogger(Noting):
    def __init__(self, config): super().__init__(config["path"])
    def start_session(self, session_name): self.session = session_name
    def start_run(self, run_name): self.run = run_name
    def log_params(self, params): assert params["rows"] == 10
    def log_metrics(self, metrics): self.metrics = metrics
    def log_artifact(self, path): pass
    def end_run(self, success): self.note(self.run, self.session)
    def end_session(self, success): self.note("close", self.session)

class ResultDict(Noting):
    def __init__(self, config): super().__init__(config["path"])
    def initialize(self, session_name, env_data): self.session, self.host = session_name, env_data["hostname"]
    def process_result(self, result): self.note(result["name"], self.session)
    def finalize(self): self.note("close", self.session)
"""


class Stand:
    """One sink under test: its settings, and which cases the other side has now."""

    def __init__(self, sink: SinkSpec, seen: Callable[[], list[str]]) -> None:
        self.spec = sink
        self.seen = seen


@pytest.fixture
def hook() -> Iterator[HookServer]:
    with serving() as server:
        yield server


def files_stand(tmp_path: Path) -> Stand:
    def seen() -> list[str]:
        lines = (tmp_path / "copy/s.jsonl").read_text().splitlines()
        with (tmp_path / "copy/s.csv").open(newline="") as file:
            rows = [row["case"] for row in csv.DictReader(file)]
        names = [json.loads(line)["case"]["name"] for line in lines]
        assert rows == names
        return names

    return Stand(spec("files", directory=str(tmp_path / "copy")), seen)


def webhook_stand(hook: HookServer) -> Stand:
    def seen() -> list[str]:
        by_key = {posted.key: posted.json for posted in hook.posted}
        return [event["record"]["case"]["name"] for event in by_key.values() if event["event"] == "record"]

    return Stand(spec("webhook", url=hook.url, secret_env="HOOK_SIGNATURE"), seen)


def mlflow_stand(server: MlflowServer, tmp_path: Path) -> Stand:
    experiment = f"contract-{tmp_path.name}"

    def seen() -> list[str]:
        assert len(server.parents(experiment)) == 1
        return [run.data.tags["paceline.case"] for run in server.children(experiment)]

    sink = spec("mlflow", tracking_uri=server.uri, experiment=experiment, live=False, wait_s=PATIENCE_S)
    return Stand(sink, seen)


def wandb_stand(tmp_path: Path) -> Stand:
    def seen() -> list[str]:
        found = [path.name.rpartition("-")[2] for path in (tmp_path / "wb/wandb").glob("offline-run-*")]
        assert len(found) == len(set(found))
        assert all(list((tmp_path / "wb/wandb").glob(f"*-{one}/run-{one}.wandb")) for one in found)
        # The file has no reader; runs are told apart by their number.
        return ["a", "b", "c"][: len(found)]

    sink = spec("wandb", mode="offline", directory=str(tmp_path / "wb"), live=False, wait_s=PATIENCE_S)
    return Stand(sink, seen)


def custom_stand(tmp_path: Path, name: str) -> Stand:
    def seen() -> list[str]:
        noted = [json.loads(line)[0] for line in (tmp_path / "noted").read_text().splitlines()]
        return [word for word in noted if word in ("a", "b", "c")]

    (tmp_path / "custom_sinks.py").write_text(CUSTOM)
    return Stand(spec(f"custom_sinks:{name}", "custom", path=str(tmp_path / "noted")), seen)


@pytest.fixture(params=["files", "webhook", "mlflow", "wandb", "Ours", "RunLogger", "ResultDict"])
def stand(
    request: pytest.FixtureRequest, tmp_path: Path, hook: HookServer, monkeypatch: pytest.MonkeyPatch
) -> Stand:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # Compiling MLflow anew takes half a minute.
    monkeypatch.setenv("HOOK_SIGNATURE", "planted-1c5f0d")
    match request.param:
        case "files":
            return files_stand(tmp_path)
        case "webhook":
            return webhook_stand(hook)
        case "mlflow":
            return mlflow_stand(request.getfixturevalue("mlflow_server"), tmp_path)
        case "wandb":
            return wandb_stand(tmp_path)
        case name:
            return custom_stand(tmp_path, name)


def test_every_record_is_seen_once_also_when_calls_are_repeated(stand: Stand, tmp_path: Path) -> None:
    bench = SinkBench(tmp_path, stand.spec, secrets=("planted-1c5f0d",))
    bench.run(
        make_record("a", time_s=(1.0, 2.0, 3.0)),
        make_record("b", status=Status.FAILED, label="text"),
        make_record("c", number=3),
    )
    assert not [note for note in bench.notes if "wait" in note]
    assert sorted(stand.seen()) == ["a", "b", "c"]
    assert not bench.is_waiting
    assert len(bench.delivered(stand.spec.name)) == 5
    # The last record and the end, as if the courier had died before it could note them.
    bench.forget_last(stand.spec.name, 2)
    (sent,) = bench.send()
    assert (sent.delivered, sent.waiting) == (2, 0)
    assert sorted(stand.seen()) == ["a", "b", "c"]
    assert_no_secret(tmp_path, bench.notes)


def assert_no_secret(path: Path, notes: list[str]) -> None:
    secret = os.environ["HOOK_SIGNATURE"]
    assert not [note for note in notes if secret in note]
    for file in path.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file
