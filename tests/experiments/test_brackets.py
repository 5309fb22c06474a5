"""The way between two points of the history: packages first, then commits, and a word about what cannot be tried."""

from pathlib import Path
from typing import Any

from demo_repo import make_repo, make_wheel
from paceline.experiments.bisect.steps import Bracket, find_bracket, version_steps
from paceline.history.findings import Place


def bracket(before: dict[str, str], after: dict[str, str], **more: Any) -> Bracket:
    good, bad = more.pop("good", Place(session="one")), more.pop("bad", Place(session="two"))
    repo = more.pop("repo", None)
    facts = more.pop("facts", ({}, {}))
    environments = ({"packages": before, **facts[0]}, {"packages": after, **facts[1]})
    return find_bracket(good, bad, environments, repo=repo, **more)


def test_one_package_is_tried_version_by_version(tmp_path: Path) -> None:
    for version in ("1.0", "1.1", "1.2", "1.3"):
        make_wheel(tmp_path, version, 1.0)
    found = bracket(
        {"demo-dep": "1.0", "other": "3"},
        {"demo-dep": "1.3", "other": "3"},
        options=("--no-index", "--find-links", str(tmp_path)),
    )
    assert found.steps is not None
    good, states = found.steps
    assert [state.ident for state in states] == ["demo-dep==1.1", "demo-dep==1.2", "demo-dep==1.3"]
    assert (good.packages, good.overlay) == (("demo-dep==1.0",), True)
    assert states[0].packages == ("demo-dep==1.1",)
    assert found.notes == ()


def test_an_environment_of_its_own_keeps_what_did_not_change() -> None:
    found = bracket(
        {"a": "1", "b": "2", "c": "9"}, {"a": "1", "b": "3", "d": "4"}, own=True, options=("--no-index",)
    )
    assert found.steps is not None
    good, states = found.steps
    assert (good.packages, good.overlay) == (("b==2", "c==9", "a==1"), False)
    told = [(state.title, state.packages) for state in states]
    assert told == [
        ("b 2 → 3", ("b==3", "c==9", "a==1")),
        ("c 9 was removed", ("b==3", "a==1")),
        ("d 4 was added", ("b==3", "d==4", "a==1")),
    ]


def test_commits_follow_the_packages_in_the_new_environment(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commits=4)
    found = bracket(
        {"a": "1"},
        {"a": "2"},
        repo=repo.path,
        good=Place(session="one", revision=repo.revision(2)),
        bad=Place(session="two", revision=repo.revision(4)),
        options=("--no-index",),
    )
    assert found.steps is not None
    good, states = found.steps
    assert [state.kind for state in states] == ["version", "commit", "commit"]
    assert good.revision == states[0].revision == repo.revision(2)
    assert [state.revision for state in states[1:]] == [repo.revision(3), repo.revision(4)]
    assert {state.packages for state in states} == {("a==2",)}


def test_what_cannot_be_tried_again_is_told() -> None:
    facts = (
        {"kernel": "6.1", "python": {"version": "3.11.2"}},
        {"kernel": "6.2", "python": {"version": "3.11.2"}},
    )
    found = bracket({"a": "git+x@1", "b": "1"}, {"a": "git+x@2"}, facts=facts)
    assert found.steps is None
    assert found.notes == (
        "kernel changed from 6.1 to 6.2",
        "a changed from git+x@1 to git+x@2, which cannot be tried again",
        "b changed from 1 to None, which cannot be tried again",
    )


def test_commits_that_the_repository_has_not_are_told(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commits=2)
    ends = {"good": Place(revision="f" * 40), "bad": Place(revision=repo.revision(2))}
    found = bracket({}, {}, repo=repo.path, **ends)
    assert found.steps is None
    assert "its commits cannot be searched" in found.notes[0]


def test_given_versions_are_taken_as_they_come() -> None:
    good, states = version_steps("pkg", ("2.0", "1.0", "3.0"), "2.0", "3.0")
    assert good.packages == ("pkg==2.0",)
    assert [state.ident for state in states] == ["1.0", "3.0"]
