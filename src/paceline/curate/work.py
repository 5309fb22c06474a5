"""One unit of work through a chain of stages, in this process: what every executor does in its workers."""

import traceback
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from time import perf_counter
from types import TracebackType

from paceline.curate.errors import BadRecord, PipelineError, StageFailed
from paceline.curate.perf import BYTES_PER_MB, StagePerf
from paceline.curate.stage import Stage, overrides_batch, products
from paceline.curate.task import Outcome, Reject, Task, Unit

# A batch is cut at either bound, so that a large unit (a compressed file, say) never sits in memory at once.
BATCH_TASKS = 512
BATCH_BYTES = 1_048_576


class _Call:
    """Names the stage and the input in whatever a stage raises."""

    __slots__ = ("stage", "task")

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.task: Task | None = None

    def __enter__(self) -> "_Call":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, PipelineError):
            return
        label = self.task.label if self.task is not None else "its input"
        text = "".join(traceback.format_exception(error))
        raise StageFailed(self.stage.name, label, f"{type(error).__name__}: {error}", text) from error


def run_unit(stages: Sequence[Stage], unit: Unit, *, skip: int = 0, idle_s: float = 0.0) -> Iterator[Outcome]:
    """The outcomes of a unit, a batch at a time; the first `skip` are made again but not given."""
    head, *rest = stages
    source = _produce(head, unit.tasks)
    part = 0
    while True:
        outcome, more = _run_batch(head, rest, source, unit, part, idle_s)
        if part >= skip and (part == 0 or more):
            yield outcome
        if not more:
            return
        part += 1
        idle_s = 0.0


def _run_batch(
    head: Stage, rest: Sequence[Stage], source: Iterator[Task | Reject], unit: Unit, part: int, idle_s: float
) -> tuple[Outcome, bool]:
    started = perf_counter()
    head.begin(unit.index, part)
    pulled = _pull(source)
    taken = unit.tasks if part == 0 else ()
    tasks, rejects = _sort_out(head, pulled)
    perfs = [_measure(head, taken, perf_counter() - started, idle_s)]
    for stage in rest:
        if not tasks:
            break
        started = perf_counter()
        stage.begin(unit.index, part)
        given, (tasks, refused) = tasks, _sort_out(stage, _produce(stage, tasks))
        rejects += refused
        perfs.append(_measure(stage, given, perf_counter() - started, 0.0))
    costs = tuple(perfs)
    done = tuple(task.costing(costs) for task in tasks)
    outcome = Outcome(unit=unit.index, part=part, tasks=done, perf=costs, rejects=tuple(rejects))
    return outcome, bool(pulled)


def _measure(stage: Stage, given: Sequence[Task], process_s: float, idle_s: float) -> StagePerf:
    return StagePerf(
        stage_name=stage.name,
        process_time=process_s,
        actor_idle_time=idle_s,
        input_data_size_mb=sum(task.size_bytes for task in given) / BYTES_PER_MB,
        num_items_processed=len(given),
        custom_metrics=dict(stage.take_metrics()),
    )


def _pull(source: Iterator[Task | Reject]) -> list[Task | Reject]:
    """The next batch of a lazy stage."""
    pulled: list[Task | Reject] = []
    size_bytes = 0
    for product in source:
        pulled.append(product)
        if isinstance(product, Task):
            size_bytes += product.size_bytes
        if len(pulled) >= BATCH_TASKS or size_bytes >= BATCH_BYTES:
            break
    return pulled


def _sort_out(stage: Stage, mixed: Iterable[Task | Reject]) -> tuple[list[Task], list[Reject]]:
    tasks: list[Task] = []
    rejects: list[Reject] = []
    promised = stage.outputs
    for product in mixed:
        if isinstance(product, Reject):
            rejects.append(product)
        else:
            tasks.append(product)
            if promised and (missing := _missing(promised, product)):
                raise StageFailed(stage.name, product.label, f"it promises {missing} and did not give it")
    return tasks, rejects


def _missing(fields: tuple[str, ...], task: Task) -> str:
    data = task.data
    if not isinstance(data, dict):
        return fields[0]
    for field in fields:
        if field not in data:
            return field
    return ""


def _produce(stage: Stage, tasks: Sequence[Task]) -> Iterator[Task | Reject]:
    call = _Call(stage)
    with call:
        if overrides_batch(stage):
            yield from _produce_batches(stage, tasks, call)
        else:
            for task in tasks:
                call.task = task
                yield from _produce_one(stage, task)


def _produce_one(stage: Stage, task: Task) -> Iterator[Task | Reject]:
    if stage.inputs and (missing := _missing(stage.inputs, task)):
        yield _reject(stage, task, f"{missing} is missing")
        return
    try:
        yield from products(stage.process(task))
    except BadRecord as error:
        yield _reject(stage, task, str(error))


def _produce_batches(stage: Stage, tasks: Sequence[Task], call: _Call) -> Iterator[Task | Reject]:
    good: list[Task] = []
    for task in tasks:
        if stage.inputs and (missing := _missing(stage.inputs, task)):
            yield _reject(stage, task, f"{missing} is missing")
        else:
            good.append(task)
    size = stage.batch_size or max(1, len(good))
    for begin in range(0, len(good), size):
        batch = good[begin : begin + size]
        call.task = batch[0]
        yield from stage.process_batch(batch)


def _reject(stage: Stage, task: Task, reason: str) -> Reject:
    return Reject(stage=stage.name, reason=reason, origin=task.origin, label=task.label)


def plan_units(
    stages: Sequence[Stage], tasks: Iterable[Task], *, tasks_per_unit: int
) -> tuple[Iterator[Unit], tuple[Stage, ...]]:
    """The units of work, lazily, and the stages that workers run on them.

    Leading stages that split run here, and each of their products is a unit; other tasks are grouped.
    """
    left = list(stages)
    flow: Iterator[Task] = iter(tasks)
    while len(left) > 1 and left[0].splits:
        flow = _expand(left.pop(0), flow)
        tasks_per_unit = 1
    return _group(flow, tasks_per_unit), tuple(left)


def _expand(stage: Stage, tasks: Iterator[Task]) -> Iterator[Task]:
    call = _Call(stage)
    with call:
        for task in tasks:
            call.task = task
            for product in products(stage.process(task)):
                if isinstance(product, Reject):
                    raise StageFailed(stage.name, task.label, product.reason)
                yield product


def _group(tasks: Iterator[Task], size: int) -> Iterator[Unit]:
    for index in count():
        group = tuple(islice(tasks, size))
        if not group:
            return
        yield Unit(index=index, tasks=group)
