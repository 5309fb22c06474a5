"""The steps of a pipeline; they know nothing of how or where they are run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from paceline.curate.errors import PipelineError
from paceline.curate.task import Reject, Task

Products = Task | Reject | Iterable[Task | Reject] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one worker of a stage books on the engines that account for it."""

    cpus: float = 1.0
    gpus: float = 0.0


class Stage:
    """One step: override `process`, or `process_batch` where many tasks together are cheaper than one by one.

    `process` gives a task, several (also lazily), or None to drop the input; it raises `BadRecord` for an
    input that cannot be used, or gives a `Reject` among its products. `inputs` and `outputs` name fields that
    the payload must have before and after. A stage that `splits` makes the units of parallel work (it lists
    files, say): where such stages lead a pipeline they run in the driver. Stages are pickled to workers.

    A stage that reads records names in `counts` that of its figures (`take_metrics`) which counts them, for progress.

    A batch reaches `process_batch` whole, or in pieces of `batch_size`. A stage to which it is all the same how
    tasks are grouped says so with `takes_any_group`, and gets them as they come; it may hold back until `finish`.
    """

    name: str = ""
    resources: Resources = Resources()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    batch_size: int | None = None
    takes_any_group: bool = False
    splits: bool = False
    counts: str = ""

    def __init_subclass__(cls) -> None:
        if not cls.__dict__.get("name"):
            cls.name = cls.__name__

    def setup(self) -> None:
        """Called once in each worker before the first task."""

    def begin(self, unit: int, part: int) -> None:
        """Called before each batch with its place in the input; the same again if the batch is done again."""

    def process(self, task: Task) -> Products:
        raise PipelineError(f"stage {self.name} has neither process nor process_batch")

    def process_batch(self, tasks: Sequence[Task]) -> Iterable[Task | Reject]:
        """All products of some tasks, lazily."""
        for task in tasks:
            yield from products(self.process(task))

    def finish(self) -> Iterable[Task | Reject]:
        """Called after each batch: what the stage held back of it."""
        return ()

    def take_metrics(self) -> Mapping[str, float]:
        """Custom figures since the last call; they join the `StagePerf` of the batch."""
        return {}

    def input_bytes(self) -> int | None:
        """How much a stage that splits will hand out, if it can tell beforehand."""
        return None

    def decompose(self) -> Sequence["Stage"]:
        """The stages that really run."""
        return (self,)

    def describe(self) -> str:
        """One line for `Pipeline.describe`."""
        flow = f"{', '.join(self.inputs) or 'any'} -> {', '.join(self.outputs) or 'any'}"
        return f"{self.name} [{flow}; {self.resources.cpus:g} CPU]"


class CompositeStage(Stage):
    """A step made of others, which `decompose` lists."""

    def decompose(self) -> Sequence[Stage]:
        raise PipelineError(f"composite stage {self.name} does not say what it consists of")


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


def flatten(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Composite stages replaced by what they consist of, to any depth."""
    flat: list[Stage] = []
    for stage in stages:
        parts = stage.decompose()
        flat.extend((stage,) if len(parts) == 1 and parts[0] is stage else flatten(parts))
    return tuple(flat)
