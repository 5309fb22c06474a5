"""Releases of a real library: compared, searched for the one that changed, and what is said when there is no index.

Only counted calls are judged, which are the same in every run.
"""

import json
import shutil
from pathlib import Path

import pytest

from loopback import Loopback, Reply
from package_index import need
from workplace import Workplace

EXAMPLE = Path(__file__).parents[2] / "examples/releases"

TWO = """
config: suite.yaml
arms:
  "25.0": {packages: [packaging==25.0]}
  "26.0": {packages: [packaging==26.0]}
metrics: {parse_calls: lower, sort_calls: lower}
null_arm: false
warmup: 0
budget: {runs: 8}
"""


@pytest.fixture
def releases(place: Workplace) -> Workplace:
    shutil.copytree(EXAMPLE, place.path, dirs_exist_ok=True)
    return place


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where environments are kept: both tests use the same."""
    return str(tmp_path_factory.mktemp("cache"))


def test_the_file_of_the_example_is_right(releases: Workplace) -> None:
    done = releases.run("ab", "releases.yaml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "arm 22.0 (baseline): packages packaging==22.0" in done.stdout
    assert "arm 26.3: packages packaging==26.3" in done.stdout


def test_two_releases_are_compared(releases: Workplace, cache: str) -> None:
    need("packaging==25.0", "packaging==26.0")
    releases.write("two.yaml", TWO)
    done = releases.run("ab", "two.yaml", "--json", PACELINE_CACHE=cache)
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert {one["metric"]: one["verdict"] for one in result["comparisons"]} == {
        "parse_calls": "better",
        "sort_calls": "worse",
    }
    assert result["arms"]["26.0"]["installed"] == ["packaging==26.0"]


def test_the_release_that_changed_is_found(releases: Workplace, cache: str) -> None:
    need("packaging==24.2", "packaging==25.0", "packaging==26.0")
    question = "--package packaging --versions 24.2,25.0,26.0 --good 24.2 --bad 26.0"
    measure = "--case versions --metric sort_calls --direction lower --json"
    words = f"bisect suite.yaml {question} {measure}".split()
    done = releases.run(*words, PACELINE_CACHE=cache)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["culprit"] == "26.0"


def test_without_an_index_it_says_so(releases: Workplace) -> None:
    with Loopback(lambda asked: Reply(503, b"")) as index:
        away = {
            "UV_DEFAULT_INDEX": index.url,
            "UV_NO_CACHE": "1",
            "UV_HTTP_RETRIES": "0",
            "UV_NO_CONFIG": "1",
        }
        pip = {"PIP_INDEX_URL": index.url, "PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "0"}
        cache = str(releases.path / "cache")
        done = releases.run("ab", "releases.yaml", "--json", PACELINE_CACHE=cache, **away, **pip)
    assert done.returncode == 2, done.stdout
    assert "arm 22.0: an environment with packaging==22.0 failed" in done.stderr
    assert index.url in done.stderr
