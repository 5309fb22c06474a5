"""MLflow without a server, and what of a record becomes what in MLflow."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_server import MlflowServer
from paceline.model import Status
from paceline.sinks.mlflow import LONGEST_NAME, link_to, safe_name
from sink_bench import SinkBench, make_record, spec


def copy_schema(server: MlflowServer, target: Path) -> None:
    """An empty store: making its tables takes MLflow some seconds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(server.database)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def test_without_an_address_a_store_in_the_results_directory_is_used(
    tmp_path: Path, mlflow_server: MlflowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    copy_schema(mlflow_server, tmp_path / "results/mlflow.db")
    bench = SinkBench(tmp_path, spec("mlflow", experiment="embedded", live=False, wait_s=150))
    bench.run(make_record("a", time_s=(1.0, 2.0)), make_record("b", status=Status.FAILED))
    (told,) = bench.notes
    assert told.endswith(f"mlflow ui --backend-store-uri sqlite:///{tmp_path}/results/mlflow.db")
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/results/mlflow.db")
    experiment = client.get_experiment_by_name("embedded")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert sorted(runs) == ["a", "b", "s"]
    assert [runs[name].info.status for name in ("a", "b", "s")] == ["FINISHED", "FAILED", "FAILED"]
    assert runs["s"].data.metrics["passed"] == 1 and runs["s"].data.metrics["failed"] == 1
    assert experiment.artifact_location == f"file://{tmp_path}/results/mlflow.artifacts"
    assert list((tmp_path / "results/mlflow.artifacts").rglob("record.json"))


def test_the_address_in_the_environment_is_honoured(
    tmp_path: Path, mlflow_server: MlflowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_server.uri)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    bench = SinkBench(
        tmp_path, spec("mlflow", experiment="environment", artifacts=False, live=False, wait_s=150)
    )
    bench.run(make_record("a"))
    assert [run.info.run_name for run in mlflow_server.children("environment")] == ["a"]
    (told,) = bench.notes
    assert told.startswith(f"sink mlflow: {mlflow_server.uri}/#/experiments/")


@pytest.mark.parametrize(
    ("uri", "link"),
    [
        ("http://user:pw@host:5000/base/", "http://host:5000/base/#/experiments/7/runs/abc"),
        ("https://host", "https://host/#/experiments/7/runs/abc"),
        ("databricks", "https://dbc.example/#mlflow/experiments/7/runs/abc"),
        ("databricks://profile", "https://dbc.example/#mlflow/experiments/7/runs/abc"),
        ("sqlite:///m.db", "run abc, to be seen by: mlflow ui --backend-store-uri sqlite:///m.db"),
    ],
)
def test_links_lead_to_the_run_and_hold_no_password(uri: str, link: str) -> None:
    assert link_to(uri, "7", "abc", {"DATABRICKS_HOST": "https://dbc.example/"}) == link


@given(st.text(max_size=400))
def test_every_name_becomes_one_that_mlflow_takes(name: str) -> None:
    from mlflow.utils.validation import _validate_metric_name

    found = safe_name(name)
    assert 0 < len(found) <= LONGEST_NAME
    _validate_metric_name(found)


def test_names_that_had_to_be_changed_stay_apart() -> None:
    assert safe_name("rows/s") == "rows/s"
    assert len({safe_name(name) for name in ("a[1]", "a[2]", "a(1)", "a_1_", "../a", "a/")}) == 6
