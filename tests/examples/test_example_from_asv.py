"""From asv: its stored results are imported, and its benchmarks run under the same names."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from workplace import Workplace

EXAMPLE = Path(__file__).parents[2] / "examples/from_asv"


@pytest.fixture
def moved(place: Workplace) -> Workplace:
    shutil.copytree(EXAMPLE, place.path, dirs_exist_ok=True)
    return place


def points(place: Workplace, case: str, metric: str) -> list[dict[str, Any]]:
    done = place.run("history", "log", case, metric, "--db", "sorting.db", "--json")
    assert done.returncode == 0, done.stderr
    return [point for series in json.loads(done.stdout) for point in series["points"]]


def test_moving(moved: Workplace) -> None:
    assert moved.run("history", "import", "asv_results", "--db", "sorting.db").returncode == 0
    done = moved.run("run", "--session-name", "monday", "--db", "sorting.db", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    counted = points(moved, "sorting.Sorting.track_comparisons[size=10000]", "value")
    assert [point["value"] for point in counted] == [119877] * 3
    assert [point["session"] == "monday" for point in counted].count(True) == 1
    timed = points(moved, "sorting.Sorting.time_sort[size=1000]", "duration")
    assert len(timed) == 3 and all(point["value"] > 0 for point in timed)


def test_what_asv_can_do_and_the_script_cannot_is_said(moved: Workplace) -> None:
    moved.write("benchmarks/held.py", "def mem_list():\n    return [0] * 100\n")
    moved.write(
        "held.yaml", "entries:\n  - {name: held.mem_list, script: asv_benchmark.py, args: held.mem_list}\n"
    )
    done = moved.run("run", "held.yaml", "--no-history", "--quiet")
    assert done.returncode == 1
    assert "benchmarks of the kind mem_ are not known here" in done.stdout + done.stderr
