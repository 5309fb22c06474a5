"""Why something got worse: real profiles of both sides, by real profilers, after a loss that is told and not timed."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from git_commands import git
from workplace import Workplace

# The numbers are told; the work beside them is real, so that a profiler has something to see.
BENCH = """
import lib
from paceline import emit
lib.work()
emit.metrics({"work_s": lib.SECONDS})
emit.metric("table_bytes", lib.BYTES, unit="bytes", direction="lower")
"""
GOOD = """
import time
SECONDS, BYTES = 2.0, 1000
def walk():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        sum(range(1000))
def work():
    walk()
"""
BAD = f"""{GOOD.replace("2.0, 1000", "3.0, 2000")}
def walk_the_long_way():
    table = [bytes(1000) for _ in range(20_000)]
    end = time.process_time() + 0.5
    while time.process_time() < end:
        sum(range(1000))
    return table
def work():
    walk()
    return walk_the_long_way()
"""
SUITE = "entries:\n  - {name: work, script: bench.py}\n"


@pytest.fixture
def demo(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("PACELINE_CACHE", str(place.path / "cache"))
    repo = place.path / "repo"
    place.write("repo/bench.py", BENCH)
    place.write("repo/paceline.yaml", SUITE)
    git(place.path, "init", "--quiet", "--initial-branch=main", "repo")
    for number in range(1, 5):
        place.write("repo/lib.py", GOOD if number < 3 else BAD)
        place.write("repo/step.txt", str(number))
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "-m", f"Step {number}")
    return place


def explained(demo: Workplace, *words: str) -> tuple[dict, Path]:
    ends = ("--base", "main~2", "--head", "main")
    done = demo.run("check", "repo/paceline.yaml", *ends, *words, "--runs", "12", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    data = json.loads(done.stdout)
    return data["explained"][0], next((demo.path / "results").glob("check-*"))


def test_a_loss_of_time_is_shown_in_a_differential_flame_graph(demo: Workplace) -> None:
    one, directory = explained(demo, "--metric", "work_s")
    assert one["profiler"] == "py-spy", one["note"]
    assert one["functions"][0]["name"] == "walk_the_long_way (lib.py)"
    assert one["functions"][0]["base"] == 0 < one["functions"][0]["head"]
    assert "+def walk_the_long_way():" in one["diff"] and "step.txt" not in one["diff"]
    page = Path(one["graph"]).read_text()
    assert "<svg" in page and "walk_the_long_way (lib.py): base 0 s" in page and "<script" not in page
    text = (directory / "check.md").read_text()
    assert "| walk\\_the\\_long\\_way (lib.py) |" in text.replace(
        "walk_the_long_way", "walk\\_the\\_long\\_way"
    )
    assert "+def walk_the_long_way():" in text
    # Profiled runs are kept apart from those that were measured.
    measured = [json.loads(line) for line in (directory / "journal.jsonl").read_text().splitlines()]
    assert {entry["arm"] for entry in measured if entry["kind"] == "trial"} == {"base", "head"}


def test_a_loss_of_memory_is_explained_by_allocations(demo: Workplace) -> None:
    one, _ = explained(demo, "--metric", "table_bytes")
    assert one["profiler"] == "memray", one["note"]
    assert one["unit"] == "bytes"
    assert "(lib.py)" in one["functions"][0]["name"]
    assert one["functions"][0]["head"] > 1000 * 20_000


def test_a_bisection_explains_its_culprit(demo: Workplace) -> None:
    ends = ("--good", "main~3", "--bad", "main", "--case", "work", "--metric", "work_s", "--out", "out")
    done = demo.run("bisect", "--config", "repo/paceline.yaml", *ends, "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    revisions = git(demo.path / "repo", "rev-list", "--reverse", "main").split()
    assert data["culprit"] == revisions[2]
    assert data["explained"]["functions"], data["explained"]["note"]
    assert data["explained"]["functions"][0]["name"] == "walk_the_long_way (lib.py)"
    assert f"--base {revisions[1]} --head {revisions[2]}" in data["reproduce"]
    page = (demo.path / "out/bisect.html").read_text()
    link = Path(data["explained"]["graph"]).relative_to(demo.path / "out")
    assert f'href="{link}"' in page and "walk_the_long_way" in page


def test_a_missing_profiler_is_said(demo: Workplace) -> None:
    script = "#!/bin/sh\necho '{\"work_s\": '$(cat {repo}/seconds.txt)'}' > \"$2/metrics.json\"\n"
    tools = demo.path / "tools"
    tools.mkdir()
    for name in ("git", "sh", "cat", "env"):
        (tools / name).symlink_to(shutil.which(name) or "")
    repo = demo.path / "repo"
    for number in (5, 6):
        demo.write("repo/bench.sh", script.replace("{repo}", "${0%/*}")).chmod(0o755)
        demo.write("repo/seconds.txt", "2.0" if number == 5 else "3.0")
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "-m", f"Step {number}")
    demo.write("shell.yaml", "script_base_dir: repo\nentries:\n  - {name: work, script: bench.sh}\n")
    words = (
        "check",
        "shell.yaml",
        "--repo",
        "repo",
        "--base",
        "main~1",
        "--head",
        "main",
        "--metric",
        "work_s",
    )
    done = demo.run(*words, "--runs", "12", "--json", PATH=str(tools))
    assert done.returncode == 1, done.stdout + done.stderr
    [one] = json.loads(done.stdout)["explained"]
    assert "perf is not installed" in one["note"]
    assert "+3.0" in one["diff"]
    if not _perf_works(demo.path):
        pytest.skip("perf may not sample here")
    done = demo.run(*words, "--runs", "12", "--json")
    [one] = json.loads(done.stdout)["explained"]
    assert one["profiler"] == "perf", one["note"]
    assert Path(one["graph"]).exists()


def _perf_works(place: Path) -> bool:
    perf = shutil.which("perf")
    words = [perf or "false", "record", "-F", "99", "-g", "-o", str(place / "perf.data"), "--", "true"]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0
