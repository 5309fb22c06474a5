"""How often each command calls different what is the same: through the commands themselves, measurements simulated.

    python benchmarks/null_rates.py --only compare,evals --count 200

Prints a table in Markdown; docs/statistics.md keeps it. A part is a function that takes a seed and how many trials to
make, and gives rows; to add one, put it into PARTS. Exit code 1 if a rate is above its bound by more than chance.
"""

import math
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from figures import make_parser, publish


class Row(NamedTuple):
    """A share of trials. `bound` is the most (or with `is_power` the least) that is promised."""

    command: str
    what: str
    hits: int
    trials: int
    bound: float = 0.05
    is_power: bool = False

    @property
    def rate(self) -> float:
        return self.hits / self.trials

    @property
    def is_kept(self) -> bool:
        """Whether the promise holds, but for two standard errors of chance."""
        spare = 2 * math.sqrt(self.bound * (1 - self.bound) / self.trials)
        return self.rate >= self.bound - spare if self.is_power else self.rate <= self.bound + spare


Part = Callable[[int, int], Iterator[Row]]
PARTS = {
    "compare": "null_parts.comparing:rows",
    "evals": "null_parts.evals:rows",
    "ab": "null_parts.experiments:ab_rows",
    "bisect": "null_parts.experiments:bisect_rows",
    "nightly": "null_parts.experiments:nightly_rows",
}
"""Where the function of each part is; imported when it is asked for."""


def part_of(name: str) -> Part:
    module, _, function = PARTS[name].partition(":")
    found: Part = getattr(import_module(module), function)
    return found


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}; commas between")
    parser.add_argument("--seed", type=int, default=20261117)
    parser.add_argument("--count", type=int, default=200, help="trials a row")
    args = parser.parse_args()
    print("| command | what | share | promised | trials |\n|---|---|---:|---:|---:|", flush=True)
    broken = 0
    figures: dict[str, tuple[float, str]] = {}
    for name in args.only.split(","):
        for row in part_of(name)(args.seed, args.count):
            promised = f"{'≥' if row.is_power else '≤'} {row.bound:.0%}"
            print(f"| {row.command} | {row.what} | {row.rate:.1%} | {promised} | {row.trials} |", flush=True)
            figures[re.sub(r"\W+", "_", f"{row.command} {row.what}").strip("_")] = (row.rate, "")
            broken += not row.is_kept
    publish(args, figures, num_trials=args.count)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
