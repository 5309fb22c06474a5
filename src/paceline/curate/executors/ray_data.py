"""Ray Data: units are rows of a dataset, and one map does all stages."""

import logging
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from paceline.curate.errors import PipelineError, WorkerLost
from paceline.curate.executors.ray_private import task_attempt
from paceline.curate.executors.ray_session import ray_session
from paceline.curate.stage import Stage
from paceline.curate.task import Outcome, Task, Unit
from paceline.curate.work import Reply, plan_units, runner_for
from paceline.errors import needs_extra

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
    token, packed = uuid4().hex, ray.cloudpickle.dumps(stages)

    def run_row(row: dict[str, bytes]) -> dict[str, bytes]:
        unit: Unit = pickle.loads(row["unit"])  # noqa: S301 - made by our own driver
        deaths = task_attempt()
        # Ray Data would try a unit that kills its workers for ever.
        if deaths >= MAX_DEATHS:
            lost = f"workers died {deaths} times while they worked on {unit.label}"
            return {"reply": ray.cloudpickle.dumps(WorkerLost(lost))}
        reply = runner_for(token, packed).run(unit)
        return {"reply": ray.cloudpickle.dumps(reply)}

    cpus = max(stage.resources.cpus for stage in stages)
    gpus = max(stage.resources.gpus for stage in stages)
    dataset = ray.data.from_items(rows, override_num_blocks=len(rows))
    return dataset.map(run_row, num_cpus=cpus, num_gpus=gpus or None)
