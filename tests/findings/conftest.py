"""Both kinds of databases: what is asked of one is asked of the other."""

from pathlib import Path

import pytest

from postgres_server import server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    return str(tmp_path / "benchmark.db") if request.param == "sqlite" else server().new_database()
