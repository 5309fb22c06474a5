"""All cores of this machine, without any engine: worker processes that take units of work over pipes."""

import gc
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
from paceline.curate.stage import Stage
from paceline.curate.task import Outcome, Task, Unit
from paceline.curate.work import Sweeper, collector_paused, plan_units, run_unit, set_up
from paceline.record.capacity import whole_cpus

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

# A worker has the next unit in its pipe while it works on one, so that it never waits for the driver.
UNITS_PER_WORKER = 2
# A unit whose worker died is tried once more: the machine may have been short of memory for a moment.
MAX_DEATHS = 2


class LocalExecutor:
    """Runs the stages in worker processes, or in this one if there is one unit of work or one worker."""

    name = "local"

    def __init__(
        self, *, workers: int | None = None, tasks_per_unit: int = 64, start_method: str | None = None
    ) -> None:
        if tasks_per_unit < 1 or (workers is not None and workers < 1):
            raise PipelineError("local executor: workers and tasks_per_unit must be at least 1")
        self.workers = workers or whole_cpus()
        self.tasks_per_unit = tasks_per_unit
        self.start_method = start_method

    def run(self, stages: Sequence[Stage], tasks: Iterable[Task]) -> Iterator[Outcome]:
        units, rest = plan_units(stages, tasks, tasks_per_unit=self.tasks_per_unit)
        first = list(islice(units, 2))
        if self.workers == 1 or len(first) < 2:
            return _run_here(rest, chain(first, units))
        return _Pool(rest, self.workers, self.start_method or _start_method()).run(chain(first, units))


def _start_method() -> str:
    """Fork is ten times faster than spawn, and safe only while this process has one thread."""
    return "fork" if len(list(Path("/proc/self/task").iterdir())) == 1 else "spawn"


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
class _Job:
    """A unit on its way: how many of its parts are already here, and how many workers died over it."""

    unit: Unit
    parts: int = 0
    deaths: int = 0


@dataclass(slots=True)
class _Worker:
    process: "BaseProcess"
    pipe: "Connection"
    jobs: deque[_Job] = field(default_factory=deque)


class _Pool:
    """Workers and the units they hold; a unit is given back to the queue when its worker dies."""

    def __init__(self, stages: Sequence[Stage], size: int, start_method: str) -> None:
        import multiprocessing

        self._context: Any = multiprocessing.get_context(start_method)
        self._stages = stages
        self._size = size
        self._workers: list[_Worker] = []
        self._returned: deque[_Job] = deque()

    def run(self, units: Iterator[Unit]) -> Iterator[Outcome]:
        from multiprocessing.connection import wait

        try:
            while True:
                self._hand_out(units)
                busy = [worker for worker in self._workers if worker.jobs]
                if not busy:
                    return
                ready = wait([worker.pipe for worker in busy])
                for worker in busy:
                    if worker.pipe in ready and (outcome := self._receive(worker)) is not None:
                        yield outcome
        finally:
            self._end()

    def _hand_out(self, units: Iterator[Unit]) -> None:
        for depth in range(UNITS_PER_WORKER):
            for slot in range(self._size):
                if slot < len(self._workers) and len(self._workers[slot].jobs) > depth:
                    continue
                job = self._returned.popleft() if self._returned else self._next(units)
                if job is None:
                    return
                if slot == len(self._workers):
                    self._start()
                self._give(self._workers[slot], job)

    def _next(self, units: Iterator[Unit]) -> _Job | None:
        unit = next(units, None)
        return None if unit is None else _Job(unit)

    def _give(self, worker: _Worker, job: _Job) -> None:
        worker.jobs.append(job)
        try:
            worker.pipe.send((job.unit, job.parts))
        except OSError:
            self._bury(worker)

    def _start(self) -> None:
        ours, theirs = self._context.Pipe()
        # A forked worker inherits our ends of all pipes; it closes them, to notice when we are gone.
        inherited = [ours, *(worker.pipe for worker in self._workers)] if self._forks else []
        process = self._context.Process(target=_work, args=(theirs, self._stages, inherited), daemon=True)
        process.start()
        theirs.close()
        self._workers.append(_Worker(process, ours))

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
            worker.jobs.popleft()
            return None
        worker.jobs[0].parts += 1
        outcome: Outcome = message
        return outcome

    def _bury(self, worker: _Worker) -> None:
        """Take a dead worker's units back; parts that have arrived are skipped when a unit is done again."""
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)
        self._returned.extend(worker.jobs)
        job = worker.jobs[0]
        job.deaths += 1
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


def _work(pipe: "Connection", stages: Sequence[Stage], inherited: Sequence["Connection"]) -> None:
    """The life of a worker: ends when the driver closes the pipe or is gone."""
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Outcomes hold no cycles, and passes over them cost more than making them.
    gc.freeze()
    gc.disable()
    try:
        set_up(stages)
        _serve(pipe, stages)
    except PipelineError as error:
        pipe.send(error)
    except OSError:
        return


def _serve(pipe: "Connection", stages: Sequence[Stage]) -> None:
    # Units are taken in by a thread: were both sides to send something large at the same time, neither would read.
    inbox: SimpleQueue[tuple[Unit, int] | None] = SimpleQueue()
    Thread(target=_take_in, args=(pipe, inbox), daemon=True).start()
    sweeper = Sweeper()
    while True:
        waiting = perf_counter()
        if (given := inbox.get()) is None:
            return
        unit, skip = given
        for outcome in run_unit(stages, unit, skip=skip, idle_s=perf_counter() - waiting):
            pipe.send(outcome)
        pipe.send(None)
        sweeper.unit_done()


def _take_in(pipe: "Connection", inbox: "SimpleQueue[tuple[Unit, int] | None]") -> None:
    try:
        while True:
            inbox.put(pipe.recv())
    except (EOFError, OSError):
        inbox.put(None)
