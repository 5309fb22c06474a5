"""Error rates of the comparison of two sides; see judge_accuracy.py."""

import numpy as np
from make_series import NOISES, Floats, Noise

from paceline.judge import compare

KINDS = ("gaussian", "spiky", "AR(1) 0.5", "two modes", "recorded", "lognormal", "drift 10 %", "slow waves")
SIZE = 0.05


def print_comparisons(seed: int, count: int) -> None:
    """Two equal sides, interleaved as `ab` runs them; and how often 5 % are seen."""
    print(f"\ncomparisons of equal sides called different, {count} each (a difference of 5 % seen)")
    print(f"{'':14}{'values a side:':>16}" + "".join(f"{size:>14}{'paired':>14}" for size in (5, 10, 20, 40)))
    for number, kind in enumerate(KINDS):
        random = np.random.default_rng(seed + number)
        cells = [
            _cell(random, NOISES[kind], size, count, paired=paired)
            for size in (5, 10, 20, 40)
            for paired in (False, True)
        ]
        print(f"{kind:30}" + "".join(f"{cell:>14}" for cell in cells), flush=True)
    print(f"{'8 starts × 5, starts differ':30}{_starts(np.random.default_rng(seed), count):>14}")


def _cell(random: np.random.Generator, noise: Noise, size: int, count: int, *, paired: bool) -> str:
    different = seen = 0
    for _ in range(count):
        old, new = _interleaved(random, noise, size)
        different += compare(old, new, paired=paired).verdict in ("better", "worse")
        seen += compare(old, new * (1 + SIZE), paired=paired).verdict == "worse"
    return f"{different / count:.3f} ({seen / count:.2f})"


def _interleaved(random: np.random.Generator, noise: Noise, size: int) -> tuple[Floats, Floats]:
    """Pairs next to each other, which side runs first drawn by lot."""
    pairs = 100 * (1 + noise(random, 2 * size)).reshape(size, 2)
    pairs = random.permuted(pairs, axis=1)
    return pairs[:, 0], pairs[:, 1]


def _starts(random: np.random.Generator, count: int) -> str:
    different = seen = 0
    for _ in range(count):
        levels = random.normal(100, 2, (2, 8, 1)) + random.normal(0, 0.5, (2, 8, 5))
        different += compare(levels[0].tolist(), levels[1].tolist()).verdict in ("better", "worse")
        seen += compare(levels[0].tolist(), (levels[1] * (1 + SIZE)).tolist()).verdict == "worse"
    return f"{different / count:.3f} ({seen / count:.2f})"
