"""Sessions in directories, and machines that keep theirs in an object store."""

from pathlib import Path

import pytest

from object_store import s3
from paceline.record.directory import SessionDir
from paceline.record.remote.object_store import ObjectStore
from record.session_dirs import make_plan
from record.store_machines import Machine, Machines

__all__ = ["s3"]


@pytest.fixture
def session_dir(tmp_path: Path) -> SessionDir:
    """The directory of a session that has just been created."""
    return SessionDir.create(make_plan(tmp_path))


@pytest.fixture
def url(s3: str) -> str:
    return f"{s3}/results"


@pytest.fixture
def machines(tmp_path: Path, url: str) -> Machines:
    return lambda name: Machine(tmp_path / name, url)


@pytest.fixture
def store(url: str) -> ObjectStore:
    return ObjectStore(f"{url}/s")
