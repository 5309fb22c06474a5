"""Where the cases of a session run: on this machine, or on a pool of machines."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, Self

from paceline.model import Case, Record
from paceline.run.attempt import Bench, Tasks, run_case
from paceline.run.capacity import machine_capacity
from paceline.run.local.process import Warden
from paceline.run.scheduler import Accounts, Capacity, Grant

LOCAL = "local"


class Place(Protocol):
    """Runs cases, each with the grant that its accounts gave it; `jobs` of them at a time."""

    jobs: int

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def accounts(self, jobs: int) -> Capacity | Accounts:
        """What there is to hand out, to so many cases at a time."""

    def run_case(self, case: Case, grant: Grant, bench: Bench) -> tuple[Record, Tasks]:
        """Run a case to its record."""

    def stop(self, now: bool = False) -> None:
        """End what runs; called from a signal handler, so it takes no lock."""


class ThisMachine:
    """Runs cases under wardens of its own."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._stack = ExitStack()
        self._wardens: list[Warden] = []
        self._capacity = machine_capacity()

    def __enter__(self) -> Self:
        self._wardens = [self._stack.enter_context(Warden()) for _ in range(self.jobs)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def accounts(self, jobs: int) -> Capacity | Accounts:
        return self._capacity

    def run_case(self, case: Case, grant: Grant, bench: Bench) -> tuple[Record, Tasks]:
        return run_case(case, self._wardens[grant.slot], grant, bench)

    def stop(self, now: bool = False) -> None:
        for warden in self._wardens:
            warden.stop(now=now)


def make_place(
    pool: Mapping[str, Any] | None, on: str | None, *, jobs: int | None, cases: int, session_dir: Path
) -> Place:
    """The place that the command line (`on`) or else the configuration (`pool`) asks for."""
    if on == LOCAL or (on is None and pool is None):
        return ThisMachine(max(1, min(jobs or 1, cases)))
    from paceline.run.ray.pool import PoolSettings, RayPool

    given = {name: value for name, value in (pool or {}).items() if name != "type"}
    settings = PoolSettings(**{**given, **({} if on is None else {"address": on})})
    return RayPool(settings, session_dir, jobs=jobs, cases=cases)
