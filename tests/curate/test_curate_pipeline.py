"""Stages, pipelines, their costs and the files that hold them."""

import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from paceline.curate import (
    CompositeStage,
    LocalExecutor,
    Pipeline,
    PipelineError,
    Reject,
    Resources,
    Stage,
    Task,
)
from paceline.curate.errors import StageFailed
from paceline.curate.executors import make_executor
from paceline.curate.task import StagePerf, aggregate
from paceline.curate.tasks_file import write_tasks

HERE = LocalExecutor(workers=1)


class Twice(Stage):
    name = "twice"

    def process(self, task: Task) -> Iterator[Task]:
        yield task
        yield task.carrying(task.data + 100)


class Total(Stage):
    name = "total"
    resources = Resources(cpus=0.5)
    batch_size = 3

    def process_batch(self, tasks: Sequence[Task]) -> Iterator[Task]:
        yield tasks[0].carrying([task.data for task in tasks])


class Both(CompositeStage):
    name = "both"

    def decompose(self) -> Sequence[Stage]:
        return Twice(), Total()


class Field(Stage):
    inputs = ("text",)
    outputs = ("length",)

    def process(self, task: Task) -> Task:
        text = task.data["text"]
        return task.carrying({"length": len(text)} if text else {"size": 0})


class Picky(Stage):
    def process(self, task: Task) -> Task | Reject:
        return task if task.data else Reject(stage=self.name, reason="nothing in it", label=task.label)


def tasks(*data: object) -> list[Task]:
    return [Task(data=value, dataset_name="numbers") for value in data]


def test_composite_stages_are_taken_apart_and_described() -> None:
    pipeline = Pipeline("demo", [Both()])
    assert [stage.name for stage in pipeline.flat] == ["twice", "total"]
    assert pipeline.describe().splitlines() == [
        "pipeline demo",
        "  both [any -> any; 1 CPU]",
        "    twice [any -> any; 1 CPU]",
        "    total [any -> any; 0.5 CPU]",
    ]


def test_batches_are_no_larger_than_asked_for() -> None:
    result = Pipeline("demo", [Both()]).run(HERE, tasks(1, 2))
    assert [task.data for task in result] == [[1, 101, 2], [102]]
    assert result[0].dataset_name == "numbers" and len(result[:1]) == 1


def test_fields_are_checked_before_and_after() -> None:
    result = Pipeline("demo", [Field()]).run(HERE, tasks({"text": "abc"}, {"note": 1}, "no mapping"))
    assert [task.data for task in result] == [{"length": 3}]
    assert [reject.reason for reject in result.rejects] == ["text is missing", "text is missing"]
    with pytest.raises(StageFailed, match="stage Field failed on numbers: it promises length"):
        Pipeline("demo", [Field()]).run(HERE, tasks({"text": ""}))


def test_a_stage_may_give_rejects() -> None:
    result = Pipeline("demo", [Picky()]).run(HERE, tasks(1, 0, 2))
    assert [task.data for task in result] == [1, 2]
    assert [(reject.label, reject.reason) for reject in result.rejects] == [("numbers", "nothing in it")]


def test_pipelines_that_cannot_run_are_refused() -> None:
    with pytest.raises(PipelineError, match="no stages"):
        Pipeline("demo", [])
    with pytest.raises(PipelineError, match="neither process nor process_batch"):
        Pipeline("demo", [Stage()]).run(HERE, tasks(1))
    with pytest.raises(PipelineError, match="on_error"):
        Pipeline("demo", [Picky()]).run(HERE, tasks(1), on_error="ignore")
    with pytest.raises(PipelineError, match="'dask' is not one of local"):
        make_executor("dask")


def test_costs_are_summed_once_a_batch() -> None:
    shared = StagePerf(
        stage_name="read", process_time=2.0, num_items_processed=3, custom_metrics={"lines": 5}
    )
    other = StagePerf(stage_name="read_more", process_time=4.0)
    found = aggregate([shared, shared, other, StagePerf(stage_name="read", process_time=4.0)])
    assert found["task_read_process_time_sum"] == 6.0
    assert (found["task_read_process_time_mean"], found["task_read_process_time_std"]) == (3.0, 1.0)
    assert found["task_read_custom.lines_sum"] == 5.0
    assert "task_alm_read_process_time_sum" in aggregate([shared], pipeline="alm")


def test_task_files_share_costs_and_need_no_classes(tmp_path: Path) -> None:
    result = Pipeline("demo", [Twice()]).run(HERE, tasks(1))
    write_tasks(tmp_path, result)

    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> object:
            raise AssertionError(f"{module}.{name}")

    with (tmp_path / "tasks.pkl").open("rb") as file:
        first, second = Plain(file).load()
    assert first["_stage_perf"][0] is second["_stage_perf"][0]
    assert first["_stage_perf"][0]["stage_name"] == "twice"
    lines = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert lines[0]["stage_perf"][0]["num_items_processed"] == 1
    assert lines[1]["stage_perf"] == [{"id": 0}]
