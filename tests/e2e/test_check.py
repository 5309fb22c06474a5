"""`paceline check` on real repositories: what fails, what passes, what is said of the rest, and where it is told."""

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import fake_github
import fake_gitlab
from fake_github import FakeGitHub
from fake_gitlab import FakeGitLab
from git_commands import git
from loopback import Reply
from paceline.history import open_store
from patience import wait_until
from source_package import write_package
from workplace import Workplace

# The numbers are told, not timed: those of the tree, times noise that follows from how many runs there were before.
SCRIPT = """
import os, pathlib, random
from paceline import emit

here = pathlib.Path(__file__).parent
ledger = pathlib.Path(os.environ["DEMO_LEDGER"])
with ledger.open("a") as file:
    print(os.environ.get("PYTHONHASHSEED", "none"), file=file)
noise = random.Random(len(ledger.read_text().splitlines())).gauss(1, 0.01)
emit.metrics({"work_s": float((here / "seconds.txt").read_text()) * noise})
"""
SUITE = """
entries:
  - {name: work, script: bench.py}
"""


@pytest.fixture
def demo(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A repository with a main branch and a feature branch, which is checked out and changes nothing yet."""
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "CI_", "GITLAB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DEMO_LEDGER", str(place.path / "ledger"))
    monkeypatch.setenv("PACELINE_CACHE", str(place.path / "cache"))
    place.write("repo/bench.py", SCRIPT)
    place.write("repo/paceline.yaml", SUITE)
    place.write("repo/seconds.txt", "2.0")
    repo = place.path / "repo"
    git(repo, "init", "--quiet", "--initial-branch=main")
    commit(place, "Begin")
    git(repo, "checkout", "--quiet", "-b", "feature")
    return place


def commit(demo: Workplace, message: str, **files: str) -> str:
    repo = demo.path / "repo"
    for name, text in files.items():
        demo.write(f"repo/{name.replace('__', '.')}", text)
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(repo, "rev-parse", "HEAD")


def check(demo: Workplace, *words: str, code: int, **env: str) -> dict[str, Any]:
    told = demo.run(
        "check", "repo/paceline.yaml", "--metric", "work_s", "--no-explain", "--json", *words, **env
    )
    assert told.returncode == code, told.stdout + told.stderr
    return {**(json.loads(told.stdout) if told.stdout.startswith("{") else {}), "stderr": told.stderr}


def test_a_loss_of_a_tenth_fails_and_none_passes(demo: Workplace) -> None:
    commit(demo, "Tidy up", notes__txt="tidy")
    same = check(demo, code=0)
    assert [one["verdict"] for one in same["comparisons"]] == ["same"]
    assert same["verdict"] == "no loss beyond 5 % in 1 comparisons"
    head = commit(demo, "Walk the long way", seconds__txt="2.2")
    worse = check(demo, code=1)
    assert worse["head"]["revision"] == head
    found = re.match(r"worse than the base: work work_s \+([\d.]+) %", worse["verdict"])
    assert found is not None and 5 < float(found[1]) < 15, worse["verdict"]
    assert f"--head {head}" in worse["reproduce"] and "--only work" in worse["reproduce"]
    # Significant, and yet not relevant to who allows more.
    assert check(demo, "--fail-above", "15%", code=0)["verdict"].startswith("no loss beyond 15 %")
    better = commit(demo, "Take the short way", seconds__txt="1.5")
    assert check(demo, code=0)["comparisons"][0]["verdict"] == "better"
    # Early: nothing of this took as many runs as it may.
    assert all(one["runs"] < 200 for one in (same, worse))
    assert check(demo, "--base", head, "--head", better, code=0)["base"]["revision"] == head


def test_the_head_is_held_against_where_it_left_the_base(demo: Workplace) -> None:
    repo = demo.path / "repo"
    base = git(repo, "rev-parse", "HEAD")
    commit(demo, "Feature", notes__txt="new")
    git(repo, "checkout", "--quiet", "main")
    commit(demo, "Main got faster since", seconds__txt="1.0")
    git(repo, "checkout", "--quiet", "feature")
    found = check(demo, "--base", "main", code=0)
    assert found["base"] == {"revision": base, "title": "Begin", "note": "merge base with main"}


def test_what_is_not_committed_is_checked_too(demo: Workplace) -> None:
    demo.write("repo/seconds.txt", "2.4")
    demo.write("repo/data/ignored.bin", "x")
    demo.write("repo/.gitignore", "data/\n")
    found = check(demo, code=1)
    assert found["head"]["note"] == "with uncommitted changes"
    assert "--head" not in found["reproduce"]
    assert (demo.path / "repo/seconds.txt").read_text() == "2.4"
    [snapshot] = (demo.path / "cache/snapshots").glob("*/")
    assert (snapshot / ".gitignore").exists() and not (snapshot / "data").exists()
    # Named, the commit is checked and not the tree.
    assert "nothing was compared" in check(demo, "--head", "HEAD", code=2)["stderr"]


def test_it_says_what_it_did_not_run_and_why(demo: Workplace) -> None:
    suite = "".join(
        f"  - {{name: {name}, script: {script}{more}}}\n"
        for name, script, more in (
            ("work", "bench.py", ""),
            ("new", "new.py", ""),
            ("other", "bench.py", ""),
            ("secretive", "bench.py", ", env: {A: '${NOT_SET_ANYWHERE}'}"),
        )
    )
    text = f"entries:\n{suite}"
    commit(demo, "More benchmarks", paceline__yaml=text, new__py=SCRIPT)
    found = check(demo, "--exclude", "other", code=0)
    told = {one["case"]: one["why"] for one in found["not_run"]}
    assert told["new"] == "the base has no new.py"
    assert told["other"] == "not selected"
    assert "NOT_SET_ANYWHERE" in told["secretive"]
    assert {one["case"] for one in found["comparisons"]} == {"work"}
    assert "nothing was compared" in check(demo, "--only", "new", code=2)["stderr"]


def test_a_case_that_fails_at_the_head_alone_fails_the_check(demo: Workplace) -> None:
    commit(demo, "Break it", bench__py=f"{SCRIPT}\nraise SystemExit('broken')\n")
    found = check(demo, code=1)
    assert found["verdict"] == "worse than the base: work fails (limit 5 %)"
    assert "broken" in json.dumps(found["missing"])


def test_where_nothing_can_be_compared_it_does_not_pass(demo: Workplace) -> None:
    assert "has nothing that main does not have" in check(demo, code=2)["stderr"]
    commit(demo, "Nothing to judge by", notes__txt="x")
    done = demo.run("check", "repo/paceline.yaml", "--metric", "no_such_s", "--runs", "8")
    assert done.returncode == 2
    assert "nothing was compared" in done.stdout
    commit(demo, "Does not build")
    done = demo.run("check", "repo/paceline.yaml", "--setup", "sh -c 'test ! -e notes.txt'")
    assert done.returncode == 2
    assert "the set-up failed" in done.stderr


def test_hash_seeds_differ_between_blocks_and_not_within(demo: Workplace) -> None:
    commit(demo, "Tidy up", notes__txt="tidy")
    check(demo, "--runs", "12", code=0)
    seeds = demo.ran()
    pairs = list(zip(seeds[::2], seeds[1::2], strict=True))
    assert all(one == other and one.isdecimal() for one, other in pairs)
    assert len(set(seeds)) == len(pairs)
    (demo.path / "ledger").unlink()
    check(demo, "--runs", "12", "--no-vary-hash-seed", code=0, PYTHONHASHSEED="7")
    assert set(demo.ran()) == {"7"}
    (demo.path / "ledger").unlink()
    commit(
        demo,
        "Its own seed",
        paceline__yaml=SUITE.replace("bench.py}", "bench.py, env: {PYTHONHASHSEED: '5'}}"),
    )
    check(demo, "--runs", "12", code=0)
    assert set(demo.ran()) == {"5"}


def test_killed_it_goes_on_where_it_was(demo: Workplace) -> None:
    commit(demo, "Walk the long way", seconds__txt="2.2")
    process = demo.start("check", "repo/paceline.yaml", "--metric", "work_s", "--no-explain")
    wait_until(lambda: len(demo.ran()) >= 5, by=process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found = check(demo, code=1)
    assert len(demo.ran()) <= found["runs"] + 1
    assert len(list((demo.path / "results").glob("check-*"))) == 1


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        yield server


def in_github(github: FakeGitHub, demo: Workplace, **more: str) -> dict[str, str]:
    return {**fake_github.environ_of(github, demo.path), "GITHUB_ACTIONS": "true", **more}


def test_a_pull_request_has_one_comment_and_a_new_one_when_it_gets_worse(
    demo: Workplace, github: FakeGitHub
) -> None:
    environ = in_github(github, demo)
    commit(demo, "Tidy up", notes__txt="tidy")
    first = check(demo, code=0, **environ)
    assert "::error" not in first["stderr"]
    [comment] = github.ours
    assert comment["body"].startswith(
        "<!-- paceline check: repo rank: 0 -->\n## ✅ Benchmarks: no loss beyond 5 %"
    )
    commit(demo, "Tidy up more", notes__txt="tidier")
    check(demo, code=0, **environ)
    assert len(github.ours) == 1
    head = commit(demo, "Walk the long way", seconds__txt="2.4")
    worse = check(demo, code=1, **environ)
    # Whoever follows the pull request hears of a new comment, and not of an edited one.
    assert ["✅" in one["body"] for one in github.ours] == [True, False]
    assert "rank: 2 -->" in github.ours[1]["body"] and "| 📉 worse | work |" in github.ours[1]["body"]
    [error] = re.findall(r"^::error .*$", worse["stderr"], re.MULTILINE)
    place = "::error file=paceline.yaml,line=3,title=work got worse::work work_s: "
    assert error.startswith(place) and 15 < float(error.removeprefix(place).partition(" ")[0]) < 25
    assert f"--head {head}" in error
    commit(demo, "Still long", notes__txt="still")
    check(demo, code=1, **environ)
    commit(demo, "Short again", seconds__txt="2.0")
    check(demo, code=0, **environ)
    assert len(github.ours) == 2
    assert "✅" in github.ours[1]["body"]
    summary = (demo.path / "summary.md").read_text()
    assert summary.count("## ✅ Benchmarks") == 3 and summary.count("## ❌ Benchmarks") == 2
    assert fake_github.TOKEN not in summary + json.dumps(github.comments) + json.dumps(worse)


def test_a_token_that_may_only_read_costs_the_comment_and_not_the_verdict(
    demo: Workplace, github: FakeGitHub
) -> None:
    commit(demo, "Tidy up", notes__txt="tidy")
    github.refuse = [Reply(403, b'{"message": "Resource not accessible by integration"}')] * 5
    found = check(demo, code=0, **in_github(github, demo))
    assert "the comment could not be written: GitHub answered 403" in found["stderr"]
    assert "pull-requests: write" in found["stderr"]
    github.refuse = []
    assert (
        "GITHUB_TOKEN is not set" in check(demo, code=0, **in_github(github, demo, GITHUB_TOKEN=""))["stderr"]
    )
    assert github.ours == []
    # A push to a branch is no pull request.
    pushed = in_github(github, demo, GITHUB_EVENT_PATH=os.devnull)
    assert "comment" not in check(demo, code=0, **pushed)["stderr"]


def test_a_merge_request_has_a_note(demo: Workplace) -> None:
    with FakeGitLab() as gitlab:
        environ = fake_gitlab.environ_of(gitlab, CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main")
        git(demo.path / "repo", "update-ref", "refs/remotes/origin/main", "main")
        commit(demo, "Tidy up", notes__txt="tidy")
        check(demo, code=0, **environ)
        check(demo, code=0, **environ)
        assert len(gitlab.ours) == 1
        commit(demo, "Walk the long way", seconds__txt="2.4")
        check(demo, code=1, **environ)
        check(demo, code=1, **environ)
        assert [re.search(r"rank: (\d+)", one["body"])[1] for one in gitlab.ours] == ["0", "2"]
        refused = check(demo, code=1, **{**environ, "GITLAB_TOKEN": "glpat-another-token"})
        assert "the note could not be written: 127.0.0.1 answered 401" in refused["stderr"]


def test_names_of_cases_give_no_commands_and_call_nobody(demo: Workplace, github: FakeGitHub) -> None:
    name = "@team ::warning::x%0A"
    text = SUITE.replace("name: work", f"name: '{name}'")
    commit(demo, "A name", paceline__yaml=text, seconds__txt="2.4")
    found = check(demo, code=1, **in_github(github, demo))
    lines = [line for line in found["stderr"].splitlines() if line.startswith("::")]
    assert len(lines) == 1
    assert lines[0].startswith("::error ") and "%250A" in lines[0]
    assert "title=@team %3A%3Awarning%3A%3Ax" in lines[0]
    [comment] = github.ours
    table = next(line for line in comment["body"].splitlines() if line.startswith("| 📉"))
    assert "@team" not in table


def test_a_table_a_file_and_a_history(demo: Workplace) -> None:
    commit(demo, "Walk the long way", seconds__txt="2.2")
    words = ("--metric", "work_s", "--no-explain", "--markdown", "check.md", "--db", "history.db")
    done = demo.run("check", "repo/paceline.yaml", *words)
    assert done.returncode == 1
    assert re.search(r"^worse +work +work_s +[\d.]+ s +2[\d.]* s +\+", done.stdout, re.MULTILINE)
    assert "again: paceline check repo/paceline.yaml --base" in done.stdout
    assert (demo.path / "check.md").read_text().startswith("## ❌ Benchmarks")
    again = done.stdout.partition("again: ")[2].split("\n")[0]
    with open_store(demo.path / "history.db") as store:
        variants = [one.case.variant for session in store.sessions() for one in store.records(session)]
    assert set(variants) == {"base", "head"}
    assert demo.run(*shlex.split(again)[1:], "--no-explain").returncode == 1


def test_each_side_has_an_environment_of_its_own(demo: Workplace) -> None:
    repo = demo.path / "repo"
    script = "import demo_pkg\nfrom paceline import emit\nemit.metrics({'work_s': float(demo_pkg.SECONDS)})\n"
    demo.write("suite/work.py", script)
    demo.write("suite/paceline.yaml", "entries:\n  - {name: work, script: work.py}\n")
    write_package(repo, 2)
    base = commit(demo, "A package")
    write_package(repo, 3)
    words = (
        "--repo",
        "repo",
        "--base",
        base,
        "--install",
        ".",
        "--metric",
        "work_s",
        "--runs",
        "12",
        "--no-explain",
    )
    done = demo.run("check", "suite/paceline.yaml", *words)
    assert done.returncode == 1, done.stderr
    assert "+50 %" in done.stdout
