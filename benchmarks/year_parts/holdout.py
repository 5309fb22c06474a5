"""Two kinds of noise on which nothing was ever tuned.

They were written before the detector was changed for the first time on account of year.py, and are not edited
after: what a detector does on them says whether it learned noise or a list of noises.
"""

import numpy as np
from year_parts.noise import SPREAD, Floats


def shared_runner(rng: np.random.Generator, nights: int) -> Floats:
    """A hosted machine: one of three CPU models by the luck of the night, and a neighbour who stays for some nights."""
    speeds = np.array([1.0, 1.03, 1.08])
    values = speeds[rng.choice(3, nights, p=[0.55, 0.35, 0.1])]
    neighbour = False
    for night in range(nights):
        neighbour = rng.random() < (0.75 if neighbour else 0.06)
        values[night] *= 1 + neighbour * rng.exponential(0.04)
    return np.asarray(values * np.exp(SPREAD / 2 * rng.standard_normal(nights)))


def ageing_machine(rng: np.random.Generator, nights: int) -> Floats:
    """One's own machine: it slows down until it is restarted, rooms are warmer in summer, some nights stop early."""
    age, values = int(rng.integers(30)), np.empty(nights)
    for night in range(nights):
        age = 0 if rng.random() < 1 / 45 else age + 1
        values[night] = 1 + 0.0004 * min(age, 60)
    values *= 1 + 0.008 * np.sin(2 * np.pi * (np.arange(nights) / 365 + rng.random()))
    values *= 1 + SPREAD * 0.8 * rng.standard_t(5, nights) / np.sqrt(5 / 3)
    values[rng.random(nights) < 0.04] = np.nan
    return np.asarray(np.round(values, 3))


HOLD_OUT = {family.__name__: family for family in (shared_runner, ageing_machine)}
