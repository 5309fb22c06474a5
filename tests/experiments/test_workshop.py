"""States made ready: trees that are built once, and packages laid over the Python that runs the tests."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from demo_repo import DemoRepo, make_repo, make_wheel
from paceline.errors import BuildError
from paceline.experiments.builds import build
from paceline.experiments.builds.build import Builder, Candidate
from paceline.experiments.builds.environments import resolve_packages


def candidate(**built: Any) -> Candidate:
    return Candidate(ident="x", label="x", **built)


@pytest.fixture
def repo(tmp_path: Path) -> DemoRepo:
    return make_repo(tmp_path / "repo", commits=3, broken=frozenset({2}))


def test_a_revision_is_built_once_and_one_that_fails_says_why(tmp_path: Path, repo: DemoRepo) -> None:
    command = (
        "sh",
        "-c",
        'echo "$PACELINE_REPO" >> ../built; echo "no rule for it" >&2; sh {repo_dir}/build.sh',
    )
    builder = Builder(cache_dir=tmp_path / "cache", log=tmp_path / "log", repo=repo.path, setup=command)
    made = builder.build(candidate(revision=repo.revision(1)))
    assert made.worktree is not None
    assert builder.build(candidate(revision=repo.revision(1))) == made
    with pytest.raises(BuildError, match="exited with 1: no rule for it"):
        builder.build(candidate(revision=repo.revision(2)))
    built = (made.worktree.path.parent / "built").read_text().split()
    assert built == [str(made.worktree.path), str(made.worktree.path.with_name(repo.revision(2)))]
    assert "no rule for it" in (tmp_path / "log").read_text()
    with pytest.raises(BuildError, match="cannot run no-such-program"):
        Builder(
            cache_dir=tmp_path / "cache", log=tmp_path / "log", repo=repo.path, setup=("no-such-program",)
        ).build(candidate(revision=repo.revision(1)))


def test_the_users_own_tree_is_built_by_every_process(
    tmp_path: Path, repo: DemoRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("sh", "-c", "echo built >> built")
    builder = Builder(cache_dir=tmp_path / "cache", log=tmp_path / "log", repo=repo.path, setup=command)
    for runner in ("first", "first", "second"):
        monkeypatch.setattr(build, "RUNNER", runner)
        made = builder.build(candidate())
        assert made.worktree is not None and made.worktree.path == repo.path
    assert (repo.path / "built").read_text().split() == ["built", "built"]


def test_an_overlay_has_its_own_packages_and_all_of_ours(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "1.0", 1.5)
    where = ("--no-index", "--find-links", str(tmp_path / "wheels"))
    builder = Builder(cache_dir=tmp_path / "cache", log=tmp_path / "log", options=where)
    made = builder.build(candidate(packages=("demo-dep==1.0",), overlay=True))
    assert made.venv is not None
    program = "import demo_dep, click, paceline.emit; print(demo_dep.FACTOR)"
    done = subprocess.run([made.venv.python, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "1.5", done.stderr


def test_packages_are_resolved_to_the_newest_that_there_are(tmp_path: Path) -> None:
    where = ("--no-index", "--find-links", str(tmp_path))
    for version in ("1.0", "1.10"):
        make_wheel(tmp_path, version, 1.0)
    assert resolve_packages(["demo-dep"], where, base=tmp_path) == ("demo-dep==1.10",)
    with pytest.raises(BuildError, match="cannot be resolved"):
        resolve_packages(["no-such-thing"], where, base=tmp_path)
