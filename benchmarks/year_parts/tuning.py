"""Further kinds of noise to choose a detector's numbers by, so that the two of holdout.py need not be looked at.

Each is like something that machines do, and none is like a hold-out. The spread of a night is 1.5 to 2 %.
"""

import numpy as np
from year_parts.noise import SPREAD, Family, Floats


def states(rng: np.random.Generator, nights: int) -> Floats:
    """Two states of a machine, 3 % apart, each for about a week and a half: where pages lie, which core is used."""
    slow = np.cumsum(rng.random(nights) < 1 / 10) % 2
    return np.asarray(1 + 0.03 * slow + 0.75 * SPREAD * rng.standard_normal(nights))


def long_moods(rng: np.random.Generator, nights: int) -> Floats:
    """Moods that last for weeks."""
    mood = np.empty(nights)
    mood[0] = rng.standard_normal()
    for night in range(1, nights):
        mood[night] = 0.93 * mood[night - 1] + np.sqrt(1 - 0.93**2) * rng.standard_normal()
    return np.asarray(1 + 0.75 * SPREAD * mood + 0.75 * SPREAD * rng.standard_normal(nights))


def uneven(rng: np.random.Generator, nights: int) -> Floats:
    """Loud for some weeks, quiet for others."""
    loud = np.cumsum(rng.random(nights) < 1 / 20) % 2
    return np.asarray(1 + SPREAD * (0.5 + 1.2 * loud) * rng.standard_normal(nights))


def lumps(rng: np.random.Generator, nights: int) -> Floats:
    """Every month or so somebody else's work makes some nights in a row slower by 3 to 10 %."""
    values = 1 + 0.75 * SPREAD * rng.standard_normal(nights)
    night = int(rng.exponential(30))
    while night < nights:
        values[night : night + int(rng.integers(1, 5))] *= 1 + rng.uniform(0.03, 0.10)
        night += 5 + int(rng.exponential(25))
    return np.asarray(values)


def few_values(rng: np.random.Generator, nights: int) -> Floats:
    """Coarsely rounded, with a tail: a clock of 2 %, and a far value now and then."""
    drawn = 1 + SPREAD * rng.standard_t(4, nights) / np.sqrt(2)
    return np.asarray(np.round(drawn / 0.02) * 0.02)


TUNING: dict[str, Family] = {
    family.__name__: family for family in (states, long_moods, uneven, lumps, few_values)
}
OF_THE_NIGHT = frozenset({"states", "long_moods", "lumps"})
"""Those that all runs of a night share."""
