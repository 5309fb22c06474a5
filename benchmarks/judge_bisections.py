"""Accuracy, runs and calibration of the bisection; see judge_accuracy.py."""

import math
from collections.abc import Callable

import numpy as np

from paceline.judge import Bisection

COMMITS, ENDS = 64, 10
MOST_RUNS = 400
REPEATS = 16
Measure = Callable[[int], float]
Draw = Callable[[np.random.Generator], float]


class Correlated:
    """Each value is half of the one before it, and as much of its own."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, random: np.random.Generator) -> float:
        self._last = 0.5 * self._last + math.sqrt(0.75) * random.normal()
        return self._last


DRAWS: dict[str, Draw] = {
    "gaussian": lambda random: random.normal(),
    "spiky": lambda random: random.normal() + (random.random() < 0.05) * random.uniform(8, 25),
    "Student t3": lambda random: random.standard_t(3) / math.sqrt(3),
    "skewed": lambda random: random.exponential(),
    "two modes": lambda random: 0.55 * random.normal() + 1.67 * (random.random() < 0.5),
    "correlated": Correlated(),
}


def print_bisections(seed: int, count: int) -> dict[str, float]:
    """The table, and how often a search for a small step was right."""
    print(f"\nbisection over {COMMITS} commits, {count} searches each, {ENDS} values of each end")
    kinds = [(kind, 1.5) for kind in DRAWS] + [("gaussian", 3.0), ("gaussian", 10.0)]
    rights = [_print_search(kind, size, seed, count) for kind, size in kinds]
    random = np.random.default_rng(seed)
    alike = [_search(COMMITS, lambda _: random.normal(100, 1)) for _ in range(max(count // 4, 10))]
    given_up = sum(search.reproduces is False for search in alike)
    wrong = sum(search.reproduces is True for search in alike)
    runs = np.mean([search.runs for search in alike])
    print(
        f"no difference at all: {given_up / len(alike):.0%} say so, {wrong / len(alike):.0%} name a culprit, "
        f"{runs:.1f} runs"
    )
    return {"bisection_accuracy": min(rights)}


def _print_search(kind: str, size: float, seed: int, count: int) -> float:
    random = np.random.default_rng(seed)
    searches, right, classic_right = [], [], 0  # Searches that name a culprit.
    for _ in range(count):
        culprit = int(random.integers(1, COMMITS))
        measure = _measure(random, DRAWS[kind], culprit, size)
        search = _search(COMMITS, measure)
        searches.append(search)
        right += [search.culprit == culprit] if search.culprit is not None else []
        classic_right += _classic(measure) == culprit
    runs = [search.runs for search in searches]
    stated = np.mean([search.confidence for search in searches if search.culprit is not None])
    print(
        f"{kind:11} {size:4.1f} sd: right {np.mean(right):.1%} (says {stated:.1%}), {np.mean(runs):.1f} runs, "
        f"median {np.median(runs):.0f}; classic, {REPEATS} times each step: right {classic_right / count:.1%}, "
        f"{6 * REPEATS} runs",
        flush=True,
    )
    return float(np.mean(right))


def _measure(random: np.random.Generator, draw: Draw, culprit: int, size: float) -> Measure:
    return lambda commit: 100 + draw(random) + size * (commit >= culprit)


def _search(commits: int, measure: Measure) -> Bisection:
    good, bad = zip(*[(measure(-1), measure(commits - 1)) for _ in range(ENDS)], strict=True)
    search = Bisection(commits, good=good, bad=bad)
    while not search.done and search.runs < MOST_RUNS:
        commit = search.next()
        search.observe(commit, measure(commit))
    return search


def _classic(measure: Measure) -> int:
    """Halving: each commit is measured several times and counts as bad above the middle of the ends."""
    good, bad = (np.mean([measure(end) for _ in range(ENDS)]) for end in (-1, COMMITS - 1))
    low, high = 0, COMMITS - 1
    while low < high:
        middle = (low + high) // 2
        if np.mean([measure(middle) for _ in range(REPEATS)]) > (good + bad) / 2:
            high = middle
        else:
            low = middle + 1
    return low
