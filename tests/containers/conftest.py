"""Stub engines in a directory of their own."""

from pathlib import Path

import pytest

from stub_engine import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.add_engine("docker")
    return desk
