"""The places in which an older version left its files, each for one test."""

from collections.abc import Iterator

import pytest

from frozen import frozen_place
from workplace import Workplace

# The files have the name of a variable that holds a secret, never its value: any value must do.
OTHER_TOKEN = "not-the-one-of-then"


@pytest.fixture
def history() -> Iterator[Workplace]:
    """A repository with a history of fifteen nights in `benchmark.db`."""
    with frozen_place("history") as place:
        yield place


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    """A suite with the sessions `monday`, which is over, and `killed`, whose runner was killed."""
    monkeypatch.setenv("FROZEN_TOKEN", OTHER_TOKEN)
    with frozen_place("session") as place:
        yield place
