"""Which of many tests to believe: of those made at once a small share may be false, of those made night by night a few.

Night by night, tests never end, and nobody knows which of them a night makes. So each new test has a level that never
falls below a floor, and discoveries add to it for a while: what changes one series often changes others, too (an
online control of false discoveries with a memory that decays, after Ramdas and others, 2017). Findings that are known
are not tested again, so that they relax nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.errors import PacelineError

FLOOR = 3e-4
"""The p-value up to which a change that is new is always believed.

The aim is that a series of noise comes below it for the first time in one of 30,000 nights, one false alarm a month of
1,000 series; on neighbouring nights it looks nearly the same. What was measured is in docs/statistics.md."""

_CHANCE = 1 / 30_000
_REWARD = 0.05
_MOST = 0.5
_NIGHTS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """How far new tests may go beyond the floor: `credit` is how many false discoveries may come of it in all.

    Each discovery earns a twentieth of one. Tests spend it, within some nights of all series, whatever part of them a
    night has.
    """

    credit: float = 0.0

    def level(self, tests: int, series: int) -> float:
        """The p-value up to which each of tonight's tests is a discovery, in a history of so many series."""
        return FLOOR * (1 + self.credit * _spent(tests, series) / max(tests, 1) / _CHANCE)

    def after(self, tests: int, series: int, discoveries: int) -> "Control":
        """What is left for the next night."""
        left = self.credit * (1 - _spent(tests, series))
        return Control(credit=min(left + _REWARD * discoveries, _MOST))


def _spent(tests: int, series: int) -> float:
    """The share of the credit that so many tests spend."""
    return -math.expm1(-tests / (_NIGHTS * max(series, tests, 1)))


def select_discoveries(p_values: Sequence[float], rate: float = 0.05) -> tuple[bool, ...]:
    """For each test whether it is a discovery; on average at most a share `rate` of them is false.

    Give one p-value for every test that was made, 1.0 for a series in which nothing was found. This holds however
    the tests depend on each other (Benjamini and Yekutieli, 2001): metrics of one night share that night's luck.
    """
    values = np.asarray(p_values, dtype=float)
    count = len(values)
    if not count:
        return ()
    if not ((values >= 0) & (values <= 1)).all() or not 0 < rate < 1:
        raise PacelineError("p-values lie between 0 and 1, and so does the rate of false discoveries")
    ranks = np.arange(1, count + 1)
    # The harmonic sum is the price of holding under any dependence.
    limits = rate * ranks / (count * float((1 / ranks).sum()))
    within = np.flatnonzero(np.sort(values) <= limits)
    largest = limits[within[-1]] if len(within) else -1.0
    return tuple((values <= largest).tolist())


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Each p-value after correction for all of them: the chance that any of those below is false is at most as large.

    This holds however the tests depend on each other (Holm, 1979).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, most = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        most = max(most, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = most
    return tuple(adjusted)
