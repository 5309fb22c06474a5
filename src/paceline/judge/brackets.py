"""Between which points a step lies, once it is known that there is one."""

from collections.abc import Sequence

import numpy as np

from paceline.judge.intervals import SHORTEST_SEGMENT, Floats

_REACH = 32
_MISSED = 0.04  # How likely a step may lie outside, before and after in equal parts.
# How likely a value is that belongs to neither level, beside one in the middle of its own: spikes decide nothing.
_SPIKE = 0.005
_TINY = 1e-12
_FARTHEST = 5.0  # In units of the noise: what a neighbour may let expect.
_FAR = 1e100
_OFFSETS = np.arange(-_REACH, _REACH)


def brackets(
    series: Floats, edges: Sequence[int], levels: Sequence[float], variance: float, correlation: float
) -> list[tuple[int, int, int]]:
    """For each step the first and the last place that it may have, and between them its own, or else the likeliest.

    Each point is expected at its level, and as far from it as its neighbour before lets expect; `variance` is that of
    what is left then. A step is looked for in the nearer halves of both its segments.
    """
    around = np.array(edges)
    steps, sizes = around[1:-1, None], np.diff(around)
    points = steps + _OFFSETS
    values = series[np.minimum(np.maximum(points, 0), len(series) - 1)]
    both = values - np.array((levels[:-1], levels[1:]))[:, :, None]
    expected = np.minimum(np.maximum(both[:, :, :-1], -_FARTHEST), _FARTHEST)
    expected *= correlation
    # All points before a step are old, it is new after an old one, those after it are new.
    distances = both[[0, 1, 1], :, 1:] - expected[[0, 0, 1]]
    # A level of few points is not known better than they tell.
    doubt = (1 + 1 / np.array((sizes[:-1], sizes[1:], sizes[1:])))[:, :, None]
    as_old, as_first, as_new = _likelihood(distances, max(variance, _TINY) * doubt)
    likelihood = np.cumsum(as_old - as_new, axis=1)
    likelihood += as_first - as_old
    points = points[:, 1:]
    lowest, highest = steps - sizes[:-1, None] // 2, steps + sizes[1:, None] // 2
    likelihood[(points < lowest) | (points > highest)] = -np.inf
    best = likelihood.argmax(axis=1)
    chance = np.exp(likelihood - likelihood[np.arange(len(best)), best][:, None])
    chance = np.cumsum(chance, axis=1)
    chance /= chance[:, -1:]
    first = (chance > _MISSED / 2).argmax(axis=1)
    last = (chance >= 1 - _MISSED / 2).argmax(axis=1)
    found = []
    for number, step in enumerate(edges[1:-1]):
        begin, likeliest, end = (int(points[number, place[number]]) for place in (first, best, last))
        lower, upper = edges[number] + SHORTEST_SEGMENT, edges[number + 2] - SHORTEST_SEGMENT
        index = step if begin <= step <= end else min(max(likeliest, lower), upper)
        found.append((min(begin, index), index, max(end, index)))
    return found


def _likelihood(distances: Floats, variance: Floats) -> Floats:
    """The logarithm of how likely a value is so far from where it is expected."""
    np.minimum(np.abs(distances, out=distances), _FAR, out=distances)
    distances *= distances
    distances /= -2 * variance
    np.exp(distances, out=distances)
    distances += _SPIKE
    return np.log(distances, out=distances)
