"""A suite in a directory of its own, planned as if outside any container."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from paceline.config import paths
from paceline.config.load import load
from paceline.model import Plan
from paceline.plan import make_plan

Planner = Callable[..., Plan]


@pytest.fixture
def outside_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "MARKERS", ())


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A directory with one script."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "bench.py").write_text("print('hello')\n")
    return tmp_path


@pytest.fixture
def plan(suite: Path, outside_container: None) -> Planner:
    """Plans a configuration given as text."""

    def plan_text(text: str, environ: Mapping[str, str] | None = None, **options: Any) -> Plan:
        config = suite / "suite.yaml"
        config.write_text(text)
        known = environ or {}
        options.setdefault("session", "night")
        options.setdefault("results_dir", suite / "results")
        return make_plan(load([config], environ=known, lenient=True), environ=known, **options)

    return plan_text
