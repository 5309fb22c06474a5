"""`tasks.pkl` for tools that aggregate stage costs, and the same without pickle as `tasks.jsonl`."""

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paceline.curate.jsonl import dump_lines
from paceline.curate.task import Task


def write_tasks(directory: Path, tasks: Iterable[Task]) -> None:
    """Both files, each appearing whole or not at all.

    The pickle holds plain dicts, so that reading it needs none of our classes; costs that tasks share are one
    object in it. In the lines a batch's costs stand in full at its first task and by number after that.
    """
    listed = list(tasks)
    _replace(directory / "tasks.pkl", pickle.dumps(_task_dicts(listed), protocol=4))
    _replace(directory / "tasks.jsonl", dump_lines(list(_task_lines(listed))))


def _task_dicts(tasks: Iterable[Task]) -> list[dict[str, Any]]:
    known: dict[int, dict[str, Any]] = {}
    return [
        {
            "dataset_name": task.dataset_name,
            "task_id": task.task_id,
            "data": task.data,
            "_stage_perf": [known.setdefault(id(perf), asdict(perf)) for perf in task.stage_perf],
            "_metadata": dict(task.metadata),
        }
        for task in tasks
    ]


def _task_lines(tasks: Iterable[Task]) -> Iterator[dict[str, Any]]:
    numbers: dict[int, int] = {}
    for task in tasks:
        costs: list[dict[str, Any]] = []
        for perf in task.stage_perf:
            if id(perf) in numbers:
                costs.append({"id": numbers[id(perf)]})
            else:
                numbers[id(perf)] = len(numbers)
                costs.append({"id": numbers[id(perf)], **asdict(perf)})
        yield {
            "task_id": task.task_id,
            "dataset_name": task.dataset_name,
            "data": task.data,
            "stage_perf": costs,
        }


def _replace(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(content)
    draft.rename(path)
