"""The suite in the shape of NeMo Curator's gets the verdicts that the tables of its README promise."""

import json
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from workplace import Workplace

EXAMPLE = Path(__file__).parents[2] / "examples/nemo_curator"
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| (success|failure) \| `(\w+)` \|", re.MULTILINE)


class Verdict(NamedTuple):
    """What Curator's runner says of an entry, and the status that Paceline gives it."""

    curator: str
    paceline: str


def verdicts(section: str) -> dict[str, Verdict]:
    """The table of a section of the README."""
    text = (EXAMPLE / "README.md").read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    return {entry: Verdict(curator, status) for entry, curator, status in ROW.findall(text)}


@pytest.fixture
def suite(place: Workplace) -> Workplace:
    shutil.copytree(EXAMPLE / "benchmarking", place.path, dirs_exist_ok=True)
    return place


def statuses(place: Workplace, *words: str) -> tuple[int, dict[str, str]]:
    done = place.run("run", *words, "--no-history", "--json")
    assert done.stdout, done.stderr
    records = json.loads(done.stdout)["records"]
    return done.returncode, {one["case"]["name"]: one["status"] for one in records}


def test_same_verdicts(suite: Workplace) -> None:
    expected = {name: one for name, one in verdicts("The same verdicts").items() if name != "ray_word_count"}
    assert len(expected) == 17
    code, found = statuses(suite, "nightly-benchmark.yaml", "laptop.yaml", "no_ray.yaml")
    assert found.pop("documents") == "passed"
    assert found == {name: one.paceline for name, one in expected.items()}
    assert {name: status == "passed" for name, status in found.items()} == {
        name: one.curator == "success" for name, one in expected.items()
    }
    assert code == 1


def test_all_passed_is_success(suite: Workplace) -> None:
    chosen = [word for name in ("modifier", "no_requirements") for word in ("--only", name)]
    code, found = statuses(suite, "nightly-benchmark.yaml", "laptop.yaml", "no_ray.yaml", *chosen)
    assert code == 0
    assert found == dict.fromkeys(("documents", "modifier", "no_requirements"), "passed")


def test_each_difference_is_one(suite: Workplace) -> None:
    expected = verdicts("Where the verdicts differ")
    assert len(expected) == 8
    code, found = statuses(suite, "differences.yaml")
    assert found == {name: one.paceline for name, one in expected.items()}
    assert all((one.paceline == "passed") != (one.curator == "success") for one in expected.values())
    assert code == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("requirments: [{metric: num_duplicates, min_value: 1}]", "requirements"),
        ("args: --input-path={dataset:documents,lance}", "lance"),
        ("requirements: [{metric: num_duplicates}]", "exact_value"),
    ],
)
def test_mistakes_that_are_found_before_anything_runs(suite: Workplace, more: str, said: str) -> None:
    suite.write("mistake.yaml", f"entries:\n  - name: modifier\n    {more}\n")
    done = suite.run("plan", "nightly-benchmark.yaml", "laptop.yaml", "no_ray.yaml", "mistake.yaml")
    assert done.returncode == 2
    assert "mistake.yaml:3" in done.stderr and said in done.stderr


@pytest.mark.ray
def test_with_a_cluster_for_the_entry(suite: Workplace) -> None:
    code, found = statuses(suite, "nightly-benchmark.yaml", "laptop.yaml", "--only", "ray_word_count")
    assert (code, found) == (0, {"documents": "passed", "ray_word_count": "passed"})
    assert verdicts("The same verdicts")["ray_word_count"] == ("success", "passed")
