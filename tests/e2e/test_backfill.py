"""`paceline run --revisions` on real repositories: spread, skipping, failing builds, kills, the order of points."""

import json
import os
import signal

import pytest

from demo_repo import SCRIPT, SUITE, DemoRepo, make_repo
from git_commands import git
from paceline.history import open_store
from patience import wait_until
from source_package import write_package
from workplace import Workplace


@pytest.fixture
def demo(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("DEMO_LEDGER", str(place.path / "ledger"))
    monkeypatch.setenv("DEMO_NOISE", "0.01")
    monkeypatch.setenv("PACELINE_CACHE", str(place.path / "cache"))
    place.write("paceline.yaml", SUITE)
    place.write("work.py", SCRIPT)
    return place


def backfill(demo: Workplace, repo: DemoRepo, *words: str, code: int = 0) -> dict:
    done = demo.run("run", "--repo", repo.path, *words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def places(repo: DemoRepo, data: dict) -> list[int]:
    return [repo.revisions.index(one["revision"]) + 1 for one in data["revisions"]]


def test_the_ends_come_first_and_what_is_measured_is_not_run_again(demo: Workplace) -> None:
    repo = make_repo(demo.path / "repo", commits=9, culprit=5, factor=1.5)
    first = backfill(demo, repo, "--revisions", f"{repo.revision(1)}..main", "--max", "3")
    assert places(repo, first) == [9, 1, 5]
    assert demo.ran() == ["9", "1", "5"]
    rest = backfill(demo, repo, "--revisions", f"{repo.revision(1)}..main")
    assert rest["already"] == 3
    assert sorted(places(repo, rest)) == [2, 3, 4, 6, 7, 8]
    again = backfill(demo, repo, "--last", "9")
    assert (again["already"], again["revisions"]) == (9, [])
    assert len(demo.ran()) == 9
    with open_store(demo.path / "results/benchmark.db") as store:
        [series] = store.iter_columns(cases=["work"], metrics=["work_s"])
        assert {one.revision for one in store.sessions()} == set(repo.revisions)
    assert len(series.values) == 9
    listed = demo.run("regressions", "--repo", str(repo.path), "--json")
    found = [one for one in json.loads(listed.stdout) if one["metric"] == "work_s"]
    # Measured in any order, judged in the order of commits.
    assert [one["first_bad"]["revision"] for one in found] == [repo.revision(5)]
    assert found[0]["last_good"]["revision"] == repo.revision(4)


def test_an_edited_script_and_failed_runs_are_measured_again(demo: Workplace) -> None:
    repo = make_repo(demo.path / "repo", commits=2)
    backfill(demo, repo, "--last", "2")
    demo.write("work.py", f"{SCRIPT}\n# edited\n")
    assert backfill(demo, repo, "--last", "2")["already"] == 0
    demo.write("work.py", f"{SCRIPT}\nraise SystemExit(3)\n")
    failed = backfill(demo, repo, "--last", "2", code=1)
    assert [one["cases"] for one in failed["revisions"]] == [{"work": "failed"}] * 2
    assert backfill(demo, repo, "--last", "2")["already"] == 2
    assert backfill(demo, repo, "--last", "2", "--rerun-failed", code=1)["already"] == 0


def test_a_revision_that_does_not_build_is_a_record_and_passed_over(demo: Workplace) -> None:
    repo = make_repo(demo.path / "repo", commits=5, broken=frozenset({3}))
    words = ("--revisions", f"{repo.revision(1)}..main", "--setup", "sh build.sh")
    data = backfill(demo, repo, *words)
    [broken] = [one for one in data["revisions"] if one["reason"]]
    assert broken["revision"] == repo.revision(3)
    assert "cannot be built" in broken["reason"]
    assert demo.ran() == ["5", "1", "2", "4"]
    record = demo.record(broken["session"], "work")
    assert (record["status"], record["revision"]) == ("launch_error", repo.revision(3))
    assert record["reason"].startswith("cannot be built: the set-up failed")
    assert backfill(demo, repo, *words)["already"] == 5
    again = backfill(demo, repo, *words, "--rerun-failed", code=1)
    assert places(repo, again) == [3]
    # Another way to build it is another measurement.
    assert backfill(demo, repo, "--last", "5")["already"] == 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_again_and_again_it_goes_on(demo: Workplace, jobs: str) -> None:
    repo = make_repo(demo.path / "repo", commits=12)
    words = ("run", "--repo", str(repo.path), "--last", "12", "--setup", "sh build.sh", "--jobs", jobs)
    for enough in (2, 6):
        process = demo.start(*words)
        wait_until(lambda enough=enough: len(demo.ran()) >= enough, by=process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not _complete(demo) >= set(repo.revisions)
    done = demo.run(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["already"] >= 4
    # At most the run that was under way is made again, once for each kill.
    assert set(demo.ran()) == {str(number) for number in range(1, 13)}
    assert len(demo.ran()) <= 14
    assert _complete(demo) == set(repo.revisions)


def _complete(demo: Workplace) -> set[str]:
    """The revisions whose numbers the history has."""
    with open_store(demo.path / "results/benchmark.db") as store:
        found = [store.records(one) for one in store.sessions()]
    return {one.revision for records in found for one in records if one.status == "passed"}


def test_what_was_lost_between_files_and_history_is_added_to_it(demo: Workplace) -> None:
    repo = make_repo(demo.path / "repo", commits=3)
    backfill(demo, repo, "--last", "3", "--no-history")
    assert not (demo.path / "results/benchmark.db").exists()
    assert backfill(demo, repo, "--last", "3")["already"] == 3
    assert _complete(demo) == set(repo.revisions)
    assert len(demo.ran()) == 3


def test_tags_are_chosen_by_glob_and_each_runs_its_own_copy_of_a_script(
    demo: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = demo.path / "repo"
    repo.mkdir()
    git(repo, "init", "--quiet", "--initial-branch=main")
    for number in range(1, 5):
        (repo / "step.txt").write_text(f"{number}\n")
        if number > 1:
            (repo / "bench.py").write_text(
                f"from paceline import emit\nemit.metrics({{'work_s': {number}}})\n"
            )
        git(repo, "add", ".")
        git(repo, "commit", "--quiet", "-m", f"Step {number}")
        git(repo, "tag", *(["-a", "-m", "x"] if number % 2 else []), f"v{number}.0")
    git(repo, "tag", "other")
    (repo / "paceline.yaml").write_text("entries:\n  - {name: own, script: bench.py}\n")
    done = demo.run("run", repo / "paceline.yaml", "--tags", "v*", "--results-dir", "results", "--json")
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    assert [one["title"] for one in data["revisions"]] == ["Step 4", "Step 1", "Step 3", "Step 2"]
    values = {
        one["title"]: demo.record(one["session"], "own")["metrics"].get("work_s", {}).get("value")
        for one in data["revisions"]
    }
    assert values == {"Step 4": 4, "Step 1": None, "Step 3": 3, "Step 2": 2}
    old = next(one for one in data["revisions"] if one["title"] == "Step 1")
    assert "it has no bench.py" in demo.record(old["session"], "own")["reason"]
    again = demo.run("run", repo / "paceline.yaml", "--tags", "v*", "--results-dir", "results", "--json")
    assert json.loads(again.stdout)["already"] == 4


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--revisions", "none..main"], "has no revision 'none'"),
        (["--revisions", "main...main"], "A...B is something else"),
        (["--tags", "v*"], "has no tag like 'v*'"),
        (["--tags", "v*", "--revisions", "main"], "give one of them"),
        (["--every", "2"], "--every needs --revisions"),
        (["--install", "."], "--repo needs --revisions"),
        (["--last", "2", "--resume", "x"], "--resume cannot be used with --revisions"),
        (["--last", "2", "--results-dir", "s3://bucket/x"], "keeps its sessions in a directory"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(demo: Workplace, words: list[str], complaint: str) -> None:
    repo = make_repo(demo.path / "repo", commits=2)
    done = demo.run("run", "--repo", repo.path, *words)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert demo.ran() == []


def test_each_revision_has_an_environment_of_its_own(demo: Workplace) -> None:
    repo = demo.path / "repo"
    repo.mkdir()
    git(repo, "init", "--quiet", "--initial-branch=main")
    for number in (1, 2):
        write_package(repo, number)
        git(repo, "add", ".")
        git(repo, "commit", "--quiet", "-m", f"Step {number}")
    script = "import demo_pkg\nfrom paceline import emit\nemit.metrics({'work_s': demo_pkg.SECONDS})\n"
    demo.write("suite/work.py", script)
    demo.write("suite/paceline.yaml", SUITE)
    words = ("run", "suite/paceline.yaml", "--repo", str(repo), "--last", "2", "--install", ".", "--json")
    done = demo.run(*words)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    values = [demo.record(one["session"], "work")["metrics"]["work_s"]["value"] for one in data["revisions"]]
    assert values == [2, 1]
    assert json.loads(demo.run(*words).stdout)["already"] == 2
