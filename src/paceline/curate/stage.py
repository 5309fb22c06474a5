"""The steps of a pipeline; they know nothing of how or where they are run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from paceline.curate.errors import PipelineError
from paceline.curate.task import Reject, Task

Products = Task | Reject | Iterable[Task | Reject] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one worker of a stage books; neighbours that book the same share their workers."""

    cpus: float = 1.0
    gpus: float = 0.0


class Stage:
    """One step: write `process`, or `process_batch` where many tasks together are cheaper than one by one.

    `process` gives a task, several (also lazily), or None to drop the input; it raises `BadRecord` for an input that
    cannot be used, or gives a `Reject` among its products. `setup` is called once in each worker: load models there.
    Stages are pickled to workers.

    `inputs` and `outputs` name fields that the payload must have before and after. `process_batch` gets at most
    `batch_size` tasks at a time.
    """

    name: str = ""
    resources: Resources = Resources()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    batch_size: int | None = None
    # Whether its payloads are made of JSON's own types alone; for stages of ours, which are tested for it.
    is_plain: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if not cls.__dict__.get("name"):
            cls.name = cls.__name__

    def setup(self) -> None:
        """Called once in each worker before the first task."""

    def process(self, task: Task) -> Products:
        raise PipelineError(f"stage {self.name} has neither process nor process_batch")

    def process_batch(self, tasks: Sequence[Task]) -> Iterable[Task | Reject]:
        """All products of some tasks, lazily."""
        for task in tasks:
            yield from products(self.process(task))

    def count(self, **figures: float) -> None:
        """Add to the stage's own figures, which end as `task_<stage>_custom.<name>_sum` in the metrics."""
        known: dict[str, float] = self.__dict__.setdefault("_figures", {})
        for name, value in figures.items():
            known[name] = known.get(name, 0.0) + value


class CompositeStage(Stage):
    """A step made of others, which `decompose` lists."""

    def decompose(self) -> Sequence[Stage]:
        raise PipelineError(f"composite stage {self.name} does not say what it consists of")


class SplitStage(Stage):
    """Makes the units of parallel work, such as ranges of files; where it leads a pipeline it runs in the driver."""

    resources = Resources(cpus=0.5)

    def input_bytes(self) -> int | None:
        """How much it will hand out, if that is known beforehand."""
        return None


class ReaderStage(Stage):
    """Reads records; `counts` is the figure of its own that says how many, for progress."""

    counts: str = ""


class GroupStage(Stage):
    """Takes tasks as they come, a few at a time, and may hold back until the batch is over."""

    def begin(self, unit: int, part: int) -> None:
        """Called before each batch with its place in the input; the same again if the batch is done again."""

    def finish(self) -> Iterable[Task | Reject]:
        """Called after each batch: what the stage held back of it."""
        return ()


def products(given: Products) -> Iterator[Task | Reject]:
    """What a stage gave, one at a time."""
    if given is None:
        return
    if isinstance(given, Task | Reject):
        yield given
    else:
        yield from given


def overrides_batch(stage: Stage) -> bool:
    """Whether the stage works on batches, so that one bad task cannot be told from the others."""
    return type(stage).process_batch is not Stage.process_batch


def take_figures(stage: Stage) -> Mapping[str, float]:
    """What the stage has counted since the last call."""
    found: dict[str, float] = stage.__dict__.pop("_figures", {})
    return found


def flatten(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Composite stages replaced by what they consist of, to any depth."""
    flat: list[Stage] = []
    for stage in stages:
        flat.extend(flatten(stage.decompose()) if isinstance(stage, CompositeStage) else (stage,))
    return tuple(flat)


def groups(stages: Sequence[Stage]) -> list[tuple[Stage, ...]]:
    """The stages cut where what they book changes: each group is run by workers of its own."""
    found: list[tuple[Stage, ...]] = []
    for stage in stages:
        if found and found[-1][-1].resources == stage.resources:
            found[-1] += (stage,)
        else:
            found.append((stage,))
    return found
