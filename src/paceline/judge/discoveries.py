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
