"""Judgements over numbers: requirements, change points, comparisons, bisection.

Used as `from paceline.judge import change_points, compare, Bisection`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.judge.bisection import Bisection as Bisection
    from paceline.judge.changes import Analysis as Analysis
    from paceline.judge.changes import ChangePoint as ChangePoint
    from paceline.judge.changes import Detector as Detector
    from paceline.judge.changes import Drift as Drift
    from paceline.judge.changes import analyse as analyse
    from paceline.judge.changes import change_points as change_points
    from paceline.judge.changes import change_points_of_many as change_points_of_many
    from paceline.judge.comparison import Comparison as Comparison
    from paceline.judge.comparison import compare as compare
    from paceline.judge.discoveries import Control as Control
    from paceline.judge.discoveries import select_discoveries as select_discoveries
    from paceline.judge.suspicion import Suspicion as Suspicion
    from paceline.judge.suspicion import suspect_tail as suspect_tail

# Looked up when first used: `requirements` is needed by every session, numpy only by the statistics.
_HOME = {
    "Analysis": "changes",
    "analyse": "changes",
    "Bisection": "bisection",
    "ChangePoint": "changes",
    "change_points": "changes",
    "Comparison": "comparison",
    "compare": "comparison",
    "Control": "discoveries",
    "Detector": "changes",
    "Drift": "changes",
    "change_points_of_many": "changes",
    "select_discoveries": "discoveries",
    "Suspicion": "suspicion",
    "suspect_tail": "suspicion",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
