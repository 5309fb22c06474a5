"""A session of NeMo Curator's benchmarking, laid out as its runner does."""

from pathlib import Path

import pytest

from history.importers.golden import FILES, copy_of, load_json, read_one, write_json
from paceline.errors import HistoryError
from paceline.history.importers import read, recognise
from paceline.model import Status

SESSION = "curator/benchmark-run__2026-03-02_01-30-00_UTC"


def test_a_session() -> None:
    batch, records = read_one(FILES / SESSION)
    session = batch.session
    assert recognise(FILES / SESSION) == "curator"
    assert (session.name, session.kind, session.tool) == (Path(SESSION).name, "import", "curator")
    assert session.revision == "1e2e4275e0f3a6b7c8d9e0f1a2b3c4d5e6f70819"
    assert session.started_at == "2026-03-02T01:31:15.500Z"
    assert session.meta["run_reason"] == "nightly" and session.meta["viewer_url"] == ""
    assert sorted(records) == ["image_pipeline", "minhash_actors", "modifier_ray_data", "score_filter_xenna"]


def test_an_entry_that_passed() -> None:
    batch, records = read_one(FILES / SESSION)
    record = records["score_filter_xenna"]
    assert record.status is Status.PASSED
    assert (record.returncode, record.exec_time_s) == (0, 101.25)
    assert record.command[-1] == "two words"
    assert record.environment == batch.environment["id"]
    throughput = record.metrics["throughput_docs_per_sec"]
    assert (throughput.value, throughput.unit, throughput.direction) == (15432.5, "docs/s", "higher")
    assert record.metrics["exec_time_s"].samples == (101.25,)
    assert record.metrics["task_score_process_time_std"].direction is None
    assert record.metrics["is_success"].value is True
    assert (record.metrics["note"].value, record.metrics["nothing"].value) == ("", None)
    assert record.params["limit"] is None
    assert record.params["filters"] == '["a","b"]'


def test_entries_that_did_not() -> None:
    _, records = read_one(FILES / SESSION)
    unmet, late, broken = (
        records[name] for name in ("modifier_ray_data", "minhash_actors", "image_pipeline")
    )
    assert unmet.status is Status.REQUIREMENT_FAILED
    assert unmet.reason == "throughput_docs_per_sec: below the minimum of 55000"
    assert unmet.warnings == ("GPU 0 used 512 MiB before the run",)
    assert (late.status, late.returncode) == (Status.TIMEOUT, 124)
    assert (broken.status, broken.reason) == (Status.FAILED, "the script ended with 1")


def test_what_the_recorder_of_gpus_saw() -> None:
    _, records = read_one(FILES / SESSION)
    metrics = records["image_pipeline"].metrics
    assert metrics["gpu_mean_utilization_pct"].value == 50
    assert metrics["gpu_peak_temperature_c"].value == 61


def test_the_machine() -> None:
    batch, _ = read_one(FILES / SESSION)
    comparable = batch.environment["comparable"]
    assert comparable == {
        "memory_gib": 1007,
        "kernel": "6.8",
        "gpus": ["8X NVIDIA H100 80GB HBM3"],
        "python": "3.12",
        "os": "Linux",
    }


def test_it_is_the_same_session_under_another_name(tmp_path: Path) -> None:
    moved = copy_of(SESSION, tmp_path).rename(tmp_path / "moved")
    first, _ = read_one(FILES / SESSION)
    second, records = read_one(moved)
    assert second.session.id == first.session.id
    assert len(records) == 4


def test_a_damaged_entry_is_said_and_the_others_are_read(tmp_path: Path) -> None:
    session = copy_of(SESSION, tmp_path)
    (session / "minhash_actors/results.json").write_text('{"name": "minhash')
    write_json(
        session / "image_pipeline/results.json", {"name": "image_pipeline", "success": True, "metrics": 3}
    )
    problems: list[str] = []
    (batch,) = read(session, on_problem=lambda problem: problems.append(str(problem)))
    assert len(list(batch.records)) == 2
    assert [problem.partition(": ")[2][:20] for problem in problems] == [
        "metrics: expected an",
        "is no complete JSON ",
    ]


def test_a_session_of_damaged_entries_only(tmp_path: Path) -> None:
    session = copy_of(SESSION, tmp_path)
    for path in session.glob("*/results.json"):
        path.write_text("{")
    with pytest.raises(HistoryError, match=r"no results.json in it can be read; copy the session again"):
        list(read(session))


def test_without_its_environment_it_is_still_known(tmp_path: Path) -> None:
    session = copy_of(SESSION, tmp_path)
    (session / "env.json").unlink()
    assert recognise(session) == "curator"
    batch, records = read_one(session)
    assert (batch.session.revision, len(records)) == ("", 4)


def test_a_start_as_text(tmp_path: Path) -> None:
    session = copy_of(SESSION, tmp_path)
    result = load_json(f"{SESSION}/minhash_actors/results.json")
    write_json(
        session / "minhash_actors/results.json", {**result, "exec_started_at": "2026-03-01T00:00:00+01:00"}
    )
    batch, _ = read_one(session)
    assert batch.session.started_at == "2026-02-28T23:00:00.000Z"
