"""Where the cases of a session run: on this machine, on a pool of machines, or wherever else an executor runs them."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

from paceline.model import Case, Plan, PoolSettings, Record, Status
from paceline.run import attempt
from paceline.run.context import Context, Stop, Write
from paceline.run.local.process import Warden
from paceline.run.scheduler import Grant, Ledger, Scheduler, machine_capacity
from paceline.run.sharing import shared_processes

LOCAL = "local"


class Executor(Protocol):
    """Runs cases. Made with the plan, opened with the session's context, run once, and closed."""

    def open(self, context: Context) -> AbstractContextManager[object]:
        """Get ready; what would keep all cases from running is raised before the session begins."""

    def run(self, cases: Sequence[Case], stop: Stop, write: Write) -> Iterator[Record]:
        """Yield the record of each case. `write` puts it on disk where the case ended, before it is yielded."""

    def stop(self, now: bool = False) -> None:
        """End what runs; called from a signal handler, so it takes no lock."""


class LocalExecutor:
    """This machine: some cases at a time, each under a warden."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._wardens: list[Warden] = []

    @contextmanager
    def open(self, context: Context) -> Iterator[None]:
        self._context = context
        with ExitStack() as stack:
            self._wardens = [stack.enter_context(Warden()) for _ in range(self._jobs)]
            yield

    def run(self, cases: Sequence[Case], stop: Stop, write: Write) -> Iterator[Record]:
        def run_case(case: Case, grant: Grant) -> Record:
            return attempt.run(case, self._wardens[grant.slot], grant, self._context, stop, write)

        self._context.shared.update(shared_processes(cases, self._context.directory.path))
        ledger = Ledger(machine_capacity(), self._jobs)
        skip = partial(skip_case, self._context, write)
        yield from Scheduler(ledger, self._jobs, run_case, skip, stop).run(cases)

    def stop(self, now: bool = False) -> None:
        for warden in self._wardens:
            warden.stop(now=now)


def skip_case(context: Context, write: Write, case: Case, reason: str) -> Record:
    """The record of a case whose command is never started."""
    return write(context.blank_record(case, Status.SKIPPED, reason), ())


def make_executor(plan: Plan, on: str | None, *, jobs: int | None, cases: int) -> Executor:
    """The executor that the command line (`on`) or else the configuration (`pool`) asks for."""
    pool = plan.settings.pool
    if on == LOCAL or (on is None and pool is None):
        return LocalExecutor(max(1, min(jobs or 1, cases)))
    from paceline.run.ray.pool import RayPool

    settings = pool or PoolSettings()
    settings = settings if on is None else replace(settings, address=on)
    return RayPool(settings, plan.directory, jobs=jobs, cases=cases)
