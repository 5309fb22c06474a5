"""A pool of Ray actors with back-pressure; units of dead actors and nodes are done again elsewhere."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from paceline.curate.errors import PipelineError, WorkerLost
from paceline.curate.executors.ray_session import ray_session
from paceline.curate.executors.remote_work import UnitRunner
from paceline.curate.stage import Stage
from paceline.curate.task import Outcome, Task, Unit
from paceline.curate.work import plan_units

UNITS_PER_ACTOR = 2
# A node that dies takes several actors with it, and a unit may move to another that is dying too.
MAX_DEATHS = 4


class RayActorExecutor:
    """Runs the stages in actors, one a CPU of the cluster unless `actors` says otherwise."""

    name = "ray_actors"

    def __init__(self, *, actors: int | None = None, tasks_per_unit: int = 64) -> None:
        if tasks_per_unit < 1 or (actors is not None and actors < 1):
            raise PipelineError("ray_actors executor: actors and tasks_per_unit must be at least 1")
        self.actors = actors
        self.tasks_per_unit = tasks_per_unit

    def run(self, stages: Sequence[Stage], tasks: Iterable[Task]) -> Iterator[Outcome]:
        units, rest = plan_units(stages, tasks, tasks_per_unit=self.tasks_per_unit)
        with ray_session() as ray:
            pool = _Pool(ray, rest, self.actors)
            try:
                for reply in pool.run(units):
                    if isinstance(reply, PipelineError):
                        raise reply
                    yield from reply
            finally:
                pool.end()


class _Pool:
    """Actors and the calls they hold."""

    def __init__(self, ray: Any, stages: Sequence[Stage], size: int | None) -> None:
        self._ray = ray
        cpus = max(stage.resources.cpus for stage in stages)
        gpus = max(stage.resources.gpus for stage in stages)
        actor = ray.remote(UnitRunner).options(num_cpus=cpus, num_gpus=gpus, max_restarts=-1)
        self._size = size or max(1, int(ray.cluster_resources().get("CPU", 1) / max(cpus, 0.01)))
        self._make: Callable[[], Any] = lambda: actor.remote(stages)
        self._actors: list[Any] = []
        self._calls: dict[Any, tuple[Unit, int]] = {}
        self._returned: list[Unit] = []
        self._deaths: Counter[int] = Counter()

    def run(self, units: Iterator[Unit]) -> Iterator[Any]:
        while True:
            self._hand_out(units)
            if not self._calls:
                return
            done, _ = self._ray.wait(list(self._calls), num_returns=1)
            for call in done:
                unit, slot = self._calls.pop(call)
                yield from self._collect(call, unit, slot)

    def _hand_out(self, units: Iterator[Unit]) -> None:
        held = Counter(slot for _, slot in self._calls.values())
        for depth in range(UNITS_PER_ACTOR):
            for slot in range(self._size):
                if held[slot] > depth:
                    continue
                unit = self._returned.pop() if self._returned else next(units, None)
                if unit is None:
                    return
                if slot == len(self._actors):
                    self._actors.append(self._make())
                self._calls[self._actors[slot].run.remote(unit)] = unit, slot
                held[slot] += 1

    def _collect(self, call: Any, unit: Unit, slot: int) -> Iterator[Any]:
        errors = self._ray.exceptions
        try:
            yield self._ray.get(call)
        except (errors.RayActorError, errors.ObjectLostError, errors.NodeDiedError) as error:
            self._deaths[unit.index] += 1
            if self._deaths[unit.index] >= MAX_DEATHS:
                raise WorkerLost(
                    f"actors died {MAX_DEATHS} times while they worked on {unit.label}: {_first_line(error)}"
                ) from error
            self._returned.append(unit)
            self._actors[slot] = self._make()

    def end(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
