"""Which data set-ups run: those that nobody names always, those that entries need with these."""

import pytest

from plan.suites import Planner

SUITE = """
data_setups:
  - {name: always, command: ["true"]}
  - {name: small, command: ["true"]}
  - {name: large, command: ["true"]}
entries:
  - {name: quick, command: ["true"], needs: [small], tags: [fast]}
  - {name: slow, command: ["true"], needs: ["{matrix.size}"], matrix: {size: [small, large]}}
  - {name: lone, command: ["true"]}
"""


@pytest.mark.parametrize(
    ("only", "setups"),
    [
        ((), ["always", "small", "large"]),
        (("tag:fast",), ["always", "small"]),
        (("slow[size=large]",), ["always", "large"]),
        (("lone",), ["always"]),
    ],
)
def test_a_set_up_that_is_named_runs_with_those_who_need_it(
    plan: Planner, only: tuple[str, ...], setups: list[str]
) -> None:
    assert [setup.name for setup in plan(SUITE, only=only).setups] == setups


def test_a_set_up_that_only_others_need_may_lack_its_variables(plan: Planner) -> None:
    text = SUITE.replace('large, command: ["true"]', 'large, command: ["${NOWHERE_SET}"]')
    assert plan(text, only=("quick",)).setups[-1].blocked is None
