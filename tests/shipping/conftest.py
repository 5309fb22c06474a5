"""Built once a test run, however many processes run the tests."""

import os
from pathlib import Path

import pytest

from paceline.experiments.builds.cache import make_once
from shipping.distributions import Distributions, build_all


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    top = tmp_path_factory.getbasetemp()
    directory = top.parent / f"distributions-{run}" if run else top / "distributions"
    make_once(directory, lambda lock: build_all(directory))
    return Distributions(Path(directory))
