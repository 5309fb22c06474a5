"""The demo: its nights are made up and say so, its library and its regression are real, and it is found."""

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from paceline.history import open_store
from workplace import Workplace

REPOSITORY = Path(__file__).parents[2]
SUITE = REPOSITORY / "examples/demo.yaml"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_nights", REPOSITORY / "tools/demo_nights.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def demo(tool: ModuleType, place: Workplace) -> Workplace:
    """A history with the nights before, made of a real first look at the library."""
    repo = place.path / "repo"
    tool.make_repository(repo)
    words = (
        "--only",
        "clean_text",
        "--results-dir",
        "results",
        "--session-name",
        "first",
        "--db",
        "first.db",
    )
    done = place.run("nightly", SUITE, *words, DEMO_REPO=str(repo))
    assert done.returncode == 0, done.stdout + done.stderr
    tool.add_nights(place.path / "results/first", repo, place.path / "benchmark.db", 1.3)
    return place


def test_the_planted_regression_is_found_with_its_commit(tool: ModuleType, demo: Workplace) -> None:
    done = demo.run("regressions", "--json", "--repo", "repo", "--db", "benchmark.db")
    assert done.returncode == 1, done.stderr
    (found,) = json.loads(done.stdout)
    assert (found["case"], found["metric"], found["verdict"]) == ("clean_text", "clean_overhead", "worse")
    assert found["low"] < 0.3 < found["high"]
    subjects = [suspect.get("subject") for suspect in found["suspects"]]
    assert tool.SLOW_SUBJECT in subjects
    assert found["first_bad"]["session"].startswith("made-up-")


def test_made_up_nights_are_called_so(demo: Workplace) -> None:
    with open_store(demo.path / "benchmark.db") as store:
        sessions = store.sessions()
        records = store.records(sessions[0])
    assert len(sessions) == 40
    assert all(session.name.startswith("made-up-") for session in sessions)
    assert all("made up for the demo" in record.warnings for record in records)


def test_the_commit_makes_the_library_slower_and_changes_no_answer(tool: ModuleType, tmp_path: Path) -> None:
    tool.make_repository(tmp_path / "repo")
    log = ["git", "-C", str(tmp_path / "repo"), "log", "--format=%s", "--", "wordbag.py"]
    assert subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines() == [
        tool.SLOW_SUBJECT,
        tool.SUBJECTS[0],
    ]
    fast, slow = ModuleType("fast"), ModuleType("slow")
    exec(tool._source(is_slow=False), fast.__dict__)
    exec((tmp_path / "repo/wordbag.py").read_text(), slow.__dict__)
    assert isinstance(fast.STOP_WORDS, frozenset) and isinstance(slow.STOP_WORDS, tuple)
    assert fast.clean("The End of a Day") == slow.clean("The End of a Day") == "end day"
