"""Data of the nightly suite is made once, and again when what it is made of has changed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CACHED = Path(__file__).parents[2] / "benchmarks/data/cached.py"
MANIFEST = ("make_alm_manifest.py", "--", "--output=@/manifest.jsonl", "--entries=3")


def make(into: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CACHED), f"--into={into}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    done = make(tmp_path / "data", *MANIFEST, "--seed=1")
    assert done.returncode == 0 and "made 1 files" in done.stdout, done.stderr
    return tmp_path / "data"


def test_what_is_there_is_found_and_not_touched(data: Path) -> None:
    before = (data / "manifest.jsonl").stat()
    done = make(data, *MANIFEST, "--seed=1")
    assert "found 1 files" in done.stdout
    assert (data / "manifest.jsonl").stat() == before


def test_other_arguments_make_other_data(data: Path) -> None:
    before = (data / "manifest.jsonl").read_bytes()
    assert "made 1 files" in make(data, *MANIFEST, "--seed=2").stdout
    assert (data / "manifest.jsonl").read_bytes() != before


def test_damaged_data_is_made_again(data: Path) -> None:
    before = (data / "manifest.jsonl").read_bytes()
    (data / "manifest.jsonl").write_bytes(before[:-5])
    assert "made 1 files" in make(data, *MANIFEST, "--seed=1").stdout
    assert (data / "manifest.jsonl").read_bytes() == before


def test_a_generator_that_fails_leaves_what_was_there(data: Path) -> None:
    done = make(data, "make_alm_manifest.py", "--", "--output=@/manifest.jsonl", "--entries=many")
    assert done.returncode == 2 and "invalid int value" in done.stderr
    assert [path.name for path in data.parent.iterdir() if "draft" in path.name] == []
    assert len(json.loads((data / "made.json").read_text())["files"]) == 1
