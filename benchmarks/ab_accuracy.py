"""How often an A/B test errs, and how many blocks it takes: simulated, on seeds of one's own choice.

python benchmarks/ab_accuracy.py --experiments 1000 --seed 1
"""

from collections.abc import Callable

import numpy as np
from figures import make_parser, publish

from paceline.experiments.ab.blocks import level_of, look_blocks
from paceline.judge import compare
from paceline.judge.comparison import LEVEL

BLOCKS = 28
Noise = Callable[[np.random.Generator], np.ndarray]


def gaussian(random: np.random.Generator) -> np.ndarray:
    return random.lognormal(0, 0.02, BLOCKS)


def spiky(random: np.random.Generator) -> np.ndarray:
    spikes = np.where(random.random(BLOCKS) < 0.1, random.uniform(1.15, 1.5, BLOCKS), 1)
    return gaussian(random) * spikes


def bimodal(random: np.random.Generator) -> np.ndarray:
    return gaussian(random) * np.where(random.random(BLOCKS) < 0.4, 1.1, 1)


NOISES: dict[str, Noise] = {"gaussian": gaussian, "spiky": spiky, "bimodal": bimodal}


def decide(old: np.ndarray, new: np.ndarray, level: float, looks: tuple[int, ...]) -> tuple[str, int]:
    """The first verdict that differs from inconclusive, and after how many blocks it came."""
    for blocks in looks:
        found = compare(list(old[:blocks]), list(new[:blocks]), paired=True, level=level)
        if found.verdict in ("better", "worse"):
            return found.verdict, blocks
    return "inconclusive", looks[-1]


def simulate(
    random: np.random.Generator, noise: Noise, effect: float, level: float, count: int
) -> tuple[float, float]:
    """The share of experiments that call a difference, and the median of the blocks they took."""
    looks = look_blocks(BLOCKS)
    called, taken = 0, []
    for _ in range(count):
        drift = np.exp(np.cumsum(random.normal(0, 0.01, BLOCKS)))
        verdict, blocks = decide(drift * noise(random), drift * noise(random) * (1 + effect), level, looks)
        called += verdict != "inconclusive"
        taken.append(blocks)
    return called / count, float(np.median(taken))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--experiments", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    ours = level_of(len(look_blocks(BLOCKS)), 1)
    print(f"looks after {', '.join(map(str, look_blocks(BLOCKS)))} blocks; drift of 1 % a block")
    print("| noise | A/A, 95 % at each look | A/A, as we look | +5 % found | blocks | +10 % found | blocks |")
    print("|---|---|---|---|---|---|---|")
    figures = {}
    for name, noise in NOISES.items():
        naive, _ = simulate(random, noise, 0.0, LEVEL, options.experiments)
        quiet, _ = simulate(random, noise, 0.0, ours, options.experiments)
        cells = [f"{naive:.1%}", f"{quiet:.1%}"]
        figures[f"{name}_error_rate"] = (quiet, "")
        for effect in (0.05, 0.10):
            found, blocks = simulate(random, noise, effect, ours, options.experiments)
            cells += [f"{found:.1%}", f"{blocks:.0f}"]
            figures[f"{name}_step_of_{effect:.0%}_accuracy".replace("%", "_percent")] = (found, "")
        print(f"| {name} | {' | '.join(cells)} |")
    publish(options, figures, num_experiments=options.experiments)


if __name__ == "__main__":
    main()
