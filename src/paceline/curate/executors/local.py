"""All cores of this machine, without any engine: worker processes that take units of work over pipes."""

import gc
import os
import pickle
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

from paceline.curate.errors import PipelineError, WorkerLost
from paceline.curate.executors.flow import UNITS_PER_WORKER, Flow, Job
from paceline.curate.stage import Resources, Stage, groups
from paceline.curate.task import Outcome, Task, Unit
from paceline.curate.work import Sweeper, UnitRunner, collector_paused, plan_units, run_unit, set_up
from paceline.numbers import number
from paceline.record.capacity import whole_cpus

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

# A unit whose worker died is tried once more: the machine may have been short of memory for a moment.
MAX_DEATHS = 2
GPU_FILES = Path("/proc/driver/nvidia/gpus")


class LocalExecutor:
    """Runs the stages in worker processes, or in this one if there is one unit of work or one worker.

    `gpus` is how many GPUs stages may book; by default as many as there are.
    """

    name = "local"

    def __init__(
        self,
        *,
        workers: int | None = None,
        gpus: int | None = None,
        tasks_per_unit: int = 64,
        start_method: str | None = None,
    ) -> None:
        if tasks_per_unit < 1 or (workers is not None and workers < 1):
            raise PipelineError("local executor: workers and tasks_per_unit must be at least 1")
        self.workers = workers or whole_cpus()
        self.gpus = gpus
        self.tasks_per_unit = tasks_per_unit
        self.start_method = start_method

    def run(self, stages: Sequence[Stage], tasks: Iterable[Task]) -> Iterator[Outcome]:
        units, rest = plan_units(stages, tasks, tasks_per_unit=self.tasks_per_unit)
        parts = groups(rest)
        first = list(islice(units, 2))
        crews = _crews(parts, self.workers, _visible_gpus() if self.gpus is None else _numbered(self.gpus))
        if len(parts) == 1 and not parts[0][0].resources.gpus and (self.workers == 1 or len(first) < 2):
            return _run_here(rest, chain(first, units))
        return _Pool(parts, crews, self.start_method or _start_method()).run(chain(first, units))


def _start_method() -> str:
    """Fork is ten times faster than spawn, and safe only while this process has one thread."""
    return "fork" if len(list(Path("/proc/self/task").iterdir())) == 1 else "spawn"


def _visible_gpus() -> list[str]:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name.strip()]
    return _numbered(len(list(GPU_FILES.iterdir())) if GPU_FILES.is_dir() else 0)


def _numbered(gpus: int) -> list[str]:
    return [str(number) for number in range(gpus)]


@dataclass(frozen=True, slots=True)
class _Crew:
    """The workers of the groups that book the same: how many, and which GPUs each of them sees."""

    served: tuple[int, ...]
    size: int
    gpus: tuple[str, ...] = ()


def _crews(parts: Sequence[Sequence[Stage]], workers: int, gpus: Sequence[str]) -> list[_Crew]:
    served: dict[Resources, list[int]] = {}
    for place, group in enumerate(parts):
        served.setdefault(group[0].resources, []).append(place)
    return [_crew(booked, tuple(places), parts, workers, gpus) for booked, places in served.items()]


def _crew(
    booked: Resources,
    served: tuple[int, ...],
    parts: Sequence[Sequence[Stage]],
    workers: int,
    gpus: Sequence[str],
) -> _Crew:
    fits = max(1, int(workers / max(booked.cpus, 1.0)))
    if not booked.gpus:
        return _Crew(served, min(workers, fits))
    if booked.gpus > len(gpus):
        stage = parts[served[0]][0].name
        raise PipelineError(
            f"stage {stage} books {number(booked.gpus)} GPUs, and {len(gpus)} are here; "
            "LocalExecutor(gpus=…) gives another number"
        )
    if booked.gpus < 1:
        shares = [gpu for gpu in gpus for _ in range(int(1 / booked.gpus))]
    else:
        each = int(booked.gpus)
        shares = [",".join(gpus[begin : begin + each]) for begin in range(0, len(gpus) - each + 1, each)]
    return _Crew(served, len(shares), tuple(shares))


def _run_here(stages: Sequence[Stage], units: Iterator[Unit]) -> Iterator[Outcome]:
    set_up(stages)
    sweeper = Sweeper()
    for unit in units:
        outcomes = run_unit(stages, unit)
        while True:
            with collector_paused():
                outcome = next(outcomes, None)
            if outcome is None:
                break
            yield outcome
        # Whoever keeps all results has turned the collector off: passes over them would be long.
        if gc.isenabled():
            sweeper.unit_done()


@dataclass(slots=True)
class _Worker:
    process: "BaseProcess"
    pipe: "Connection"
    crew: _Crew
    gpu: str
    jobs: deque[Job] = field(default_factory=deque)


