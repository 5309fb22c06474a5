"""What flows through a pipeline: tasks, what is rejected, the units work is handed out in, and what each stage cost."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import fsum, sqrt
from typing import Any

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
    """A piece of work for one worker; `index` is its place in the input."""

    index: int
    tasks: tuple[Task, ...]

    @property
    def label(self) -> str:
        first = self.tasks[0].label if self.tasks else "nothing"
        return first if len(self.tasks) < 2 else f"{first} and {len(self.tasks) - 1} more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one batch of a unit, also when nothing is left of it."""

    unit: int
    part: int
    tasks: tuple[Task, ...]
    perf: tuple[StagePerf, ...]
    rejects: tuple[Reject, ...] = ()
