"""How often a night is suspected for nothing, and how soon a step is: the table of docs/nightly.md."""

import random
from collections.abc import Callable

from figures import make_parser, publish

from paceline.judge import suspect_tail

SERIES = 300
NIGHTS = range(8, 50)
STEP = 0.15
NOISE = 0.05


def gaussian(source: random.Random) -> Callable[[], float]:
    return lambda: source.gauss(0, NOISE)


def spiky(source: random.Random) -> Callable[[], float]:
    return lambda: source.uniform(0.15, 0.5) if source.random() < 0.03 else source.gauss(0, NOISE)


def autocorrelated(source: random.Random) -> Callable[[], float]:
    last = 0.0

    def step() -> float:
        nonlocal last
        last = 0.5 * last + source.gauss(0, NOISE * 0.866)
        return last

    return step


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--series", type=int, default=SERIES, help="series of each kind of noise")
    options = parser.parse_args()
    figures = {}
    print(f"{'noise':<16}{'false, of 1,000 nights':>24}  step found by night 1, 2, 3, 5, 8")
    for kind in (gaussian, spiky, autocorrelated):
        looked = wrong = 0
        found = [0] * 8
        for seed in range(options.series):
            draw = kind(random.Random(seed))
            values = [100 * (1 + draw()) for _ in NIGHTS]
            for night in range(8, len(values)):
                looked += 1
                wrong += suspect_tail(values[:night]) is not None
            values = [100 * (1 + draw()) for _ in range(20)]
            for night in range(8):
                values.append(100 * (1 + STEP + draw()))
                if suspect_tail(values):
                    found = [count + (after >= night) for after, count in enumerate(found)]
                    break
        shares = "  ".join(f"{found[night] / options.series:4.0%}" for night in (0, 1, 2, 4, 7))
        print(f"{kind.__name__:<16}{1000 * wrong / looked:>24.0f}  {shares}")
        figures[f"{kind.__name__}_error_rate"] = (wrong / looked, "")
        figures[f"{kind.__name__}_found_by_night_3_accuracy"] = (found[2] / options.series, "")
    publish(options, figures, num_series=3 * options.series)


if __name__ == "__main__":
    main()
