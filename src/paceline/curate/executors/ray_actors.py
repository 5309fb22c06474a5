"""Pools of Ray actors with back-pressure; units of dead actors and nodes are done again elsewhere."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from paceline.curate.errors import PipelineError, WorkerLost
from paceline.curate.executors.flow import UNITS_PER_WORKER, Flow, Job
from paceline.curate.executors.ray_session import ray_session
from paceline.curate.stage import Resources, Stage, groups
from paceline.curate.task import Outcome, Task, Unit
from paceline.curate.work import Reply, UnitRunner, plan_units
from paceline.numbers import number

# A node that dies takes several actors with it, and a unit may move to another that is dying too.
MAX_DEATHS = 4


class RayActorExecutor:
    """Runs the stages in actors: one for each CPU of the cluster, unless `actors` says otherwise.

    Stages that book GPUs have actors of their own, as many as the cluster's GPUs have room for.
    """

    name = "ray_actors"

    def __init__(self, *, actors: int | None = None, tasks_per_unit: int = 64) -> None:
        if tasks_per_unit < 1 or (actors is not None and actors < 1):
            raise PipelineError("ray_actors executor: actors and tasks_per_unit must be at least 1")
        self.actors = actors
        self.tasks_per_unit = tasks_per_unit

    def run(self, stages: Sequence[Stage], tasks: Iterable[Task]) -> Iterator[Outcome]:
        units, rest = plan_units(stages, tasks, tasks_per_unit=self.tasks_per_unit)
        with ray_session() as ray:
            parts = groups(rest)
            pool = _Pool(ray, parts, _crews(ray, parts, self.actors))
            try:
                yield from pool.run(units)
            finally:
                pool.end()


@dataclass(eq=False, slots=True, kw_only=True)
class _Crew:
    """The actors of the groups that book the same, and the calls they hold.

    An actor gets units only once it is up: the replacement of one whose node died may wait for a CPU for
    ever, while the others go on.
    """

    booked: Resources
    served: tuple[int, ...]
    size: int = 0
    starting: dict[Any, Any] = field(default_factory=dict)
    held: dict[Any, list[Job]] = field(default_factory=dict)


def _crews(ray: Any, parts: Sequence[Sequence[Stage]], actors: int | None) -> list[_Crew]:
    """A crew for each kind of booking; those with GPUs take the CPUs they need first, the others share the rest."""
    served: dict[Resources, list[int]] = {}
    for place, group in enumerate(parts):
        served.setdefault(group[0].resources, []).append(place)
    crews = [_Crew(booked=booked, served=tuple(places)) for booked, places in served.items()]
    has = ray.cluster_resources()
    cpus, gpus = has.get("CPU", 1.0), has.get("GPU", 0.0)
    shares = sum(1 for crew in crews if not crew.booked.gpus)
    for crew in sorted(crews, key=lambda one: -one.booked.gpus):
        each = max(crew.booked.cpus, 0.01)
        if crew.booked.gpus:
            crew.size = min(int(gpus / crew.booked.gpus), int((cpus - shares) / each) or 1)
            cpus -= crew.size * each
            if not crew.size:
                stage = parts[crew.served[0]][0].name
                booked = number(crew.booked.gpus)
                raise PipelineError(
                    f"stage {stage} books {booked} GPUs, and the Ray cluster has {number(gpus)}: add a node with them"
                )
        else:
            crew.size = actors or max(1, int(cpus / shares / each))
    return crews


class _Pool:
    """Crews of actors, fed from one flow of units."""

    def __init__(self, ray: Any, parts: Sequence[Sequence[Stage]], crews: Sequence[_Crew]) -> None:
        self._ray, self._parts, self._crews = ray, parts, crews
        self._calls: dict[Any, tuple[Job, Any, _Crew, Any]] = {}

    def run(self, units: Iterator[Unit]) -> Iterator[Outcome]:
        most = sum(crew.size for crew in self._crews)
        first = list(islice(units, most))
        sizes = {place: crew.size for crew in self._crews for place in crew.served}
        self._flow = Flow(chain(first, units), [sizes[place] for place in range(len(self._parts))])
        for crew in self._crews:
            for _ in range(min(crew.size, len(first))):
                self._start(crew)
        while self._hand_out() or (first and not self._flow.is_over()):
            starting = [call for crew in self._crews for call in crew.starting]
            done, _ = self._ray.wait([*self._calls, *starting], num_returns=1)
            for call in done:
                if call in self._calls:
                    yield from self._collect(call)
                else:
                    self._welcome(call)

    def _start(self, crew: _Crew) -> None:
        kind = self._ray.remote(UnitRunner).options(num_cpus=crew.booked.cpus, num_gpus=crew.booked.gpus)
        actor = kind.remote(self._parts)
        crew.starting[actor.ready.remote()] = actor

    def _hand_out(self) -> bool:
        """Fill up the actors that are up, the emptiest first; whether there is a call to wait for."""
        for depth in range(UNITS_PER_WORKER):
            for crew in self._crews:
                for actor, held in crew.held.items():
                    if len(held) > depth:
                        continue
                    job = self._flow.next(crew.served)
                    if job is None:
                        break
                    held.append(job)
                    self._call(actor, job, crew)
        return bool(self._calls)

    def _call(self, actor: Any, job: Job, crew: _Crew) -> None:
        """What goes from group to group stays in the cluster; the driver has a reference to it."""
        if job.group == len(self._parts) - 1:
            self._calls[actor.run.remote(job.work, job.group)] = job, actor, crew, None
        else:
            told, made = actor.run_on.options(num_returns=2).remote(job.work, job.group)
            self._calls[told] = job, actor, crew, made

    def _welcome(self, call: Any) -> None:
        crew = next(one for one in self._crews if call in one.starting)
        actor = crew.starting.pop(call)
        try:
            self._ray.get(call)
        except self._ray.exceptions.RayActorError as error:
            if not crew.held and not crew.starting:
                raise WorkerLost(f"no actor can be started: {_first_line(error)}") from error
            return
        crew.held[actor] = []

    def _collect(self, call: Any) -> Iterator[Outcome]:
        job, actor, crew, made = self._calls.pop(call)
        errors = self._ray.exceptions
        try:
            reply: Reply | None = self._ray.get(call)
        except (errors.RayActorError, errors.ObjectLostError, errors.RayTaskError) as error:
            # What a stage raises comes as a value: this is about an actor, or about what it was given.
            self._take_back(job, actor, crew, error)
            return
        if isinstance(reply, PipelineError):
            raise reply
        if actor in crew.held:
            crew.held[actor].remove(job)
        self._flow.done(job)
        if made is None:
            yield from reply or ()
        else:
            self._flow.hand_on(job, made)

    def _take_back(self, job: Job, actor: Any, crew: _Crew, error: Exception) -> None:
        if isinstance(error, self._ray.exceptions.RayActorError):
            self._flow.give_back(job)
            self._bury(crew, actor, error)
            return
        if actor in crew.held:
            crew.held[actor].remove(job)
        if job.deaths + 1 >= MAX_DEATHS:
            raise WorkerLost(
                f"what was made of {job.unit.label} was lost {MAX_DEATHS} times: {_first_line(error)}"
            ) from error
        self._flow.begin_again(job)

    def _bury(self, crew: _Crew, actor: Any, error: Exception) -> None:
        """Blame the first unit a dead actor held, which it was at work on; start another in its place."""
        held = crew.held.pop(actor, None)
        if held is None:
            return
        self._ray.kill(actor)
        held[0].deaths += 1
        if held[0].deaths >= MAX_DEATHS:
            raise WorkerLost(
                f"actors died {MAX_DEATHS} times while they worked on {held[0].unit.label}: {_first_line(error)}"
            ) from error
        self._start(crew)

    def end(self) -> None:
        for crew in self._crews:
            for actor in [*crew.held, *crew.starting.values()]:
                self._ray.kill(actor)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
