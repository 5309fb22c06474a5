"""From pytest-benchmark: its stored results are imported, and the moved tests go on under the same names."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workplace import Workplace

EXAMPLE = Path(__file__).parents[2] / "examples/from_pytest_benchmark"
CASE = "test_slugs.py::test_slugify_all[count=1000]"


def _apart(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what says that a worker of pytest-xdist runs it: pytest-benchmark would measure nothing."""
    return {name: value for name, value in environ.items() if not name.startswith("PYTEST_XDIST")}


def run_pytest(directory: Path, *words: str) -> None:
    quiet = (
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:randomly",
        "--rootdir",
        str(directory),
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, *words],
        cwd=directory,
        env={**_apart(os.environ), "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def sessions(place: Workplace, case: str) -> list[str]:
    """The tools whose sessions have the case, in order."""
    done = place.run("history", "log", case, "duration", "--db", "slugs.db", "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    points = [point for series in found for point in series["points"]]
    assert all(point["value"] > 0 for point in points)
    return [re.split(r"-\d{8}", point["session"])[0] for point in points]


def test_moving(place: Workplace) -> None:
    shutil.copytree(EXAMPLE, place.path, dirs_exist_ok=True)
    assert place.run("history", "import", ".benchmarks", "--db", "slugs.db").returncode == 0
    run_pytest(place.path, "--benchmark", "--benchmark-db", "slugs.db", "test_slugs.py")
    assert sorted(sessions(place, CASE)) == ["pytest", "pytest-benchmark", "pytest-benchmark"]
    assert sorted(sessions(place, "test_slugs.py::test_slugify")) == [
        "pytest",
        "pytest-benchmark",
        "pytest-benchmark",
    ]


def test_what_the_older_tests_write_is_imported(place: Workplace) -> None:
    for name in ("slugs.py", "before/test_slugs.py"):
        shutil.copy(EXAMPLE / name, place.path)
    short = ("--benchmark-max-time=0.001", "--benchmark-min-rounds=2", "--benchmark-json=run.json")
    run_pytest(place.path, *short, "test_slugs.py")
    done = place.run("history", "import", "run.json", "--db", "slugs.db")
    assert done.returncode == 0, done.stderr
    assert sessions(place, CASE) == ["pytest-benchmark"]
