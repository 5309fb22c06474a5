"""The gate on what people see, at a small size: benchmarks/look.py with a history that it makes itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard_browser import CHROMIUM

LOOK = Path(__file__).parents[2] / "benchmarks" / "look.py"


def test_the_small_gate_is_passed(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: 'apt-get install chromium' brings one")
    command = [
        sys.executable,
        str(LOOK),
        "--cases",
        "12",
        "--commits",
        "60",
        "--benchmark-results-path",
        str(tmp_path),
    ]
    environment = {**os.environ, "PACELINE_RESULTS_PATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "metrics.json").read_text())
    for name in ("wrong_totals", "wrong_sparks", "axe_violations", "wide_pages", "console_errors"):
        assert figures[name] == 0, done.stdout
    assert figures["scripts_kb"] <= 90 and figures["home_screens"] <= 2, done.stdout
    assert "the link shows the same chart" in done.stdout
