"""Which unit of work goes to which group of stages next, so that every group has work and little waits between them."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.curate.task import Unit

# A worker has the next unit at hand while it works on one, so that it never waits for the driver.
UNITS_PER_WORKER = 2


@dataclass(slots=True)
class Job:
    """A unit, or a batch of it, on its way through one group of stages.

    `work` is what the worker gets. `parts` is how many of its outcomes are here, `deaths` how many workers died of it.
    """

    group: int
    unit: Unit
    work: Any
    parts: int = 0
    deaths: int = 0


class Flow:
    """The units that wait before each group; `workers` is how many serve each of them."""

    def __init__(self, units: Iterator[Unit], workers: Sequence[int]) -> None:
        self._units, self._is_read = units, False
        self._waiting: list[deque[Job]] = [deque() for _ in workers]
        self._room = [2 * UNITS_PER_WORKER * count for count in workers]
        self._under_way = [0] * len(workers)

    def next(self, served: Sequence[int]) -> Job | None:
        """The next job for a worker that serves these groups: the furthest, unless too much waits behind it."""
        for group in reversed(served):
            if self._waiting[group] and self._waiting[group][0].deaths:
                return self._take(self._waiting[group].popleft())
            if self.is_full(group + 1, self._under_way[group]):
                continue
            if self._waiting[group]:
                return self._take(self._waiting[group].popleft())
            if group == 0:
                if (unit := next(self._units, None)) is not None:
                    return self._take(Job(0, unit, unit))
                self._is_read = True
        return None

    def _take(self, job: Job) -> Job:
        self._under_way[job.group] += 1
        return job

    def is_full(self, group: int, coming: int = 0) -> bool:
        """Whether as much waits before a group as should, with what is on its way there."""
        return group < len(self._room) and len(self._waiting[group]) + coming >= self._room[group]

    def hand_on(self, job: Job, work: Any) -> None:
        """A batch of a job is ready for the next group."""
        self._waiting[job.group + 1].append(Job(job.group + 1, job.unit, work, deaths=job.deaths))

    def done(self, job: Job) -> None:
        self._under_way[job.group] -= 1

    def give_back(self, job: Job) -> None:
        """The worker of a job died: it is the next one of its group."""
        self._under_way[job.group] -= 1
        self._waiting[job.group].appendleft(job)

    def begin_again(self, job: Job) -> None:
        """What earlier groups made of a unit is lost: it starts from its input."""
        self._under_way[job.group] -= 1
        self._waiting[0].appendleft(Job(0, job.unit, job.unit, deaths=job.deaths + 1))

    def is_over(self) -> bool:
        """Whether all input was handed out, nothing waits and nothing is under way."""
        return self._is_read and not any(self._waiting) and not any(self._under_way)
