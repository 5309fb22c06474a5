"""What came out of a run and what it cost: `tasks.pkl`, and for any tool `tasks.jsonl` or `tasks.parquet`."""

import json
import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from paceline.curate.errors import PipelineError
from paceline.curate.storage import put
from paceline.curate.task import StagePerf, Task
from paceline.errors import needs_extra

FORMS = ("pkl", "jsonl", "parquet")
# Of payloads that are no data: enough to see what it was.
_REPR_CHARACTERS = 200
_COSTS = ("process_time", "actor_idle_time", "input_data_size_mb", "num_items_processed")


def write_tasks(directory: Path, tasks: Iterable[Task], *, forms: Sequence[str] = ("pkl", "jsonl")) -> None:
    """`tasks.<form>` for each form, each appearing whole or not at all.

    The pickle holds plain dicts, so that reading it needs none of our classes; costs that tasks share are one
    object in it. In the lines a batch's costs stand in full at its first task and by number after that. The table
    has a row for each task and stage; rows with the same `batch` tell of the same cost.
    """
    if unknown := set(forms) - set(FORMS):
        raise PipelineError(f"tasks: {unknown.pop()!r} is not one of {', '.join(FORMS)}")
    listed = list(tasks)
    writers = {"pkl": _pickled, "jsonl": _lines, "parquet": _table}
    for form in forms:
        put(str(directory / f"tasks.{form}"), writers[form](listed))


def read_tasks(path: Path) -> list[Task]:
    """The tasks of a `tasks.jsonl` or `tasks.parquet`; those of one batch share their costs again."""
    rows = _read_table(path) if path.suffix == ".parquet" else _read_lines(path)
    costs: dict[int, StagePerf] = {}
    return [
        Task(
            data=row["data"],
            dataset_name=row["dataset_name"],
            task_id=row["task_id"],
            stage_perf=tuple(_cost(perf, costs) for perf in row["stage_perf"]),
            metadata=row["metadata"],
        )
        for row in rows
    ]


def _cost(perf: dict[str, Any], known: dict[int, StagePerf]) -> StagePerf:
    number = perf.pop("id")
    if number not in known:
        known[number] = StagePerf(**perf)
    return known[number]


def _pickled(tasks: Sequence[Task]) -> bytes:
    known: dict[int, dict[str, Any]] = {}
    plain = [
        {
            "dataset_name": task.dataset_name,
            "task_id": task.task_id,
            "data": task.data,
            "_stage_perf": [known.setdefault(id(perf), asdict(perf)) for perf in task.stage_perf],
            "_metadata": dict(task.metadata),
        }
        for task in tasks
    ]
    return pickle.dumps(plain, protocol=4)


def _lines(tasks: Sequence[Task]) -> bytes:
    return b"".join(_dump(row) + b"\n" for row in _rows(tasks))


def _rows(tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
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
            "metadata": dict(task.metadata),
        }


def _dump(value: Any) -> bytes:
    """JSON of any payload: data as it is, of other objects what they say of themselves."""
    try:
        return orjson.dumps(value, default=_said, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError:
        # Integers beyond 64 bits, and text that is not valid Unicode.
        return json.dumps(_finite(value), default=_said, separators=(",", ":")).encode()


def _finite(value: Any) -> Any:
    """The value with null for the numbers that JSON has not, as `orjson` writes them."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _said(value: object) -> str:
    return repr(value)[:_REPR_CHARACTERS]


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def _table(tasks: Sequence[Task]) -> bytes:
    pa, pq = _arrow("writing tasks.parquet")
    number = pa.float64()
    schema = pa.schema(
        {
            "task": pa.int64(),
            "task_id": pa.string(),
            "dataset_name": pa.string(),
            "data": pa.string(),
            "metadata": pa.string(),
            "batch": pa.int64(),
            "stage_name": pa.string(),
            **dict.fromkeys(_COSTS, number),
            "custom_metrics": pa.map_(pa.string(), number),
        }
    )
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(_table_rows(tasks)), schema), buffer)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def _table_rows(tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
    numbers: dict[int, int] = {}
    for place, task in enumerate(tasks):
        head = {"task": place, "task_id": task.task_id, "dataset_name": task.dataset_name}
        head |= {"data": _dump(task.data).decode(), "metadata": _dump(dict(task.metadata)).decode()}
        if not task.stage_perf:
            yield head
        for perf in task.stage_perf:
            costs = {name: float(getattr(perf, name)) for name in _COSTS}
            batch = numbers.setdefault(id(perf), len(numbers))
            custom = list(perf.custom_metrics.items())
            yield {**head, "batch": batch, "stage_name": perf.stage_name, **costs, "custom_metrics": custom}


def _read_table(path: Path) -> list[dict[str, Any]]:
    _, pq = _arrow(f"reading {path}")
    found: dict[int, dict[str, Any]] = {}
    for row in pq.read_table(path).to_pylist():
        text = {name: row[name] for name in ("task_id", "dataset_name")}
        data = {name: json.loads(row[name]) for name in ("data", "metadata")}
        task = found.setdefault(row["task"], {**text, **data, "stage_perf": []})
        if row["batch"] is not None:
            costs = {name: row[name] for name in (*_COSTS, "stage_name")}
            costs |= {"id": row["batch"], "num_items_processed": int(row["num_items_processed"])}
            task["stage_perf"].append({**costs, "custom_metrics": dict(row["custom_metrics"] or ())})
    return list(found.values())


def _arrow(what: str) -> tuple[Any, Any]:
    with needs_extra("curate", what):
        import pyarrow as pa
        import pyarrow.parquet as pq
    return pa, pq
