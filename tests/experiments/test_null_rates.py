"""How often an experiment finds what is not there: all of its code, only the runs are simulated."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The benchmark that docs/statistics.md keeps the figures of, in small."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("null_parts", "null_rates")]:
        del sys.modules[name]


@pytest.mark.parametrize("within", [0.005, 0.01, 0.02])
def test_a_night_that_did_not_change_is_seldom_confirmed(within: float) -> None:
    """All runs of a night share its luck, by which it was picked."""
    from null_parts.experiments import Machine, is_confirmed, suite

    random = np.random.default_rng(3)
    with suite() as directory:
        machine = Machine(between=0.01, within=within)
        assert sum(is_confirmed(random, machine, directory) for _ in range(40)) <= 2


def test_a_night_that_did_change_is_confirmed() -> None:
    from null_parts.experiments import Machine, is_confirmed, suite

    random = np.random.default_rng(4)
    with suite() as directory:
        machine = Machine(between=0.01, within=0.01, change=0.1)
        assert sum(is_confirmed(random, machine, directory) for _ in range(20)) >= 16


def test_a_simulated_bisection_runs_nothing_and_names_the_commit() -> None:
    from null_parts.experiments import FAMILIES, bisect, suite

    random = np.random.default_rng(5)
    with suite() as directory:
        found = bisect(FAMILIES["normal"](random), culprit=17, effect=5.0, directory=directory / "one")
        alike = bisect(FAMILIES["normal"](random), culprit=99, effect=0.0, directory=directory / "two")
    assert (found.ending, found.culprit) == ("found", 17)
    assert (alike.ending, alike.culprit, alike.confidence) == ("not_reproduced", None, 0.0)
