"""What nightly values of a benchmark do while nothing changes: one function for each kind of noise.

Each gets a generator and a number of nights, and gives one factor a night around 1: the value of that night is the true
level times it. NaN is a night without a value. The spread of a quiet night is about 2 % in all of them, so that they
can be compared; what wanders between nights comes on top.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Family = Callable[[np.random.Generator, int], Floats]

SPREAD = 0.02


def normal(rng: np.random.Generator, nights: int) -> Floats:
    return 1 + SPREAD * rng.standard_normal(nights)


def heavy_tails(rng: np.random.Generator, nights: int) -> Floats:
    """Student's t with three degrees of freedom: a far value every other week."""
    return np.asarray(1 + SPREAD * rng.standard_t(3, nights) / np.sqrt(3))


def skewed(rng: np.random.Generator, nights: int) -> Floats:
    """Never much faster, now and then much slower."""
    drawn = rng.gamma(2.0, 1.0, nights)
    return np.asarray(1 + SPREAD * (drawn - 2.0) / np.sqrt(2.0))


def spiky(rng: np.random.Generator, nights: int) -> Floats:
    """Quiet, with a night out of twelve that is 10 to 40 % slower."""
    values = normal(rng, nights)
    hit = rng.random(nights) < 1 / 12
    values[hit] *= 1 + rng.uniform(0.1, 0.4, int(hit.sum()))
    return values


def two_modes(rng: np.random.Generator, nights: int) -> Floats:
    """Memory is laid out in one of two ways, at random each night, 5 % apart."""
    return 1 + 0.05 * (rng.random(nights) < 0.4) + SPREAD / 2 * rng.standard_normal(nights)


def moods(rng: np.random.Generator, nights: int) -> Floats:
    """A level that goes its own way for some days and comes back: autocorrelated, 2 % besides the 2 % of a night."""
    mood = np.empty(nights)
    mood[0] = rng.standard_normal()
    for night in range(1, nights):
        mood[night] = 0.8 * mood[night - 1] + np.sqrt(1 - 0.8**2) * rng.standard_normal()
    return np.asarray(1 + SPREAD * mood + SPREAD * rng.standard_normal(nights))


def weekdays(rng: np.random.Generator, nights: int) -> Floats:
    """Slower from Monday to Friday, when others use the machine."""
    busy = (np.arange(nights) + int(rng.integers(7))) % 7 < 5
    return np.asarray(1 + 0.015 * busy + SPREAD * rng.standard_normal(nights))


def quantised(rng: np.random.Generator, nights: int) -> Floats:
    """A counter that knows few values, most nights the same."""
    return np.asarray(1 + 0.01 * np.round(1.2 * rng.standard_normal(nights)))


def failing(rng: np.random.Generator, nights: int) -> Floats:
    """One night of ten fails, and once a whole week."""
    values = normal(rng, nights)
    values[rng.random(nights) < 0.1] = np.nan
    week = int(rng.integers(max(1, nights - 7)))
    values[week : week + 7] = np.nan
    return values


FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (normal, heavy_tails, skewed, spiky, two_modes, moods, weekdays, quantised, failing)
}
WANDERING = frozenset({"moods", "weekdays", "two_modes"})
"""Families whose level moves by more than a night's own noise while nothing changes: reported apart."""
