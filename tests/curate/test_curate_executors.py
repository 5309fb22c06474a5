"""One contract for all executors: the same results, costs, rejects and errors."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.curate import (
    LocalExecutor,
    Pipeline,
    RayActorExecutor,
    RayDataExecutor,
    Stage,
    Task,
    XennaExecutor,
)
from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage, ALMManifestReader
from paceline.curate.errors import InputRejected, StageFailed
from paceline.curate.executors.ray_session import ray_session
from paceline.curate.pipeline import Executor
from paceline.curate.rejects import RejectLog

MAKERS: dict[str, Callable[[], Executor]] = {
    "local-here": lambda: LocalExecutor(workers=1),
    "local-fork": lambda: LocalExecutor(workers=2, start_method="fork"),
    "local-spawn": lambda: LocalExecutor(workers=2, start_method="spawn"),
    "ray_actors": RayActorExecutor,
    "ray_data": RayDataExecutor,
    "xenna-streaming": XennaExecutor,
    "xenna-batch": lambda: XennaExecutor(mode="batch"),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    pytest.importorskip("ray")
    pytest.importorskip("cosmos_xenna")
    with ray_session(dashboard=True):
        yield


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name.startswith("local") else pytest.mark.ray) for name in MAKERS]
)
def executor(request: pytest.FixtureRequest) -> Executor:
    if not request.param.startswith("local"):
        request.getfixturevalue("cluster")
    return MAKERS[request.param]()


class DropOdd(Stage):
    """Leaves nothing of a batch in which all numbers are odd."""

    def process(self, task: Task) -> Task | None:
        return None if task.data["number"] % 2 else task


class Trip(Stage):
    def process(self, task: Task) -> Task:
        return task.carrying(100 // (task.data["number"] - 33))


def talk(chance: random.Random, number: int) -> dict[str, Any]:
    now, segments = 0.0, []
    for _ in range(30):
        end = round(now + chance.uniform(1, 9), 2)
        segment = {
            "start": now,
            "end": end,
            "speaker": f"s{chance.randrange(3)}",
            "metrics": {"bandwidth": 9000},
        }
        segments.append(segment)
        now = round(end + chance.uniform(0, 2), 2)
    path = f"{number}.wav"
    return {"audio_filepath": path, "audio_sample_rate": 16000, "segments": segments, "number": number}


def write_manifest(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def stages(manifest: Path) -> list[Stage]:
    return [
        ALMManifestReader(str(manifest), range_bytes=20_000),
        ALMDataBuilderStage(target_window_duration=30.0),
        ALMDataOverlapStage(overlap_percentage=50, target_duration=30.0),
        DropOdd(),
    ]


def test_results_costs_and_rejects(executor: Executor, tmp_path: Path) -> None:
    chance = random.Random(5)
    entries = [talk(chance, number) for number in range(60)]
    lines = [json.dumps(entry) for entry in entries]
    no_path = {**entries[8], "audio_filepath": None}
    del no_path["audio_filepath"]
    lines[8] = json.dumps(no_path)
    lines[20] = lines[20][:-4]
    lines[31] = lines[31].replace('"end"', '"ende"', 1)
    manifest = write_manifest(tmp_path / "m.jsonl", lines)

    result = Pipeline("contract", stages(manifest)).run(executor)

    build, overlap = stages(manifest)[1:3]
    expected = []
    for number, entry in enumerate(entries):
        if number not in (8, 20, 31) and number % 2 == 0:
            expected.append(overlap.process(build.process(Task(data=entry))).data)  # type: ignore[arg-type, union-attr]
    found = sorted((task.data for task in result), key=lambda data: data["number"])
    assert found == expected

    log = RejectLog()
    log.add(result.rejects)
    log.write(tmp_path / "rejects.jsonl")
    rejects = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert [(reject["line"], reject["stage"]) for reject in rejects] == [
        (9, "alm_data_builder"),
        (21, "jsonl_reader"),
        (32, "alm_data_builder"),
    ]
    assert rejects[0]["reason"] == "audio_filepath is missing"
    assert rejects[2]["reason"] == "segments[0].end is missing"
    assert {reject["source"] for reject in rejects} == {str(manifest)}

    metrics = result.metrics()
    assert metrics["task_jsonl_reader_custom.entries_sum"] == 60
    assert metrics["task_alm_data_builder_num_items_processed_sum"] == 59
    assert metrics["task_DropOdd_num_items_processed_sum"] == 57
    size_mb = manifest.stat().st_size / 1_048_576
    assert metrics["task_jsonl_reader_input_data_size_mb_sum"] == pytest.approx(size_mb)
    assert all(task.stage_perf[-1].stage_name == "DropOdd" for task in result)


def test_a_batch_with_nothing_left_is_counted_and_given_tasks_are_run(executor: Executor) -> None:
    odd = [Task(data={"number": number}) for number in range(1, 200, 2)]
    result = Pipeline("odd", [DropOdd(), DropOdd()]).run(executor, odd)
    assert (len(result), len(result.rejects)) == (0, 0)
    assert result.metrics()["task_DropOdd_num_items_processed_sum"] == 100


def test_an_error_names_stage_and_input(executor: Executor) -> None:
    tasks = [Task(data={"number": number}, task_id=f"number {number}") for number in range(100)]
    with pytest.raises(StageFailed, match="stage Trip failed on number 33: ZeroDivisionError"):
        Pipeline("trip", [Trip()]).run(executor, tasks)


def test_a_reject_ends_the_run_if_so_configured(executor: Executor, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "m.jsonl", ['{"number": 2}', "{", '{"number": 4}'])
    pipeline = Pipeline("fail", [ALMManifestReader(str(manifest)), DropOdd()])
    with pytest.raises(InputRejected, match=r"m\.jsonl:2: not JSON"):
        pipeline.run(executor, on_error="fail")


def test_no_tasks_are_no_results(executor: Executor) -> None:
    assert len(Pipeline("empty", [DropOdd()]).run(executor, [])) == 0


@pytest.mark.ray
def test_a_private_cluster_listens_on_loopback_only(cluster: None) -> None:
    psutil = pytest.importorskip("psutil")
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    open_to_all = [
        (process.name(), found.laddr)
        for process in family
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        for found in process.net_connections(kind="inet")
        if found.status == psutil.CONN_LISTEN
        and found.laddr.ip.removeprefix("::ffff:") not in ("127.0.0.1", "::1")
    ]
    assert not open_to_all
