"""One unit of work through a chain of stages, in this process: what every executor does in its workers.

Python's garbage collector is kept away from it: it makes many objects and no cycles. An engine's worker gets a unit of
about a megabyte a call, instead of a record and stage, so that the cost of the engine's calls disappears.
"""

import gc
import pickle
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from time import perf_counter
from types import TracebackType

from paceline.curate.errors import BadRecord, PipelineError, StageFailed
from paceline.curate.stage import GroupStage, SplitStage, Stage, overrides_batch, products, take_figures
from paceline.curate.task import BYTES_PER_MB, Outcome, PackedTasks, Reject, StagePerf, Task, Unit

# What stages leave behind in cycles is collected every so many units of work.
UNITS_PER_COLLECTION = 32

# A batch is cut at either bound, so that a large unit (a compressed file, say) never sits in memory at once.
BATCH_TASKS = 512
BATCH_BYTES = 1_048_576
# How many tasks go through the stages together; measured on ALM entries, where whole batches take 7 % longer.
STRIDE_TASKS = 32
STRIDE_BYTES = 65_536

Reply = tuple[Outcome, ...] | PipelineError


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collections inside; what was made there is old to the collector afterwards, without a pass over it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # To freeze and unfreeze moves everything to the oldest generation; not where a user has frozen things.
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class Sweeper:
    """Collects once in a while, where pauses keep the collector from doing so by itself."""

    def __init__(self) -> None:
        self._units = 0

    def unit_done(self) -> None:
        self._units += 1
        if self._units % UNITS_PER_COLLECTION == 0:
            gc.collect()


class _Call:
    """Names the stage and the input in whatever a stage raises."""

    __slots__ = ("label", "stage", "task")

    def __init__(self, stage: Stage, label: str = "its input") -> None:
        self.stage = stage
        self.label = label
        self.task: Task | None = None

    def __enter__(self) -> "_Call":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, PipelineError):
            return
        label = self.task.label if self.task is not None else self.label
        text = "".join(traceback.format_exception(error))
        raise StageFailed(self.stage.name, label, f"{type(error).__name__}: {error}", text) from error


def set_up(stages: Sequence[Stage]) -> None:
    """Prepare the stages in this process; what one of them raises names it."""
    for stage in stages:
        with _Call(stage, "its setup"):
            stage.setup()


def run_unit(
    stages: Sequence[Stage], unit: Unit, *, skip: int = 0, idle_s: float = 0.0, last: bool = True
) -> Iterator[Outcome]:
    """The outcomes of a unit, a batch at a time; the first `skip` are made again but not given.

    A batch that was begun stays one. Tasks get their costs from the `last` stages that they go through.
    """
    source = _produce(stages[0], unit.tasks)
    if unit.part is not None:
        batch = _Batch(stages, unit, unit.part)
        batch.fill(source)
        yield batch.finish(idle_s, last=last)
        return
    for part in count():
        batch = _Batch(stages, unit, part)
        more = batch.fill(source)
        if part >= skip and (part == 0 or more):
            yield batch.finish(0.0 if part else idle_s, last=last)
        if not more:
            return


class _Meter:
    """What one stage has cost in a batch so far."""

    __slots__ = ("items", "process_s", "size_bytes", "stage")

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.items = self.size_bytes = 0
        self.process_s = 0.0

    def add(self, given: Sequence[Task], started: float) -> None:
        self.process_s += perf_counter() - started
        self.items += len(given)
        self.size_bytes += sum([task.size_bytes for task in given])

    def read(self, idle_s: float) -> StagePerf:
        return StagePerf(
            stage_name=self.stage.name,
            process_time=self.process_s,
            actor_idle_time=idle_s,
            input_data_size_mb=self.size_bytes / BYTES_PER_MB,
            num_items_processed=self.items,
            custom_metrics=take_figures(self.stage),
        )