class _Pool:
    """Workers and the jobs they hold; a job is given back to the flow when its worker dies."""

    def __init__(self, parts: Sequence[Sequence[Stage]], crews: Sequence[_Crew], start_method: str) -> None:
        import multiprocessing

        self._context: Any = multiprocessing.get_context(start_method)
        self._parts = parts
        self._crews = crews
        self._workers: list[_Worker] = []

    def run(self, units: Iterator[Unit]) -> Iterator[Outcome]:
        from multiprocessing.connection import wait

        sizes = {place: crew.size for crew in self._crews for place in crew.served}
        self._flow = Flow(units, [sizes[place] for place in range(len(self._parts))])
        try:
            while True:
                self._hand_out()
                busy = [worker for worker in self._workers if worker.jobs]
                if not busy:
                    return
                # What is not read stays in a worker's pipe until it stops by itself: that bounds what waits here.
                held = [worker for worker in busy if self._flow.is_full(worker.jobs[0].group + 1)]
                free = [worker for worker in busy if worker not in held] or busy
                ready = wait([worker.pipe for worker in free])
                for worker in free:
                    if worker.pipe in ready and (outcome := self._receive(worker)) is not None:
                        yield outcome
        finally:
            self._end()

    def _hand_out(self) -> None:
        for depth in range(UNITS_PER_WORKER):
            for crew in self._crews:
                self._fill(crew, depth)

    def _fill(self, crew: _Crew, depth: int) -> None:
        for slot in range(crew.size):
            crewed = [worker for worker in self._workers if worker.crew is crew]
            if slot < len(crewed) and len(crewed[slot].jobs) > depth:
                continue
            job = self._flow.next(crew.served)
            if job is None:
                return
            if slot >= len(crewed):
                crewed.append(self._start(crew, {worker.gpu for worker in crewed}))
            self._give(crewed[slot], job)

    def _give(self, worker: _Worker, job: Job) -> None:
        worker.jobs.append(job)
        try:
            worker.pipe.send((job.group, job.work, job.parts))
        except OSError:
            self._bury(worker)

    def _start(self, crew: _Crew, taken: set[str]) -> _Worker:
        ours, theirs = self._context.Pipe()
        gpu = next((one for one in crew.gpus if one not in taken), crew.gpus[-1] if crew.gpus else "")
        # A forked worker inherits our ends of all pipes; it closes them, to notice when we are gone.
        inherited = [ours, *(worker.pipe for worker in self._workers)] if self._forks else []
        process = self._context.Process(
            target=_work, args=(theirs, self._parts, crew.served[0], gpu, inherited), daemon=True
        )
        process.start()
        theirs.close()
        worker = _Worker(process, ours, crew, gpu)
        self._workers.append(worker)
        return worker

    @property
    def _forks(self) -> bool:
        return bool(self._context.get_start_method() == "fork")

    def _receive(self, worker: _Worker) -> Outcome | None:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return None
        if isinstance(message, PipelineError):
            raise message
        if message is None:
            self._flow.done(worker.jobs.popleft())
            return None
        job = worker.jobs[0]
        job.parts += 1
        if isinstance(message, Outcome):
            return message
        self._flow.hand_on(job, message)
        return None

    def _bury(self, worker: _Worker) -> None:
        """Take a dead worker's jobs back; parts that have arrived are skipped when a unit is done again."""
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)
        job = worker.jobs[0]
        job.deaths += 1
        for held in reversed(worker.jobs):
            self._flow.give_back(held)
        if job.deaths >= MAX_DEATHS:
            raise WorkerLost(
                f"a worker {_cause_of_death(worker.process.exitcode)} while it worked on {job.unit.label}, "
                f"for the {MAX_DEATHS}nd time; if memory is short, use fewer workers or smaller ranges"
            )

    def _end(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()


def _cause_of_death(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"was killed by {signal.Signals(-exitcode).name}"
    return f"ended with exit code {exitcode}"


def _work(
    pipe: "Connection",
    parts: Sequence[Sequence[Stage]],
    first: int,
    gpu: str,
    inherited: Sequence["Connection"],
) -> None:
    """The life of a worker: ends when the driver closes the pipe or is gone."""
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    # Outcomes hold no cycles, and passes over them cost more than making them.
    gc.freeze()
    gc.disable()
    try:
        runner = UnitRunner(parts)
        runner.set_up(first)
        _serve(pipe, parts, runner)
    except PipelineError as error:
        pipe.send(error)
    except OSError:
        return


def _serve(pipe: "Connection", parts: Sequence[Sequence[Stage]], runner: UnitRunner) -> None:
    # Units are taken in by a thread: were both sides to send something large at the same time, neither would read.
    inbox: SimpleQueue[tuple[int, Unit | bytes, int] | None] = SimpleQueue()
    Thread(target=_take_in, args=(pipe, inbox), daemon=True).start()
    sweeper = Sweeper()
    while True:
        waiting = perf_counter()
        if (given := inbox.get()) is None:
            return
        group, work, skip = given
        unit = work if isinstance(work, Unit) else pickle.loads(work)  # noqa: S301 - made by another worker
        last = group == len(parts) - 1
        runner.set_up(group)
        idle_s = perf_counter() - waiting
        for outcome in run_unit(parts[group], unit, skip=skip, idle_s=idle_s, last=last):
            if last or not outcome.tasks:
                pipe.send(runner.packed(outcome))
            else:
                # The driver passes it on as it is.
                pipe.send(pickle.dumps(outcome.handed_on(), protocol=5))
        pipe.send(None)
        sweeper.unit_done()


def _take_in(pipe: "Connection", inbox: "SimpleQueue[tuple[int, Unit | bytes, int] | None]") -> None:
    try:
        while True:
            inbox.put(pipe.recv())
    except (EOFError, OSError):
        inbox.put(None)
