"""Whether a series needs to be looked at again for a few new values: what the last whole look leaves behind tells.

The newest values are averaged with six memories, each twice as long as the one before. While none of the averages is
odd, a whole look would find nothing new; it is asked for long before it would. Docs/statistics.md says how often the
two were held against each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.judge.changes import Analysis, analyse
from paceline.judge.intervals import LONGEST_SERIES

_MEMORIES = tuple(2 / (length + 1) for length in (1, 3, 6, 12, 24, 48))
_ERRORS = tuple(math.sqrt(share / (2 - share)) for share in _MEMORIES)
_ODD = 2.5  # Standard errors of an average.
_CLIP = 4.0
_NEAR = 4.1
"""The score of a split of the past from which on one more value may make it a change."""
_A_VALUE = 0.1
"""By how much that score may grow with a value, which no average shows."""
_SEEN = 150
_WEIGHTS = np.array([[share * (1 - share) ** ago for ago in range(_SEEN)] for share in _MEMORIES])[:, ::-1]
_YOUNG = 60
"""Points after a change, or from the beginning, in which every new value may change what is said."""
_LONGEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What is kept of a whole look: the newest level, its noise, the averages, and how many values it may take."""

    level: float
    scale: float
    averages: tuple[float, ...]
    left: int

    def after(self, value: float) -> "Screen | None":
        """The screen with one more value; None if that asks for a whole look."""
        if not self.left or not value > 0:
            return None
        away = min(max((math.log(value) - self.level) / self.scale, -_CLIP), _CLIP)
        averages = tuple(
            round(average + share * (away - average), 4)
            for average, share in zip(self.averages, _MEMORIES, strict=True)
        )
        if _is_odd(averages):
            return None
        return replace(self, averages=averages, left=self.left - 1)


def make_screen(values: Sequence[float], analysis: Analysis, *, sure: float) -> Screen | None:
    """The screen of a series after a whole look; None if the next value asks for one, too.

    `sure` is the p-value up to which a change is told.
    """
    last = max((change.index for change in analysis.changes), default=0)
    is_settled = (
        len(values) - last >= _YOUNG
        and analysis.drift is None
        and not analysis.unrest
        and all(change.p_value <= sure for change in analysis.changes)
    )
    if not is_settled or not min(values) > 0:
        return None
    newest = np.log(np.asarray(values[max(last, len(values) - LONGEST_SERIES) :], dtype=float))
    if last:
        analysis = analyse(np.exp(newest), only_sure=True)
    level, scale = float(np.median(newest)), analysis.noise
    left = min(math.floor((_NEAR - analysis.score) / _A_VALUE), _LONGEST) if scale else 0
    if left <= 0:
        return None
    away = np.clip((newest - level)[-_SEEN:] / scale, -_CLIP, _CLIP)
    averages = (_WEIGHTS[:, -len(away) :] @ away).tolist()
    if _is_odd(averages):
        return None
    return Screen(
        level=level,
        scale=scale,
        averages=tuple(round(one, 4) for one in averages),
        left=left,
    )


def _is_odd(averages: Sequence[float]) -> bool:
    return any(abs(average) > _ODD * error for average, error in zip(averages, _ERRORS, strict=True))
