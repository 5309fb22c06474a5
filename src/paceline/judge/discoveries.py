"""Which of many tests made at once to believe, so that only a small share of those believed is false."""

from collections.abc import Sequence

import numpy as np

from paceline.errors import PacelineError


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
