"""What runs the tests of an entry in a Python that has pytest and nothing of ours."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from paceline import guest

NEEDED = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
TESTS = """
from importlib.util import find_spec
import pytest

@pytest.mark.parametrize("name", ["orjson", "click"])
def test_it(benchmark, name):
    assert find_spec(name) is None
    benchmark.pedantic(sum, args=((1, 2),), rounds=2)

@pytest.mark.xfail(reason="known")
def test_known():
    assert False

@pytest.fixture
def broken():
    raise OSError("no data")

def test_broken(broken):
    pass
"""


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """The variables of a Python that finds pytest, and no other package."""
    place = tmp_path / "packages"
    place.mkdir()
    for name in NEEDED:
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        origin = Path(spec.origin)
        target = origin.parent if origin.name == "__init__.py" else origin
        (place / target.name).symlink_to(target)
    (tmp_path / "test_alone.py").write_text(TESTS)
    return {"PYTHONPATH": str(place), "PACELINE_RESULTS_PATH": str(tmp_path / "results")}


def called(tmp_path: Path, env: dict[str, str], *words: str) -> int:
    command = [sys.executable, "-S", guest.__file__, *words]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    print(done.stdout, done.stderr)
    return done.returncode


def result(tmp_path: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "results" / name).read_text())
    return found


def test_it_needs_pytest_alone(tmp_path: Path, alone: dict[str, str]) -> None:
    told = tmp_path / "told.json"
    assert called(tmp_path, alone, "paceline.pytest_plugin.entry:collect", str(told), "test_alone.py") == 0
    found = json.loads(told.read_text())
    assert found["root"] == str(tmp_path) and found["faults"] == []
    first = found["tests"][0]
    assert (first["base"], first["params"]) == ("test_alone.py::test_it", {"name": "orjson"})
    test = first["id"]
    assert called(tmp_path, alone, "paceline.pytest_plugin.entry:run", test, "test_alone.py") == 0
    assert len(result(tmp_path, "metrics.json")["duration"]) == 2


@pytest.mark.parametrize(
    ("test", "code", "outcome"),
    [
        ("test_known", 0, {"status": "skipped", "reason": "failed as expected: known"}),
        ("test_broken", 1, {"status": "failed", "reason": "setup: OSError: no data (test_alone.py:16)"}),
        ("test_gone", 5, {"status": "failed", "reason": "the test did not run: pytest did not find it"}),
    ],
)
def test_how_a_test_ended(
    tmp_path: Path, alone: dict[str, str], test: str, code: int, outcome: dict[str, str]
) -> None:
    words = ("paceline.pytest_plugin.entry:run", f"test_alone.py::{test}", "test_alone.py")
    assert called(tmp_path, alone, *words) == code
    assert result(tmp_path, "case_outcome.json") == outcome


def test_a_faulty_argument_is_said_by_pytest(tmp_path: Path, alone: dict[str, str]) -> None:
    told = tmp_path / "told.json"
    words = ("paceline.pytest_plugin.entry:collect", str(told), "test_alone.py", "--no-such-option")
    assert called(tmp_path, alone, *words) == 4
    assert not told.exists()
