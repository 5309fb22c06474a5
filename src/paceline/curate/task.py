"""What flows through a pipeline: tasks, what is rejected, the units work is handed out in, and what each stage cost."""

import marshal
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, sqrt
from typing import Any, overload

BYTES_PER_MB = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePerf:
    """One batch in one stage.

    The field names are those that readers of `tasks.pkl` look for; times are seconds. `input_data_size_mb` is
    the real size of the input, not its number of items.
    """

    stage_name: str
    process_time: float
    actor_idle_time: float = 0.0
    input_data_size_mb: float = 0.0
    num_items_processed: int = 0
    custom_metrics: Mapping[str, float] = field(default_factory=dict)

    def values(self) -> Iterator[tuple[str, float]]:
        """All numbers by name, the stage's own ones as `custom.<name>`."""
        yield "process_time", self.process_time
        yield "actor_idle_time", self.actor_idle_time
        yield "input_data_size_mb", self.input_data_size_mb
        yield "num_items_processed", float(self.num_items_processed)
        for name, value in self.custom_metrics.items():
            yield f"custom.{name}", value


def distinct(perfs: Iterable[StagePerf]) -> list[StagePerf]:
    """Each batch once: the tasks of a batch share one object, so identity tells them apart."""
    return list({id(perf): perf for perf in perfs}.values())


def aggregate(perfs: Iterable[StagePerf], *, pipeline: str = "") -> dict[str, float]:
    """`task_[<pipeline>_]<stage>_<metric>_{sum,mean,std}` over all batches (`std` of the population)."""
    columns: dict[str, list[float]] = {}
    prefix = f"task_{pipeline}_" if pipeline else "task_"
    for perf in distinct(perfs):
        for name, value in perf.values():
            columns.setdefault(f"{prefix}{perf.stage_name}_{name}", []).append(value)
    return {f"{name}_{kind}": value for name, column in columns.items() for kind, value in _summary(column)}


def _summary(column: list[float]) -> Iterator[tuple[str, float]]:
    total = fsum(column)
    mean = total / len(column)
    yield "sum", total
    yield "mean", mean
    yield "std", sqrt(fsum((value - mean) ** 2 for value in column) / len(column))


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a record was read: `offset` in a plain file, `line` in a compressed one."""

    path: str
    offset: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.line is not None:
            return f"{self.path}:{self.line}"
        return self.path if self.offset is None else f"{self.path} (byte {self.offset})"


@dataclass(frozen=True, slots=True)
class Task:
    """One payload on its way through the stages.

    `data` belongs to the stages; mappings in it may be shared between tasks, so a stage makes a new mapping
    where it changes one. `stage_perf` holds what each stage cost for the batch this task came out of; tasks
    of one batch share the same `StagePerf` objects.
    """

    data: Any
    dataset_name: str = ""
    task_id: str = ""
    origin: Origin | None = None
    size_bytes: int = 0
    stage_perf: tuple[StagePerf, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def carrying(self, data: Any) -> "Task":
        """The same task with another payload."""
        return Task(
            data,
            self.dataset_name,
            self.task_id,
            self.origin,
            self.size_bytes,
            self.stage_perf,
            self.metadata,
        )

    def costing(self, perf: tuple[StagePerf, ...]) -> "Task":
        """The same task with the costs of its batch added."""
        spent = self.stage_perf + perf
        return Task(
            self.data, self.dataset_name, self.task_id, self.origin, self.size_bytes, spent, self.metadata
        )

    @property
    def label(self) -> str:
        """How messages name this task."""
        if self.origin is not None:
            return str(self.origin)
        return self.task_id or self.dataset_name or type(self.data).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """An input that a stage could not use, and why."""

    stage: str
    reason: str
    origin: Origin | None = None
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A piece of work for one worker; `index` is its place in the input.

    A batch that other stages have begun has its `part`, what they cost and what they rejected.
    """

    index: int
    tasks: Sequence[Task]
    part: int | None = None
    perf: tuple[StagePerf, ...] = ()
    rejects: tuple[Reject, ...] = ()

    @property
    def label(self) -> str:
        first = self.tasks[0].label if self.tasks else "nothing"
        return first if len(self.tasks) < 2 else f"{first} and {len(self.tasks) - 1} more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one batch of a unit, also when nothing is left of it."""

    unit: int
    part: int
    tasks: Sequence[Task]
    perf: tuple[StagePerf, ...]
    rejects: tuple[Reject, ...] = ()

    def handed_on(self) -> Unit:
        """The batch as work for the stages that come next."""
        return Unit(index=self.unit, tasks=self.tasks, part=self.part, perf=self.perf, rejects=self.rejects)


class PackedTasks(Sequence[Task]):
    """Tasks of a batch on their way to the driver and in it: each is unpacked when it is read, and each time anew.

    So a large result takes the memory of its bytes, and a task that nobody reads costs nothing. Payloads that are
    `plain` (made of JSON's own types alone) are packed by marshal, which is five times as quick as pickle and would
    garble others.
    """

    __slots__ = ("_packed", "_perf", "_plain")

    def __init__(self, tasks: Iterable[Task], *, plain: bool) -> None:
        several = list(tasks)
        self._perf = several[0].stage_perf if several else ()
        self._plain = plain
        pack = _dump_plain if plain else _dump
        self._packed = [pack(task) for task in several]

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Task, ...]: ...
    def __getitem__(self, index: int | slice) -> Task | tuple[Task, ...]:
        if isinstance(index, slice):
            return tuple(map(self._unpack, self._packed[index]))
        return self._unpack(self._packed[index])

    def __len__(self) -> int:
        return len(self._packed)

    def _unpack(self, packed: bytes) -> Task:
        if not self._plain:
            task: Task = pickle.loads(packed)  # noqa: S301 - made by our own workers
            return replace(task, stage_perf=self._perf)
        data, dataset, ident, origin, size_bytes, metadata = marshal.loads(packed)  # noqa: S302 - as above
        place = None if origin is None else Origin(path=origin[0], offset=origin[1], line=origin[2])
        return Task(data, dataset, ident, place, size_bytes, self._perf, metadata)


def _dump_plain(task: Task) -> bytes:
    origin = task.origin
    place = None if origin is None else (origin.path, origin.offset, origin.line)
    return marshal.dumps(
        (task.data, task.dataset_name, task.task_id, place, task.size_bytes, dict(task.metadata))
    )


def _dump(task: Task) -> bytes:
    return pickle.dumps(replace(task, stage_perf=()), protocol=5)
