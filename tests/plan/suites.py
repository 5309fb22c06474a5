"""Small configurations, and what the tests of plans ask of them."""

from collections.abc import Callable

import pytest

from paceline.errors import ConfigError
from paceline.model import Plan

Planner = Callable[..., Plan]


ONE = """
entries:
  - name: one
    script: bench.py
"""


def entry(*lines: str) -> str:
    return ONE + "".join(f"    {line}\n" for line in lines)


def problem_of(plan: Planner, text: str, **options: object) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(text, **options)
    return str(caught.value)


def args_of(plan: Plan, index: int = 0) -> list[str]:
    """What follows the script, without the flag that is added."""
    return list(plan.cases[index].argv[2:-2])
