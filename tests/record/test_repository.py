"""What git is asked of a repository that somebody else made."""

import subprocess
from pathlib import Path

import pytest

from paceline.record.repository import ask_git, git_state


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    git(path, "init", "--quiet")
    (path / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    (path / "a.txt").write_text("one\n")
    git(path, "add", ".")
    git(path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "one")
    (path / "a.txt").write_text("two\n")
    return path


def git(path: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=path, check=True, capture_output=True)


@pytest.mark.parametrize(
    "key",
    [
        "core.fsmonitor",
        "core.pager",
        "core.alternateRefsCommand",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "gpg.program",
        "gpg.openpgp.program",
    ],
)
def test_its_configuration_starts_nothing(repository: Path, tmp_path: Path, key: str) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    git(repository, "config", key, str(trap))
    git(repository, "config", "filter.evil.required", "true")
    git(repository, "config", "log.showSignature", "true")
    (repository / ".git/hooks/post-index-change").write_text(trap.read_text())
    (repository / ".git/hooks/post-index-change").chmod(0o755)
    state = git_state(repository)
    assert state["dirty"] and state["diff_sha256"]
    assert (ask_git(repository, "log", "--format=%H") or "").strip() == state["revision"]
    assert not (tmp_path / "sprung").exists()