class _Batch:
    """One outcome in the making.

    Tasks go through all stages a few at a time, while they are still in the processor's cache, unless a stage
    wants the whole batch at once.
    """

    def __init__(self, stages: Sequence[Stage], unit: Unit, part: int) -> None:
        self._unit, self._part = unit, part
        self._meters = [_Meter(stage) for stage in stages]
        self._rejects: list[Reject] = []
        self._done: list[Task] = []
        for stage in stages:
            take_figures(stage)  # What it counted of a batch that was given up is counted again.
            if isinstance(stage, GroupStage):
                stage.begin(unit.index, part)
        whole = any(overrides_batch(stage) and not isinstance(stage, GroupStage) for stage in stages[1:])
        self._stride = (BATCH_TASKS, BATCH_BYTES) if whole else (STRIDE_TASKS, STRIDE_BYTES)

    def fill(self, source: Iterator[Task | Reject]) -> bool:
        """Pull from the first stage and push through the others until the batch is full; whether anything came."""
        head, tasks_seen, bytes_seen = self._meters[0], 0, 0
        is_begun = self._unit.part is not None
        while is_begun or (tasks_seen < BATCH_TASKS and bytes_seen < BATCH_BYTES):
            started = perf_counter()
            pulled, size_bytes = _pull(source, *self._stride)
            tasks, refused = _sort_out(head.stage, pulled)
            head.add((), started)
            self._rejects += refused
            self._push(tasks, 1)
            tasks_seen, bytes_seen = tasks_seen + len(pulled), bytes_seen + size_bytes
            if not pulled:
                break
        if is_begun or not self._part:
            head.add(self._unit.tasks, perf_counter())
        return tasks_seen > 0

    def _push(self, tasks: list[Task], place: int) -> None:
        for meter in self._meters[place:]:
            if not tasks:
                return
            started = perf_counter()
            given, (tasks, refused) = tasks, _sort_out(meter.stage, _produce(meter.stage, tasks))
            meter.add(given, started)
            self._rejects += refused
        self._done += tasks

    def finish(self, idle_s: float, *, last: bool) -> Outcome:
        """Let the stages give what they held back, and sum up."""
        for place, meter in enumerate(self._meters):
            if not isinstance(meter.stage, GroupStage):
                continue
            started = perf_counter()
            with _Call(meter.stage):
                tasks, refused = _sort_out(meter.stage, meter.stage.finish())
            meter.add((), started)
            self._rejects += refused
            self._push(tasks, place + 1)
        reached = [meter for meter in self._meters[1:] if meter.items]
        costs = (*self._unit.perf, self._meters[0].read(idle_s), *(meter.read(0.0) for meter in reached))
        return Outcome(
            unit=self._unit.index,
            part=self._part,
            tasks=tuple([task.costing(costs) for task in self._done]) if last else tuple(self._done),
            perf=costs,
            rejects=(*self._unit.rejects, *self._rejects),
        )


def _pull(source: Iterator[Task | Reject], max_tasks: int, max_bytes: int) -> tuple[list[Task | Reject], int]:
    """The next products of a lazy stage, and their size."""
    pulled: list[Task | Reject] = []
    size_bytes = 0
    for product in source:
        pulled.append(product)
        if isinstance(product, Task):
            size_bytes += product.size_bytes
        if len(pulled) >= max_tasks or size_bytes >= max_bytes:
            break
    return pulled, size_bytes


def _sort_out(stage: Stage, mixed: Iterable[Task | Reject]) -> tuple[list[Task], list[Reject]]:
    tasks: list[Task] = []
    rejects: list[Reject] = []
    promised = frozenset(stage.outputs)
    for product in mixed:
        if isinstance(product, Reject):
            rejects.append(product)
            continue
        tasks.append(product)
        if promised and _lacks(product, promised):
            missing = _missing(stage.outputs, product)
            raise StageFailed(stage.name, product.label, f"it promises {missing} and did not give it")
    return tasks, rejects


