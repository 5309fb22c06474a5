"""`tasks.pkl` for tools that aggregate stage costs, and the same without pickle as `tasks.jsonl`."""

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paceline.curate.jsonl import dump_lines
from paceline.curate.task import Task


def write_tasks(directory: Path, tasks: Iterable[Task]) -> None:
    """Both files, each appearing whole or not at all; the pickle keeps shared costs shared."""
    listed = list(tasks)
    _replace(directory / "tasks.pkl", pickle.dumps(listed, protocol=4))
    _replace(directory / "tasks.jsonl", dump_lines(list(task_lines(listed))))


def task_lines(tasks: Iterable[Task]) -> Iterator[dict[str, Any]]:
    """A line a task; a batch's costs stand in full at its first task, later ones name them by number."""
    numbers: dict[int, int] = {}
    for task in tasks:
        costs: list[Any] = []
        for perf in task.stage_perf:
            known = numbers.get(id(perf))
            if known is None:
                numbers[id(perf)] = len(numbers)
                costs.append({"id": len(numbers) - 1, **asdict(perf)})
            else:
                costs.append({"id": known})
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
