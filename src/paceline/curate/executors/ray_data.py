"""Ray Data: units are rows of a dataset, and one map does all stages."""

import logging
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from paceline.curate.errors import PipelineError
from paceline.curate.executors.ray_session import ray_session
from paceline.curate.executors.remote_work import Reply, runner_for
from paceline.curate.stage import Stage
from paceline.curate.task import Outcome, Task
from paceline.curate.work import plan_units
from paceline.errors import MissingExtra


class RayDataExecutor:
    """Runs the stages as tasks of Ray Data, which streams and does again what a dead node held."""

    name = "ray_data"

    def __init__(self, *, tasks_per_unit: int = 64) -> None:
        if tasks_per_unit < 1:
            raise PipelineError("ray_data executor: tasks_per_unit must be at least 1")
        self.tasks_per_unit = tasks_per_unit

    def run(self, stages: Sequence[Stage], tasks: Iterable[Task]) -> Iterator[Outcome]:
        units, rest = plan_units(stages, tasks, tasks_per_unit=self.tasks_per_unit)
        rows = [{"unit": pickle.dumps(unit)} for unit in units]
        if not rows:
            return
        with ray_session() as ray:
            for row in _dataset(ray, rest, rows).iter_rows():
                reply: Reply = pickle.loads(row["reply"])  # noqa: S301 - made by our own workers
                if isinstance(reply, PipelineError):
                    raise reply
                yield from reply


def _dataset(ray: Any, stages: Sequence[Stage], rows: list[dict[str, bytes]]) -> Any:
    try:
        import ray.data
    except ModuleNotFoundError:
        raise MissingExtra("the ray_data executor", "ray") from None
    # Its progress goes to the log as information; a run that works is to be quiet.
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    token, packed = uuid4().hex, pickle.dumps(stages)

    def run_row(row: dict[str, bytes]) -> dict[str, bytes]:
        reply = runner_for(token, packed).run(pickle.loads(row["unit"]))  # noqa: S301 - made by our own driver
        return {"reply": pickle.dumps(reply)}

    cpus = max(stage.resources.cpus for stage in stages)
    return ray.data.from_items(rows, override_num_blocks=len(rows)).map(run_row, num_cpus=cpus)