def _lacks(task: Task, fields: frozenset[str]) -> bool:
    data = task.data
    return not isinstance(data, dict) or not data.keys() >= fields


def _missing(fields: tuple[str, ...], task: Task) -> str:
    """The first field that is not there."""
    data = task.data
    return next((field for field in fields if not isinstance(data, dict) or field not in data), "")


def _produce(stage: Stage, tasks: Sequence[Task]) -> Iterator[Task | Reject]:
    call = _Call(stage)
    with call:
        yield from (_produce_batches if overrides_batch(stage) else _produce_each)(stage, tasks, call)


def _produce_each(stage: Stage, tasks: Sequence[Task], call: _Call) -> Iterator[Task | Reject]:
    needed, process = frozenset(stage.inputs), stage.process
    for task in tasks:
        call.task = task
        if needed and _lacks(task, needed):
            yield _reject(stage, task, f"{_missing(stage.inputs, task)} is missing")
            continue
        try:
            made = process(task)
            if isinstance(made, Task):
                yield made
            else:
                yield from products(made)
        except BadRecord as error:
            yield _reject(stage, task, str(error))


def _produce_batches(stage: Stage, tasks: Sequence[Task], call: _Call) -> Iterator[Task | Reject]:
    good: list[Task] = []
    needed = frozenset(stage.inputs)
    for task in tasks:
        if needed and _lacks(task, needed):
            yield _reject(stage, task, f"{_missing(stage.inputs, task)} is missing")
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
    while len(left) > 1 and isinstance(left[0], SplitStage):
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


class UnitRunner:
    """Groups of stages in a worker, each set up when it is first needed."""

    def __init__(self, groups: Sequence[Sequence[Stage]]) -> None:
        self._groups = groups
        self._plain = is_plain(groups)
        self._ready: set[int] = set()
        self._sweeper = Sweeper()

    def ready(self) -> None:
        """Answers when the worker is up."""

    def run(self, work: Unit | Sequence[Unit], group: int = 0) -> Reply:
        """The outcomes, or the error that ends the run: as a value, lest the engine wrap or retry it."""
        last = group == len(self._groups) - 1
        units = (work,) if isinstance(work, Unit) else work
        try:
            self.set_up(group)
            with collector_paused():
                outcomes = [
                    outcome for unit in units for outcome in run_unit(self._groups[group], unit, last=last)
                ]
                return tuple(self.packed(outcome) if last else outcome for outcome in outcomes)
        except PipelineError as error:
            return error
        finally:
            self._sweeper.unit_done()

    def run_on(
        self, work: Unit | Sequence[Unit], group: int
    ) -> tuple[PipelineError | None, tuple[Unit, ...]]:
        """The error that ends the run, if there is one; and apart from it the work for the next group."""
        reply = self.run(work, group)
        if isinstance(reply, PipelineError):
            return reply, ()
        return None, tuple(outcome.handed_on() for outcome in reply)

    def set_up(self, group: int) -> None:
        """Prepare the stages of a group, once."""
        if group not in self._ready:
            set_up(self._groups[group])
            self._ready.add(group)

    def packed(self, outcome: Outcome) -> Outcome:
        """The outcome as it travels to the driver."""
        return replace(outcome, tasks=PackedTasks(outcome.tasks, plain=self._plain))


def is_plain(groups: Iterable[Iterable[Stage]]) -> bool:
    """Whether all payloads are made of JSON's own types alone."""
    return all(stage.is_plain for group in groups for stage in group)


_runners: dict[str, UnitRunner] = {}


def runner_for(token: str, groups: bytes) -> UnitRunner:
    """This process's runner for one run of a pipeline, made at first use."""
    if token not in _runners:
        _runners.clear()
        _runners[token] = UnitRunner(pickle.loads(groups))  # noqa: S301 - made by our own driver
    return _runners[token]
