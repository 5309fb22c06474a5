"""`paceline bisect` on real repositories and packages: unattended, resumable, and plain about what it cannot tell."""

import json
import os
import signal
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demo_repo import SCRIPT, SUITE, DemoRepo, make_repo, make_wheel
from git_commands import git
from paceline.cli import cli
from paceline.errors import PacelineError
from paceline.finding import Finding, Place
from paceline.history import open_store
from paceline.history.findings import write_findings
from patience import wait_until
from workplace import Workplace


@pytest.fixture
def demo(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("DEMO_LEDGER", str(place.path / "ledger"))
    monkeypatch.setenv("DEMO_NOISE", "0.01")
    monkeypatch.setenv("PACELINE_CACHE", str(place.path / "cache"))
    place.write("paceline.yaml", SUITE)
    place.write("work.py", SCRIPT)
    return place


def words(repo: DemoRepo, *more: str) -> list[str]:
    ends = ["--good", repo.revision(1), "--bad", "main"]
    return ["bisect", "--repo", str(repo.path), *ends, "--case", "work", "--metric", "work_s", *more]


def journal(out: Path) -> list[dict[str, Any]]:
    lines = (out / "journal.jsonl").read_text().splitlines() if (out / "journal.jsonl").exists() else []
    return [entry for entry in map(json.loads, lines) if entry["kind"] == "run"]


def test_it_names_the_commit_past_others_that_do_not_build(demo: Workplace) -> None:
    repo = make_repo(demo.path / "repo", commits=16, culprit=9, broken=frozenset({4, 5}))
    done = demo.run(*words(repo, "--setup", "sh build.sh", "--out", "out", "--json"))
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["culprit"] == repo.revision(9)
    assert data["confidence"] >= 0.95
    assert data == json.loads((demo.path / "out/bisect.json").read_text())
    assert data["runs"] == len(journal(demo.path / "out"))
    unbuildable = [one for one in data["tested"] if "cannot be built" in one["reason"]]
    assert {one["revision"] for one in unbuildable} <= {repo.revision(4), repo.revision(5)}
    page = (demo.path / "out/bisect.html").read_text()
    assert "<svg" in page and "walk the long way" in page and "seconds.txt" in page
    assert "demo@example.invalid" not in page + (demo.path / "out/bisect.md").read_text()
    assert "Step 9: walk the long way" in done.stderr
    # The user's own tree was never touched, and the finished search is told again without a run.
    assert demo.ran().count("16") == next(len(one["values"]) for one in data["tested"] if one["index"] == 14)
    ran = len(demo.ran())
    again = demo.run(*words(repo, "--setup", "sh build.sh", "--out", "out", "--json"))
    assert json.loads(again.stdout)["culprit"] == repo.revision(9)
    assert len(demo.ran()) == ran


def test_what_does_not_reproduce_and_what_got_better_is_said(demo: Workplace) -> None:
    same = make_repo(demo.path / "same", commits=6)
    done = demo.run(*words(same))
    assert done.returncode == 1
    assert "Does not reproduce" in done.stdout and "would have been seen" in done.stdout
    better = make_repo(demo.path / "better", commits=6, culprit=3, factor=0.8)
    done = demo.run(*words(better))
    assert done.returncode == 1
    assert "Nothing got worse" in done.stdout and "--improvement" in done.stdout
    # The runs of before count: looking for the opposite goes on with them.
    ran = len(demo.ran())
    done = demo.run(*words(better, "--improvement", "--json"))
    data = json.loads(done.stdout)
    assert data["culprit"] == better.revision(3)
    assert len(demo.ran()) - ran == data["runs"] - 8


def test_killed_and_started_again_no_run_is_lost_or_repeated(demo: Workplace) -> None:
    repo = make_repo(demo.path / "repo", commits=24, culprit=17)
    out = demo.path / "out"
    for enough in (3, 12):
        process = demo.start(*words(repo, "--out", "out", "--no-explain"))
        wait_until(lambda enough=enough: len(journal(out)) >= enough, by=process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    kept = journal(out)
    assert len(kept) >= 12
    done = demo.run(*words(repo, "--out", "out", "--no-explain", "--json"))
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["culprit"] == repo.revision(17)
    runs = journal(out)
    assert runs[: len(kept)] == kept
    trials = [(run["state"], run["trial"]) for run in runs]
    assert len(trials) == len(set(trials)) == data["runs"]
    assert sum(len(one["values"]) for one in data["tested"]) == data["runs"]
    # A run that was cut short has written its line in the ledger too; all others are counted once.
    assert len(runs) <= len(demo.ran()) <= len(runs) + 2
    assert len(list((out / "trials").glob("*/work/record.json"))) == len(runs)


def test_versions_of_a_package_are_searched_in_environments_of_their_own(demo: Workplace) -> None:
    for number in range(1, 9):
        make_wheel(demo.path / "wheels", f"1.{number}", 1.3 if number >= 6 else 1.0)
    demo.write("repo/step.txt", "0")
    demo.write("repo/seconds.txt", "2.0")
    where = ("--find-links", "wheels", "--no-index")
    ends = ("--package", "demo-dep", "--good", "1.1", "--bad", "1.8", "--case", "work", "--metric", "work_s")
    done = demo.run("bisect", *ends, *where, "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["culprit"], data["kind"], data["subject"]) == ("1.6", "version", "demo-dep==1.6")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (["--good", "no-such-ref"], "has no revision 'no-such-ref'"),
        (["--good", "main", "--bad", "main"], "there is no commit between"),
        (["--case", "other"], "has no case 'other'"),
        (["--setup", "make 'all"], "cannot be read"),
        (["--regression", "abcd", "--db", "none.db"], "none.db"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(demo: Workplace, change: list[str], complaint: str) -> None:
    repo = make_repo(demo.path / "repo", commits=3)
    with chdir(demo.path), pytest.raises(PacelineError) as raised:
        cli.main(words(repo, *change), standalone_mode=False)
    assert raised.value.exit_code == 2
    assert complaint in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert demo.ran() == []


def test_a_metric_that_the_case_has_not_ends_the_search_with_those_it_has(demo: Workplace) -> None:
    repo = make_repo(demo.path / "repo", commits=3)
    done = demo.run(*words(repo, "--metric", "walk_s"))
    assert done.returncode == 1
    assert "it has no number walk_s, only" in done.stdout and "work_s" in done.stdout
    assert demo.ran() == ["1", "1"]


def test_what_came_of_a_regression_is_kept_with_it(demo: Workplace) -> None:
    repo = make_repo(demo.path / "repo", commits=6, culprit=4)
    place = [Place(revision=repo.revision(number), session=f"night-{number}") for number in (1, 6)]
    suspects = tuple(
        {"kind": "commit", "revision": repo.revision(n), "subject": f"Step {n}", "author": "Demo", "time": ""}
        for n in (6, 5, 4)
    )
    ends = {"last_good": place[0], "first_bad": place[1], "suspects": suspects}
    found = Finding(id="f00df00df0", case="work", metric="work_s", verdict="worse", effect=0.15, **ends)
    quiet = replace(found, id="beefbeef00", first_bad=replace(place[1], revision=repo.revision(3)))
    with open_store(demo.path / "results/benchmark.db", create=True) as store, store.database.writing():
        write_findings(store.database, [found, quiet])
    words = ("--config", "paceline.yaml", "--repo", "repo", "--json", "--db", "results/benchmark.db")
    done = demo.run("bisect", "--regression", "f00d", *words)
    assert done.returncode == 0, done.stderr
    done = demo.run("bisect", "--regression", "beef", *words)
    told = json.loads(done.stdout)
    assert (told["culprit"], told["confidence"], told["suspects_confidence"]) == (None, None, None)
    with open_store(demo.path / "results/benchmark.db") as store:
        named, refuted = store.finding("f00d"), store.finding("beef")
    assert named.stage == "bisected" and named.culprit is not None
    assert (named.culprit["revision"], named.culprit["author"]) == (repo.revision(4), "Demo")
    assert named.culprit["probability"] >= 0.95 and named.culprit["runs"] > 0
    assert (refuted.stage, refuted.culprit) == ("not_reproduced", None)


def test_a_script_that_lies_in_the_repository_is_each_revisions_own(place: Workplace) -> None:
    """The library beside it is found by where the script lies, so the user's copy would measure the same everywhere."""
    repo = place.path / "repo"
    place.write("repo/paceline.yaml", "entries:\n  - {name: work, script: work.py}\n")
    place.write(
        "repo/work.py", "import library\nfrom paceline import emit\nemit.metrics({'work_s': library.COST})\n"
    )
    git(place.path, "init", "--quiet", "--initial-branch=main", "repo")
    for step in range(1, 7):
        place.write("repo/library.py", f"STEP = {step}\nCOST = {1.5 if step >= 4 else 1.0}\n")
        git(repo, "add", ".")
        git(repo, "commit", "--quiet", "--message", f"Step {step}")
    ends = ("--good", "main~5", "--bad", "main", "--case", "work", "--metric", "work_s")
    done = place.run("bisect", "--config", "repo/paceline.yaml", "--repo", "repo", *ends, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(done.stdout)
    assert data["subject"] == "Step 4"
    assert data["notes"] == ["work.py lies in the repository: each revision ran its own copy"]


def test_a_script_that_a_revision_does_not_have_is_said(place: Workplace) -> None:
    place.write("repo/library.py", "COST = 1.0\n")
    repo = place.path / "repo"
    git(place.path, "init", "--quiet", "--initial-branch=main", "repo")
    for step in (1, 2):
        git(repo, "add", ".")
        git(repo, "commit", "--quiet", "--allow-empty", "--message", f"Step {step}")
    place.write("repo/paceline.yaml", "entries:\n  - {name: work, script: work.py}\n")
    place.write("repo/work.py", "print('not committed')\n")
    ends = ("--good", "main~1", "--bad", "main", "--case", "work", "--metric", "work_s")
    done = place.run("bisect", "--config", "repo/paceline.yaml", "--repo", "repo", *ends)
    assert done.returncode == 1
    assert "it has no work.py; write {repo_dir} into the entry" in done.stdout
