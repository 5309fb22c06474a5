"""Change points of a series that grows by one point a night, and of many series at once."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from paceline.judge.changes import ChangePoint, Shift, change_points, joined, shifts_within, windows
from paceline.judge.intervals import Floats

_PAYS_FROM = 500_000  # Points; with fewer, starting processes takes longer than they save.
_CHUNK = 64


class Detector:
    """A series that grows; `change_points` is at every length what the function of that name says of it.

    Of a long series only the last window is judged anew: one more point costs the same at any length.
    """

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._values = np.array(tuple(values), dtype=float)
        self._length = len(self._values)
        self._complete: list[list[Shift]] = []
        self._found: tuple[ChangePoint, ...] | None = None

    def append(self, value: float) -> None:
        """Take in the next value."""
        if self._length == len(self._values):
            self._values = np.concatenate((self._values, np.empty(max(self._length, 16))))
        self._values[self._length] = value
        self._length += 1
        self._found = None

    @property
    def change_points(self) -> tuple[ChangePoint, ...]:
        """Where the level changed so far."""
        if self._found is None:
            *complete, last = windows(self._length)
            for begin, end in complete[len(self._complete) :]:
                self._complete.append(shifts_within(self._values, begin, end))
            newest = shifts_within(self._values, *last)
            self._found = joined([*self._complete, newest], self._length)
        return self._found


def change_points_of_many(
    series: Iterable[Sequence[float] | Floats], jobs: int | None = None
) -> list[tuple[ChangePoint, ...]]:
    """The change points of each series, in order; on several processes where that is faster, or on `jobs`."""
    every = [np.asarray(values, dtype=float) for values in series]
    wanted = jobs or _worthwhile_jobs(sum(map(len, every)))
    if wanted <= 1 or len(every) <= 1:
        return [change_points(values) for values in every]
    with ProcessPoolExecutor(min(wanted, len(every))) as pool:
        return list(pool.map(change_points, every, chunksize=_CHUNK))


def _worthwhile_jobs(points: int) -> int:
    return len(os.sched_getaffinity(0)) if points >= _PAYS_FROM else 1
