"""A session knows its branch, when its commit was made, and where its branch left the default one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from findings_nights import make_repository
from git_commands import git
from in_process import Here, make_here
from paceline.findings.commits import Repository
from paceline.findings.order import read_order, why_in_time
from paceline.history import open_store
from paceline.record.repository import git_state
from stored_records import ENVIRONMENT, record, session

SUITE = "entries: [{name: sort, command: ['true']}]\n"


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Path], Here]:
    """The command line in a directory."""
    for name in ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_BRANCH", "BUILDKITE_BRANCH", "BRANCH_NAME"):
        monkeypatch.delenv(name, raising=False)
    return lambda path: make_here(path, monkeypatch, capsys)


@pytest.fixture
def branched(tmp_path: Path) -> tuple[Path, str]:
    """A repository on a branch that left main two commits ago, and the commit where it did."""
    root = tmp_path / "repo"
    names = make_repository(root, 3)
    git(root, "checkout", "-q", "-b", "feature")
    for number in range(2):
        git(root, "commit", "-q", "--allow-empty", "-m", f"Feature {number}")
    git(root, "checkout", "-q", "main")
    git(root, "commit", "-q", "--allow-empty", "-m", "Later on main")
    git(root, "checkout", "-q", "feature")
    return root, names[-1]


def test_a_branch_has_a_merge_base_with_the_default_one(branched: tuple[Path, str]) -> None:
    root, base = branched
    state = git_state(root)
    assert (state["branch"], state["default_branch"], state["merge_base"]) == ("feature", "main", base)
    assert state["commit_time"] == git(root, "log", "-1", "--format=%cI")
    git(root, "checkout", "-q", "main")
    on_main = git_state(root)
    assert on_main["merge_base"] == on_main["revision"]


@pytest.mark.parametrize(
    ("variables", "branch"),
    [
        ({"GITHUB_HEAD_REF": "feature", "GITHUB_REF_NAME": "12/merge"}, "feature"),
        ({"GITHUB_HEAD_REF": "", "GITHUB_REF_NAME": "main"}, "main"),
        ({"GITHUB_REF_NAME": "12/merge"}, None),
        ({"GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": "v1"}, None),
        ({"CI_COMMIT_BRANCH": "topic"}, "topic"),
        ({"CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "topic", "CI_COMMIT_BRANCH": ""}, "topic"),
        ({"BUILDKITE_BRANCH": "topic"}, "topic"),
        ({"GIT_BRANCH": "origin/topic"}, "topic"),
        ({}, None),
    ],
)
def test_of_a_detached_head_the_ci_knows_the_branch(
    branched: tuple[Path, str], variables: dict[str, str], branch: str | None
) -> None:
    root, base = branched
    git(root, "checkout", "-q", "--detach")
    state = git_state(root, variables)
    assert state.get("branch") == branch and state["merge_base"] == base


def test_the_remotes_head_is_the_default_branch(branched: tuple[Path, str], tmp_path: Path) -> None:
    root, base = branched
    git(root, "branch", "-m", "main", "develop")
    git(root, "checkout", "-q", "develop")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(root), str(clone))
    git(clone, "checkout", "-q", "feature")
    state = git_state(clone)
    assert (state["default_branch"], state["merge_base"]) == ("develop", base)


def test_a_session_and_the_history_keep_it(
    at: Callable[[Path], Here], branched: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, base = branched
    git(root, "checkout", "-q", "--detach")
    monkeypatch.setenv("GITHUB_HEAD_REF", "feature")
    (root / "paceline.yaml").write_text(SUITE)
    assert at(root).run("run", "--session-name", "one").returncode == 0
    known = json.loads((root / "results/one/environment.json").read_text())["git"]
    assert (known["branch"], known["merge_base"]) == ("feature", base)
    with open_store(root / "results/benchmark.db") as store:
        told = store.session("one")
        assert told is not None and (told.branch, told.merge_base) == ("feature", base)
        assert told.commit_time.endswith("Z") and told.commit_time[:4] == known["commit_time"][:4]
        rows = store.query("SELECT branch, merge_base FROM session")[1]
    assert rows == [("feature", base)]
    with open_store(root / "merged.db") as store:
        store.merge_from(root / "results/benchmark.db")
        merged = store.session("one")
    assert merged is not None and merged.merge_base == base


def remember(path: Path, revisions: list[str]) -> None:
    with open_store(path) as store:
        for number, revision in enumerate(revisions, start=1):
            told = record(number=number, revision=revision)
            store.add(session(number, revision=revision), ENVIRONMENT, [told])


def test_what_a_shallow_clone_or_nobody_knows_is_in_the_order_of_time_with_a_line(
    at: Callable[[Path], Here], tmp_path: Path
) -> None:
    root, shallow = tmp_path / "whole", tmp_path / "shallow"
    names = make_repository(root, 4)
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{root}", str(shallow))
    assert git_state(shallow)["shallow"] is True and "shallow" not in git_state(root)
    assert len(Repository(root).order(names)) == 4 and Repository(shallow).order(names) == {}
    database = tmp_path / "benchmark.db"
    remember(database, names)
    with open_store(database) as store:
        shallowly = Repository(shallow)
        assert "is a shallow clone" in why_in_time(read_order(store, shallowly), shallowly)
        assert why_in_time(read_order(store), None) == ""
        assert why_in_time(read_order(store, Repository(root)), Repository(root)) == ""
        assert why_in_time(read_order(store, shallowly), shallowly) == ""  # what the whole one knew is kept
    remember(database, [*names, "f" * 40])
    for directory, line in (
        (shallow, "1 of 5 revisions are in the order of time"),
        (root, "1 of 5 revisions are in the order of time, between those it knows"),
    ):
        done = at(tmp_path).run("regressions", "--repo", str(directory))
        assert line in done.stderr and done.stderr.count("order of time") == 1
    (shallow / "paceline.yaml").write_text(SUITE)
    done = at(shallow).run("run", "--session-name", "one", "--db", str(database))
    assert (done.stdout + done.stderr).count("is a shallow clone") == 1
