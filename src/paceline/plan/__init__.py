"""Config → Plan: matrix, selection, and every text resolved. Nothing is made, opened or run."""

from paceline.plan.directories import find_artifacts_dir, find_results_dir, find_results_place
from paceline.plan.plan import make_plan, plan_errors, plan_json

__all__ = [
    "find_artifacts_dir",
    "find_results_dir",
    "find_results_place",
    "make_plan",
    "plan_errors",
    "plan_json",
]
