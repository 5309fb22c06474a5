"""The neutral forms of a run's tasks."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.curate import LocalExecutor, Pipeline, PipelineError, Stage, Task
from paceline.curate.task import StagePerf, aggregate
from paceline.curate.tasks_file import FORMS, read_tasks, write_tasks

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
COSTS = st.builds(
    StagePerf,
    stage_name=st.text(),
    process_time=st.floats(0, 100),
    num_items_processed=st.integers(0, 1000),
    custom_metrics=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False), max_size=2),
)


@given(
    given_tasks=st.lists(st.tuples(VALUES, st.text(), st.text()), max_size=4),
    costs=st.lists(COSTS, max_size=3),
    data=st.data(),
)
def test_tasks_come_back_with_costs_they_share(
    given_tasks: list[Any],
    costs: list[StagePerf],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("tasks")
    some = st.lists(st.sampled_from(costs), unique_by=id) if costs else st.just([])
    tasks = [
        Task(payload, dataset, identity, stage_perf=tuple(data.draw(some)), metadata={"place": at})
        for at, (payload, dataset, identity) in enumerate(given_tasks)
    ]
    write_tasks(home, tasks, forms=FORMS)
    for form in ("jsonl", "parquet"):
        back = read_tasks(home / f"tasks.{form}")
        assert back == tasks, form
        assert aggregate(perf for task in back for perf in task.stage_perf) == aggregate(
            perf for task in tasks for perf in task.stage_perf
        )


def test_numbers_that_json_has_not_are_null(tmp_path: Path) -> None:
    write_tasks(tmp_path, [Task([math.inf, math.nan, 10**30, 1.5])], forms=FORMS)
    for form in ("jsonl", "parquet"):
        (task,) = read_tasks(tmp_path / f"tasks.{form}")
        assert task.data == [None, None, 10**30, 1.5]


def test_a_table_can_be_summed_by_batch(tmp_path: Path) -> None:
    class Twice(Stage):
        name = "twice"

        def process(self, task: Task) -> list[Task]:
            return [task, task]

    tasks = [Task(data=number, dataset_name="n") for number in range(10)]
    result = Pipeline("p", [Twice()]).run(LocalExecutor(workers=1, tasks_per_unit=5), tasks)
    write_tasks(tmp_path, result, forms=["parquet"])
    table = pq.read_table(tmp_path / "tasks.parquet").to_pandas()
    assert len(table) == 20 and sorted(table["data"].astype(int))[-1] == 9
    assert table.drop_duplicates("batch").groupby("stage_name")["num_items_processed"].sum()["twice"] == 10
    assert not list(tmp_path.glob(".*")) and not (tmp_path / "tasks.pkl").exists()


def test_payloads_that_are_no_data_are_said(tmp_path: Path) -> None:
    payloads: list[Any] = [
        object(),
        {"path": tmp_path, 3: b"bytes"},
        np.arange(3),
        [2**80, "\ud800", float("nan")],
        {"at": {1, 2}},
    ]
    write_tasks(tmp_path, [Task(data=payload) for payload in payloads], forms=["jsonl", "parquet"])
    lines = [json.loads(line)["data"] for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert lines[0].startswith("<object object") and lines[2] == [0, 1, 2]
    assert lines[1] == {"path": repr(tmp_path), "3": "b'bytes'"}
    assert lines[3] == [2**80, "\ud800", None]
    assert lines[4] == {"at": "{1, 2}"}
    read = [task.data for task in read_tasks(tmp_path / "tasks.parquet")]
    assert read[:3] == lines[:3] and read[4] == lines[4]


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="'csv' is not one of pkl, jsonl, parquet"):
        write_tasks(tmp_path, [], forms=["csv"])
