"""Cosmos-Xenna: units through one Xenna stage, streaming or as a batch."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from paceline.curate.errors import PipelineError
from paceline.curate.executors.ray_session import ray_session
from paceline.curate.executors.remote_work import Reply, UnitRunner
from paceline.curate.stage import Stage
from paceline.curate.task import Outcome, Task, Unit
from paceline.curate.work import plan_units
from paceline.errors import MissingExtra

MODES = ("streaming", "batch")


class XennaExecutor:
    """Runs all stages as one stage of Xenna.

    Its streaming mode books workers for every stage at once: one stage is what two CPUs have room for.
    """

    name = "xenna"

    def __init__(self, *, mode: str = "streaming", tasks_per_unit: int = 64) -> None:
        if mode not in MODES:
            raise PipelineError(f"xenna executor: mode is {mode!r}, not one of {', '.join(MODES)}")
        if tasks_per_unit < 1:
            raise PipelineError("xenna executor: tasks_per_unit must be at least 1")
        self.mode = mode
        self.tasks_per_unit = tasks_per_unit

    def run(self, stages: Sequence[Stage], tasks: Iterable[Task]) -> Iterator[Outcome]:
        listed, rest = plan_units(stages, tasks, tasks_per_unit=self.tasks_per_unit)
        units = list(listed)
        if not units:
            return
        # Its monitor asks the dashboard for actors. Ray is connected before Xenna looks for a cluster: so it
        # takes this one and does not search the machine, where it would stop at the sight of two.
        with ray_session(dashboard=True):
            for reply in _run(_import_xenna(), rest, units, self.mode):
                if isinstance(reply, PipelineError):
                    raise reply
                yield from reply


def _import_xenna() -> Any:
    try:
        from cosmos_xenna.pipelines import v1
        from loguru import logger
    except ModuleNotFoundError:
        raise MissingExtra("the xenna executor", "xenna") from None
    # It tells of each of its steps, and Ray of its connecting again; a run that works is to be quiet.
    logger.disable("cosmos_xenna")
    logging.getLogger("ray._private.worker").setLevel(logging.ERROR)
    return v1


def _run(xenna: Any, stages: Sequence[Stage], units: Sequence[Unit], mode: str) -> list[Reply]:
    quiet = xenna.VerbosityLevel.NONE
    streaming = mode == "streaming"
    config = xenna.PipelineConfig(
        execution_mode=xenna.ExecutionMode.STREAMING if streaming else xenna.ExecutionMode.BATCH,
        return_last_stage_outputs=True,
        cpu_allocation_percentage=1.0,
        num_run_attempts_python=2,
        actor_pool_verbosity_level=quiet,
        monitoring_verbosity_level=quiet,
        mode_specific=xenna.StreamingSpecificSpec(executor_verbosity_level=quiet) if streaming else None,
    )
    spec = xenna.PipelineSpec(input_data=list(units), stages=[_xenna_stage(xenna, stages)], config=config)
    return xenna.run_pipeline(spec) or []


def _xenna_stage(xenna: Any, stages: Sequence[Stage]) -> Any:
    cpus = max(stage.resources.cpus for stage in stages)
    gpus = max(stage.resources.gpus for stage in stages)

    class UnitStage(xenna.Stage):  # type: ignore[misc]
        """Made here because its base class is only known when Xenna is installed."""

        @property
        def stage_batch_size(self) -> int:
            return 1

        @property
        def required_resources(self) -> Any:
            return xenna.Resources(cpus=cpus, gpus=gpus)

        def setup(self, worker_metadata: Any) -> None:
            self._runner = UnitRunner(stages)

        def process_data(self, in_data: list[Unit]) -> list[Reply] | None:
            return [self._runner.run(unit) for unit in in_data]

    return UnitStage()
