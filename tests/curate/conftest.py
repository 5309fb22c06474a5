"""A Ray cluster of their own for the tests of a module."""

from collections.abc import Iterator

import pytest

from paceline.curate.executors.ray_session import ray_session


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    pytest.importorskip("ray")
    pytest.importorskip("cosmos_xenna")
    with ray_session():
        yield
