"""Cosmos-Xenna: one of its stages for each group of ours, streaming or as a batch; workers that die are missed."""

import gc
import logging
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from paceline.curate.errors import PipelineError, WorkerLost
from paceline.curate.executors.ray_private import read_note, write_note
from paceline.curate.executors.ray_session import ray_session
from paceline.curate.executors.xenna_private import silence_monitor
from paceline.curate.stage import Stage, groups
from paceline.curate.task import Outcome, Task, Unit
from paceline.curate.work import Reply, UnitRunner, plan_units
from paceline.errors import MissingExtra, needs_extra

MODES = ("streaming", "batch")
# As often the work is begun: a node that dies takes several workers with it, in one run.
MAX_DEATHS = 3

# Ray misses a node that was killed after some fourteen seconds.
SETTLE_TIMEOUT_S = 120.0
# A probe starts a process, which takes a busy machine long; one at a node that died fails when Ray misses the node.
PROBE_TIMEOUT_S = 30.0


class XennaExecutor:
    """Runs neighbours that book the same as one stage of Xenna, which says how many workers each gets.

    Its streaming mode books workers for every stage at once.
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
        if find_spec("cosmos_xenna") is None:
            raise MissingExtra("the xenna executor", "xenna")  # of which Ray is a part
        # Ray is connected before Xenna looks for a cluster: so it takes this one and does not search the machine,
        # where it would stop at the sight of two.
        with ray_session() as ray:
            for reply in _run_until_done(ray, rest, units, self.mode):
                if isinstance(reply, PipelineError):
                    raise reply
                yield from reply


def _run_until_done(ray: Any, stages: Sequence[Stage], units: Sequence[Unit], mode: str) -> list[Reply]:
    """All replies; Xenna gives up when a worker dies and keeps nothing, so everything is done again."""
    notes = WorkNotes(uuid4().hex)
    xenna = _import_xenna()
    said = ""
    for attempt in range(MAX_DEATHS):
        try:
            # Who works on what is only noted when it has begun to matter.
            return _run(xenna, stages, units, mode, notes if attempt else None)
        except (ray.exceptions.RayError, RuntimeError) as error:
            if (death := death_behind(ray, error)) is None:
                raise
            where = notes.read(getattr(death, "actor_id", None)) or f"one of {len(units)} units"
            lines = str(death).strip().splitlines()
            said = f"while one worked on {where}: {lines[-1 if isinstance(death, OSError) else 0]}"
            # They hold on to the actors of the run, which would keep their CPUs.
            del death
        gc.collect()
        settle(ray)
    raise WorkerLost(f"workers of Xenna died in {MAX_DEATHS} runs, at last {said}")


class WorkNotes:
    """What each actor works on, kept by the cluster so that it outlives the actor."""

    def __init__(self, token: str) -> None:
        self.token = token

    def write(self, unit: Unit) -> None:
        import ray

        write_note(f"{self.token}:{ray.get_runtime_context().get_actor_id()}", unit.label)

    def read(self, actor_id: str | None) -> str:
        return read_note(f"{self.token}:{actor_id}")


def _import_xenna() -> Any:
    with needs_extra("xenna", "the xenna executor"):
        from cosmos_xenna.pipelines import v1
        from loguru import logger
    # It tells of each of its steps, and Ray of its connecting again; a run that works is to be quiet.
    logger.disable("cosmos_xenna")
    silence_monitor()
    logging.getLogger("ray._private.worker").setLevel(logging.ERROR)
    return v1


def _run(
    xenna: Any, stages: Sequence[Stage], units: Sequence[Unit], mode: str, notes: WorkNotes | None
) -> list[Reply]:
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
    parts = groups(stages)
    ours = [_xenna_stage(xenna, parts, place, notes) for place in range(len(parts))]
    spec = xenna.PipelineSpec(input_data=list(units), stages=ours, config=config)
    return xenna.run_pipeline(spec) or []


def _xenna_stage(xenna: Any, parts: Sequence[Sequence[Stage]], place: int, notes: WorkNotes | None) -> Any:
    booked = parts[place][0].resources
    last = place == len(parts) - 1

    class UnitStage(xenna.Stage):  # type: ignore[misc]
        """Made here because its base class is only known when Xenna is installed."""

        @property
        def stage_batch_size(self) -> int:
            return 1

        @property
        def required_resources(self) -> Any:
            return xenna.Resources(cpus=booked.cpus, gpus=booked.gpus)

        def setup(self, worker_metadata: Any) -> None:
            self._runner = UnitRunner(parts)

        def process_data(self, in_data: list[Any]) -> list[Any] | None:
            return [self._run(work) for work in in_data]

        def _run(self, work: Any) -> Any:
            """The work for the next stage, or the reply; an error goes through to the end."""
            if isinstance(work, PipelineError):
                return work
            if notes is not None:
                notes.write(work if isinstance(work, Unit) else work[0])
            reply = self._runner.run(work, place)
            if last or isinstance(reply, PipelineError):
                return reply
            return tuple(outcome.handed_on() for outcome in reply)

    return UnitStage()


def death_behind(ray: Any, error: BaseException | None) -> BaseException | None:
    """What tells of a worker or node that died, among the causes of an error."""
    kinds = ray.exceptions
    deaths = (
        kinds.RayActorError,
        kinds.NodeDiedError,
        kinds.ObjectLostError,
        kinds.OutOfMemoryError,
        kinds.TaskUnschedulableError,
        kinds.WorkerCrashedError,
    )
    while error is not None and not isinstance(error, deaths) and not _is_cut_off(ray, error):
        error = error.__cause__
    return error


def _is_cut_off(ray: Any, error: BaseException) -> bool:
    """Whether a worker told, before it died too, that its node was gone; what a stage raises comes as a value."""
    return isinstance(error, ray.exceptions.RayTaskError) and isinstance(error, OSError)


def settle(ray: Any) -> None:
    """Wait until every node that the cluster lists answers, so that none is counted on that is gone."""
    deadline = monotonic() + SETTLE_TIMEOUT_S
    while not _all_answer(ray) and monotonic() < deadline:
        sleep(1.0)


def _all_answer(ray: Any) -> bool:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe = ray.remote(num_cpus=0, max_retries=0)(_answer)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    there = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    try:
        ray.get([probe.options(scheduling_strategy=at).remote() for at in there], timeout=PROBE_TIMEOUT_S)
    except ray.exceptions.RayError:
        return False
    return True


def _answer() -> None: ...
