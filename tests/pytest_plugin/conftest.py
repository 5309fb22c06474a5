"""What the tests of the plugin stand on."""

import os

import pytest

from pytest_plugin.benchmark_suite import Suite


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A directory with tests in it, pytest to run them with the plugin, and the history they leave."""
    for name in list(os.environ):
        if name.startswith("PYTEST_XDIST_"):  # The workers that run these tests are none of the suite's.
            monkeypatch.delenv(name)
    return Suite(pytester)
