"""Ray Data: units are rows of a dataset, and each group of stages that book the same is one map."""

import logging
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from paceline.curate.errors import PipelineError, WorkerLost
from paceline.curate.executors.ray_private import task_attempt
from paceline.curate.executors.ray_session import ray_session
from paceline.curate.stage import Resources, Stage, groups
from paceline.curate.task import Outcome, Task, Unit
from paceline.curate.work import Reply, plan_units, runner_for
from paceline.errors import needs_extra
from paceline.numbers import number

# A node that dies takes several units with it, and they may move to another that is dying too.
MAX_DEATHS = 4


class RayDataExecutor:
    """Runs the stages as tasks of Ray Data, which streams and does again what a dead node held."""

    name = "ray_data"

    def __init__(self, *, tasks_per_unit: int = 64) -> None:
        if tasks_per_unit < 1:
            raise PipelineError("ray_data executor: tasks_per_unit must be at least 1")
        self.tasks_per_unit = tasks_per_unit

    def run(self, stages: Sequence[Stage], tasks: Iterable[Task]) -> Iterator[Outcome]:
        units, rest = plan_units(stages, tasks, tasks_per_unit=self.tasks_per_unit)
        waiting = list(units)
        if not waiting:
            return
        with ray_session() as ray:
            # Its pickle takes classes of the main program along, which workers could not import.
            rows = [{"unit": ray.cloudpickle.dumps(unit)} for unit in waiting]
            try:
                for row in _dataset(ray, rest, rows).iter_rows():
                    reply: Reply = pickle.loads(row["reply"])  # noqa: S301 - made by our own workers
                    if isinstance(reply, PipelineError):
                        raise reply
                    yield from reply
            except ray.exceptions.RayError as error:
                said = (str(error).strip() or type(error).__name__).splitlines()[-1]
                raise WorkerLost(f"Ray Data gave up over one of {len(rows)} units: {said}") from error


def _dataset(ray: Any, stages: Sequence[Stage], rows: list[dict[str, bytes]]) -> Any:
    with needs_extra("ray", "the ray_data executor"):
        import ray.data
    # Its progress goes to the log as information, and what ends a run is told by us.
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    parts = groups(stages)
    token, packed = uuid4().hex, ray.cloudpickle.dumps(parts)
    dataset = ray.data.from_items(rows, override_num_blocks=len(rows))
    for place, group in enumerate(parts):
        dataset = _mapped(dataset, ray, place, len(parts), group[0].resources, token, packed)
    return dataset


def _mapped(
    dataset: Any, ray: Any, place: int, count: int, booked: Resources, token: str, packed: bytes
) -> Any:
    """The rows after one more group of stages: the last gives replies, the others work for the next."""
    last = place == count - 1

    def run_row(row: dict[str, bytes]) -> dict[str, bytes]:
        if row.get("reply"):
            return row
        work: Unit | Sequence[Unit] = pickle.loads(row["unit"])  # noqa: S301 - made by our own driver
        deaths = task_attempt()
        # Ray Data would try a unit that kills its workers for ever.
        if deaths >= MAX_DEATHS:
            label = work.label if isinstance(work, Unit) else f"a part of unit {work[0].index}"
            lost = WorkerLost(f"workers died {deaths} times while they worked on {label}")
            return {"unit": b"", "reply": ray.cloudpickle.dumps(lost)}
        reply = runner_for(token, packed).run(work, place)
        if last or isinstance(reply, PipelineError):
            return {"unit": b"", "reply": ray.cloudpickle.dumps(reply)}
        return {"unit": ray.cloudpickle.dumps(tuple(one.handed_on() for one in reply)), "reply": b""}

    if not booked.gpus:
        return dataset.map(run_row, num_cpus=booked.cpus)

    class Runner:
        """An actor keeps what its stages have set up; how many there are is for Ray Data to say."""

        def __call__(self, row: dict[str, bytes]) -> dict[str, bytes]:
            return run_row(row)

    gpus = ray.cluster_resources().get("GPU", 0.0)
    most = int(gpus / booked.gpus)
    if not most:
        raise PipelineError(
            f"a stage books {number(booked.gpus)} GPUs, and the Ray cluster has {number(gpus)}: add a node with them"
        )
    return dataset.map(Runner, num_cpus=booked.cpus, num_gpus=booked.gpus, concurrency=(1, most))
