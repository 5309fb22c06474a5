"""Who runs when, and when one looks: orders of arms within blocks, and the looks at what they gave.

Every block holds each arm once, so whatever the machine does for longer than a block hits all arms alike. The orders of
as many blocks as there are arms make a Latin square with random rows: each arm is first, second, … equally often.

Whoever looks at the results again and again will see a difference some day, though there is none. So the looks are
few, spaced by a constant factor, and share the permitted error among themselves and all metrics of an arm: with 95 %
confidence all intervals of an arm hold, at all looks.
"""

import random
from collections.abc import Sequence

from paceline.judge.comparison import LEVEL

FIRST_LOOK = 4
_LOOK_FACTOR = 1.5
_NEAR = 1.2


def order_of(block: int, arms: Sequence[str], seed: int) -> tuple[str, ...]:
    """The order of the arms in a block; the same for the same seed, whatever ran before."""
    count = len(arms)
    square, row = divmod(block, count)
    draw = random.Random(f"{seed}/{square}")  # noqa: S311 - an order, no secret
    shuffled = draw.sample(list(arms), count)
    shift = draw.sample(range(count), count)[row]
    return tuple(shuffled[shift:] + shuffled[:shift])


def hash_seed_of(block: int, seed: int) -> int:
    """The seed of Python's hashes in a block, the same for all its arms: 1 or more, as 0 switches it off."""
    return random.Random(f"{seed}/hash/{block}").randint(1, 2**32 - 1)  # noqa: S311 - no secret


def look_blocks(max_blocks: int) -> tuple[int, ...]:
    """After how many blocks one looks; the last time when the budget is spent, and not right before that."""
    looks: list[int] = []
    position = float(FIRST_LOOK)
    while round(position) * _NEAR < max_blocks:
        looks.append(round(position))
        position *= _LOOK_FACTOR
    return (*looks, max(max_blocks, 1))


def level_of(looks: int, metrics: int) -> float:
    """The confidence that a single interval needs."""
    return 1 - (1 - LEVEL) / (max(looks, 1) * max(metrics, 1))
