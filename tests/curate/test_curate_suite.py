"""The suite of curation benchmarks through `paceline run`, all of it but smaller."""

import json
import shutil
from pathlib import Path

import pytest

from workplace import Workplace

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

# What makes the suite small, and what it then has to find.
SMALLER = {
    "--documents=20000": "--documents=600 --mean-words=80",
    "--pages=500": "--pages=20",
    "--repeat-factor=2000": "--repeat-factor=4",
    "exact_value: 20000": "exact_value: 600",
    "exact_value: 18000": "exact_value: 540",
    "exact_value: 2000\n      - metric: num_output": "exact_value: 60\n      - metric: num_output",
    "exact_value: 2000\n      - metric: total_doc": "exact_value: 80\n      - metric: total_doc",
    "min_value: 10000": "min_value: 300",
    "min_value: 2000": "min_value: 60",
    "min_value: 1000": "min_value: 30",
    "min_value: 100\n": "min_value: 20\n",
}


@pytest.fixture
def suite(place: Workplace) -> str:
    for name in ("scripts", "data"):
        shutil.copytree(
            BENCHMARKS / name, place.path / "benchmarks" / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    text = (BENCHMARKS / "curation.yaml").read_text()
    for before, after in SMALLER.items():
        assert before in text, before
        text = text.replace(before, after)
    place.write("benchmarks/curation.yaml", text)
    return "benchmarks/curation.yaml"


def run(place: Workplace, suite: str, *words: str) -> dict[str, str]:
    fixed = ("--session-name", "s", "--results-dir", "results", "--sink", "none", "--no-history")
    done = place.run("run", suite, *fixed, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: record["status"] for name, record in place.records("s").items()}


def test_every_local_entry_passes_and_leaves_its_result_files(place: Workplace, suite: str) -> None:
    found = run(place, suite, "--exclude", "alm_pipeline_xenna")
    scripts = {
        path.stem.removesuffix("_benchmark") for path in (BENCHMARKS / "scripts").glob("*_benchmark.py")
    }
    local = {name.removesuffix("_local") for name in found if name.endswith("_local")}
    # `test_benchmark.py` is for trying out the runner itself.
    assert scripts - {"test"} == local
    assert set(found.values()) == {"passed"}
    for name in found:
        files = {file.name for file in (place.path / "results" / "s" / name).iterdir()}
        assert {"params.json", "metrics.json", "tasks.pkl", "tasks.jsonl"} <= files


@pytest.mark.ray
def test_the_seeds_entry_passes_on_xenna(place: Workplace, suite: str) -> None:
    assert run(place, suite, "--only", "alm_pipeline_xenna") == {"alm_pipeline_xenna": "passed"}
    metrics = json.loads((place.path / "results" / "s" / "alm_pipeline_xenna" / "metrics.json").read_text())
    assert metrics["is_success"] is True and metrics["num_output_entries"] == 20
