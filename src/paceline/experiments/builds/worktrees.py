"""Working trees of a repository's revisions, each checked out once; the repository itself is never touched."""

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import BuildError
from paceline.experiments.builds.cache import keep


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """The files of one revision; builds may leave theirs beside them."""

    path: Path
    revision: str


def checkout(repo: Path | str, ref: str, *, cache_dir: Path) -> Worktree:
    """The working tree of a ref; a repository may also be a URL, of which a mirror is kept.

    The tree is a clone that borrows the repository's objects: fast, and no trace of it in the user's repository.
    """
    source = _source(repo, ref, cache_dir)
    revision = resolve(source, ref)
    directory = cache_dir / "worktrees" / _digest(str(source)) / revision
    keep(directory, lambda lock: _clone(source, revision, directory, lock))
    return Worktree(path=directory, revision=revision)


def resolve(repo: Path, ref: str) -> str:
    """The full name of the commit that a ref stands for."""
    for name in (ref, f"origin/{ref}"):
        done = _try_git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if done.returncode == 0:
            return done.stdout.strip()
    if _try_git(repo, "rev-parse", "--git-dir").returncode:
        raise BuildError(f"{repo} is no git repository: name the one whose revisions are wanted")
    raise BuildError(f"{repo} has no revision {ref!r}: fetch it, or name another")


def revisions_between(repo: Path, good: str, bad: str) -> tuple[str, ...]:
    """The revisions after `good` up to `bad`, oldest first, along the first parents."""
    first, last = resolve(repo, good), resolve(repo, bad)
    if _try_git(repo, "merge-base", "--is-ancestor", first, last).returncode:
        raise BuildError(
            f"{good} is no ancestor of {bad} in {repo}: name a good revision that the bad one came from"
        )
    return tuple(_git(repo, "rev-list", "--first-parent", "--reverse", f"{first}..{last}").split())


def subjects(repo: Path, revisions: Sequence[str]) -> dict[str, str]:
    """The first line of each commit's message."""
    words = ("log", "--no-walk=unsorted", "--format=%H%x00%s", "--stdin")
    lines = _git(repo, *words, feed="".join(f"{revision}\n" for revision in revisions)).splitlines()
    return {revision: subject for revision, _, subject in (line.partition("\0") for line in lines)}


def fetch(repo: Path) -> None:
    """Bring the repository's remote branches and tags up to date; its own branches stay."""
    _git(repo, "fetch", "--quiet", "--tags", "--prune")


def diff_stat(repo: Path, revision: str) -> str:
    """Which files a commit changed and how much, against its first parent; who wrote it is not told."""
    words = (
        "show",
        "--first-parent",
        "--stat=100",
        "--format=",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
    )
    return _git(repo, *words, "--end-of-options", revision).strip("\n")


def _source(repo: Path | str, ref: str, cache_dir: Path) -> Path:
    """The repository on this machine; a mirror of a remote one, brought up to date when it lacks the ref."""
    text = str(repo)
    if isinstance(repo, Path) or not ("://" in text or text.startswith("git@")):
        return Path(os.path.abspath(Path(text).expanduser()))  # noqa: PTH100 - as the user named it, links kept
    mirror = cache_dir / "mirrors" / _digest(text)
    made = keep(mirror, lambda lock: _mirror(text, mirror, lock))
    if made.get("url") and _try_git(mirror, "cat-file", "-e", f"{ref}^{{commit}}").returncode:
        _git(mirror, "fetch", "--quiet", "--prune", "origin")
    return mirror


def _mirror(url: str, directory: Path, lock: int) -> Mapping[str, Any]:
    _git(directory.parent, "clone", "--quiet", "--mirror", "--", url, str(directory), lock=lock)
    return {"url": url}


def _clone(source: Path, revision: str, directory: Path, lock: int) -> Mapping[str, Any]:
    borrow = ("clone", "--quiet", "--shared", "--no-checkout", "--", str(source), str(directory))
    _git(directory.parent, *borrow, lock=lock)
    _git(directory, "checkout", "--quiet", "--detach", revision, lock=lock)
    return {"revision": revision, "repo": str(source)}


def _git(directory: Path, *words: str, lock: int | None = None, feed: str | None = None) -> str:
    done = _try_git(directory, *words, lock=lock, feed=feed)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise BuildError(f"git {words[0]} in {directory} failed: {last[0]}")
    return done.stdout


def _try_git(
    directory: Path, *words: str, lock: int | None = None, feed: str | None = None
) -> subprocess.CompletedProcess[str]:
    # What a git hook sets would send every command to the hook's repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    kept = {name: os.environ[name] for name in ("GIT_SSH_COMMAND", "GIT_ASKPASS") if name in os.environ}
    try:
        return subprocess.run(
            ["git", "-C", str(directory), *words],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            input=feed or "",
            env={**env, **kept, "GIT_TERMINAL_PROMPT": "0"},
            pass_fds=() if lock is None else (lock,),
        )
    except OSError as error:
        raise BuildError(f"cannot run git: {error.strerror or error}; install it") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]
