"""A pool of Ray actors with back-pressure; units of dead actors and nodes are done again elsewhere."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from paceline.curate.errors import PipelineError, WorkerLost
from paceline.curate.executors.ray_session import ray_session
from paceline.curate.stage import Stage
from paceline.curate.task import Outcome, Task, Unit
from paceline.curate.work import UnitRunner, plan_units

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
    """Actors and the calls they hold.

    An actor gets units only once it is up: the replacement of one whose node died may wait for a CPU for
    ever, while the others go on.
    """

    def __init__(self, ray: Any, stages: Sequence[Stage], size: int | None) -> None:
        cpus = max(stage.resources.cpus for stage in stages)
        gpus = max(stage.resources.gpus for stage in stages)
        actor = ray.remote(UnitRunner).options(num_cpus=cpus, num_gpus=gpus)
        self._ray = ray
        self._size = size or max(1, int(ray.cluster_resources().get("CPU", 1) / max(cpus, 0.01)))
        self._make: Callable[[], Any] = lambda: actor.remote(stages)
        self._starting: dict[Any, Any] = {}
        self._held: dict[Any, list[Unit]] = {}
        self._calls: dict[Any, tuple[Unit, Any]] = {}
        self._returned: list[Unit] = []
        self._deaths: Counter[int] = Counter()

    def run(self, units: Iterator[Unit]) -> Iterator[Any]:
        self._returned = list(islice(units, self._size))[::-1]
        for _ in self._returned:
            self._start()
        while self._hand_out(units):
            done, _ = self._ray.wait([*self._calls, *self._starting], num_returns=1)
            for call in done:
                if call in self._calls:
                    yield from self._collect(call)
                else:
                    self._welcome(call)

    def _start(self) -> None:
        actor = self._make()
        self._starting[actor.ready.remote()] = actor

    def _hand_out(self, units: Iterator[Unit]) -> bool:
        """Fill up the actors that are up, the emptiest first; whether there is anything to wait for."""
        for depth in range(UNITS_PER_ACTOR):
            for actor, held in self._held.items():
                if len(held) > depth:
                    continue
                unit = self._returned.pop() if self._returned else next(units, None)
                if unit is None:
                    return bool(self._calls)
                held.append(unit)
                self._calls[actor.run.remote(unit)] = unit, actor
        return bool(self._calls or self._returned)

    def _welcome(self, call: Any) -> None:
        actor = self._starting.pop(call)
        try:
            self._ray.get(call)
        except self._ray.exceptions.RayActorError as error:
            if not self._held and not self._starting:
                raise WorkerLost(f"no actor can be started: {_first_line(error)}") from error
            return
        self._held[actor] = []

    def _collect(self, call: Any) -> Iterator[Any]:
        unit, actor = self._calls.pop(call)
        errors = self._ray.exceptions
        try:
            reply = self._ray.get(call)
        except (errors.RayActorError, errors.ObjectLostError) as error:
            self._returned.append(unit)
            self._bury(actor, error)
            return
        if actor in self._held:
            self._held[actor].remove(unit)
        yield reply

    def _bury(self, actor: Any, error: Exception) -> None:
        """Blame the first unit a dead actor held, which it was at work on; start another in its place."""
        held = self._held.pop(actor, None)
        if held is None:
            return
        self._ray.kill(actor)
        self._deaths[held[0].index] += 1
        if self._deaths[held[0].index] >= MAX_DEATHS:
            raise WorkerLost(
                f"actors died {MAX_DEATHS} times while they worked on {held[0].label}: {_first_line(error)}"
            ) from error
        self._start()

    def end(self) -> None:
        for actor in [*self._held, *self._starting.values()]:
            self._ray.kill(actor)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
