from pathlib import Path

import pytest

from config.config_files import ConfigFiles


@pytest.fixture
def files(tmp_path: Path) -> ConfigFiles:
    """A directory to write configuration files in, and load them from."""
    return ConfigFiles(tmp_path)
