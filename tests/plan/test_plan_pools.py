"""A pool of machines and the labels of its nodes, from the file to the plan."""

import pytest

from paceline.errors import ConfigError
from paceline.model import PoolSettings
from paceline.plan import plan_json
from plan.suites import ONE, Planner, entry


def test_a_kind_is_a_pool_of_defaults(plan: Planner) -> None:
    assert plan(ONE).settings.pool is None
    assert plan(f"pool: {{}}\n{ONE}").settings.pool == PoolSettings(files=[], exclude=[])
    assert plan(f"pool: ray\n{ONE}").settings.pool == plan(f"pool: {{}}\n{ONE}").settings.pool
    given = plan(f"pool: {{address: 'h:1', ship_limit: 1MiB, wait_for_node_s: 0}}\n{ONE}").settings.pool
    assert given is not None
    assert (given.address, given.ship_limit, given.wait_for_node_s, given.ship) == ("h:1", 1 << 20, 0, "auto")


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ("dask", "suite.yaml:1: pool.type: expected 'ray', got 'dask'"),
        (
            "{ship: sometimes}",
            "suite.yaml:1: pool.ship: expected 'auto', 'always' or 'never', got 'sometimes'",
        ),
        ("{adress: x}", "did you mean 'address'?"),
        ("{node_retries: -1}", "suite.yaml:1: pool.node_retries: expected a whole number, 0 or more, got -1"),
    ],
)
def test_a_wrong_pool_is_told(plan: Planner, pool: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(f"pool: {pool}\n{ONE}")
    assert message in str(caught.value)


def test_labels_are_texts_and_decide_the_result(plan: Planner) -> None:
    (without,) = plan(ONE).cases
    found = plan(entry("resources: {labels: {zone: 3, fast: true, accelerator: A100}}"))
    (case,) = found.cases
    assert case.resources.labels == {"zone": "3", "fast": "true", "accelerator": "A100"}
    assert case.fingerprint != without.fingerprint
    assert plan(entry("resources: {labels: {}}")).cases[0].fingerprint == without.fingerprint
    assert plan_json(found)["cases"][0]["resources"]["labels"] == dict(case.resources.labels)
    with pytest.raises(ConfigError, match="expected a text for each label, got a list"):
        plan(entry("resources: {labels: {zone: [a]}}"))
    with pytest.raises(ConfigError, match="expected a mapping from labels to values, got 'fast'"):
        plan(entry("resources: {labels: fast}"))


def test_a_case_knows_its_script(plan: Planner) -> None:
    (case,) = plan(ONE).cases
    assert case.script is not None and case.script.endswith("/scripts/bench.py")
    assert plan("entries: [{name: c, command: [ls]}]").cases[0].script is None
