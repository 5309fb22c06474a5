"""Data of the nightly suite is made once, and again when what it is made of has changed."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from paceline.history.importers import read
from paceline.model import Record

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


def test_a_past_of_asv_has_what_is_told_of_it(tmp_path: Path) -> None:
    words = ("make_asv_history.py", "--", "--output=@/results", "--planted=@/planted.json", "--commits=100")
    done = make(tmp_path / "asv", *words, "--benchmarks=9", "--seed=1")
    assert done.returncode == 0, done.stderr
    planted = json.loads((tmp_path / "asv/planted.json").read_text())
    batches = list(read(tmp_path / "asv/results"))
    assert {batch.session.revision for batch in batches} == set(planted["commits"]) and len(batches) == 200
    assert {batch.environment["machine_name"] for batch in batches} == {"machine0", "machine1"}
    in_time = [batch.session.commit_time for batch in sorted(batches, key=lambda one: one.session.started_at)]
    assert in_time != sorted(in_time)  # old commits are measured late
    records = [record for batch in batches for record in batch.records]
    assert {record.status.value for record in records} == {"passed", "failed", "skipped"}
    assert {record.case.entry for record in records} == set(planted["kinds"])
    versions = Counter(entry for entry, _ in {(record.case.entry, record.case.version) for record in records})
    assert sorted(versions.values()) == [1] * 8 + [2]
    assert {
        kind: list(planted["kinds"].values()).count(kind) for kind in ("stepped", "quiet", "restless")
    } == {
        "stepped": 3,
        "quiet": 3,
        "restless": 3,
    }
    for step in planted["steps"]:
        values = {
            record.revision: next(iter(record.metrics.values())).value
            for record in records
            if record.case.entry == step["benchmark"]
            and record.metrics
            and record.case.name == records_case(records, step)
        }
        before, after = (
            [values[one] for one in part if one in values]
            for part in around(planted["commits"], step["commit"], 8)
        )
        assert 0.75 < median(after) / median(before) / step["factor"] < 1.33


def records_case(records: list[Record], step: dict[str, str]) -> str:
    return next(
        record.case.name for record in records if record.case.entry == step["benchmark"] and record.metrics
    )


def around(commits: list[str], at: str, count: int) -> tuple[list[str], list[str]]:
    place = commits.index(at)
    return commits[place - count : place], commits[place : place + count]
