from pathlib import Path

import pytest

from paceline.record.directory import SessionDir
from record.session_dirs import make_plan


@pytest.fixture
def session_dir(tmp_path: Path) -> SessionDir:
    """The directory of a session that has just been created."""
    return SessionDir.create(make_plan(tmp_path))
