"""What a candidate is measured in: a working tree of its revision, an environment, and what the user's command builds.

Working trees are checked out once; the repository itself is never touched.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paceline.errors import BuildError
from paceline.experiments.builds.cache import ask, make_once, run_logged
from paceline.experiments.builds.environments import Venv, build_venv
from paceline.model import Case
from paceline.record.below import RUNNER

SETUP_TIMEOUT_S = 7200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One step of the way from good to bad: a commit, a version of a package, or an upgrade; and how it is built.

    `ident` names it for programs (a whole hash, a version), `label` for people. Without a `revision` it is measured in
    the suite's own tree. `packages` make an environment of their own: with `overlay` they are laid over the Python that
    runs paceline, without their dependencies; without, they are all it has. No packages: that Python as it is.
    """

    ident: str
    label: str
    title: str = ""
    kind: str = "commit"
    revision: str = ""
    packages: tuple[str, ...] = ()
    overlay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """The files of one revision; builds may leave theirs beside them.

    `top` is the user's own tree of the same repository: what a case runs from there is run from here instead. It is
    None where it makes no difference, because what is measured was installed.
    """

    path: Path
    revision: str
    top: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a candidate is measured in, ready."""

    worktree: Worktree | None = None
    venv: Venv | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Builds candidates, each once; what was built is kept for later searches too.

    `setup` builds a revision in its tree, `install` are packages of every environment (`.` is the revision's tree),
    `options` go to the installer. A BuildError says why a candidate cannot be built.
    """

    cache_dir: Path
    log: Path
    repo: Path | None = None
    setup: tuple[str, ...] = ()
    install: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def build(self, candidate: Candidate, tree: Worktree | None = None) -> Built:
        """The tree and the environment of a candidate; a `tree` may be given that is like its revision."""
        if tree is None:
            tree = self.tree(candidate.revision)
        elif self.install:
            tree = replace(tree, top=None)
        packages = (*candidate.packages, *self.install)
        venv = None
        if packages:
            venv = build_venv(
                packages,
                cache_dir=self.cache_dir,
                log=self.log,
                base=tree.path if tree else self.repo,
                options=self.options,
                overlay=candidate.overlay,
            )
        if self.setup:
            self._set_up(tree, venv)
        return Built(worktree=tree, venv=venv)

    def tree(self, revision: str) -> Worktree | None:
        """The working tree of a revision; nothing is built in it yet."""
        if self.repo is None:
            return None
        if not revision:
            return Worktree(path=self.repo, revision="")
        # Trees that different commands built in are different trees.
        apart = self.cache_dir / "setups" / _digest(*self.setup) if self.setup else self.cache_dir
        tree = checkout(self.repo, revision, cache_dir=apart)
        return tree if self.install else replace(tree, top=self.repo)

    def _set_up(self, tree: Worktree | None, venv: Venv | None) -> None:
        directory = tree.path if tree else Path.cwd()
        mark = self.cache_dir / "builds" / _digest(*self.setup, str(directory), venv.key if venv else "")
        if tree is None or not tree.revision:
            # The user's own tree changes at any time: what was built in it before proves nothing.
            mark = mark.with_name(f"{mark.name}-{RUNNER}")
        env = {**os.environ, "PACELINE_REPO": str(directory)}
        if venv is not None:
            path = f"{venv.bin}{os.pathsep}{env.get('PATH', '')}"
            env |= {"VIRTUAL_ENV": str(venv.bin.parent), "PATH": path}
        argv = [word.replace("{repo_dir}", str(directory)) for word in self.setup]
        # Looked up in the environment's own directory first, which Popen does not do.
        argv[0] = shutil.which(argv[0], path=env.get("PATH")) or argv[0]

        def run(lock: int) -> Mapping[str, Any]:
            mark.mkdir(parents=True, exist_ok=True)
            run_logged(
                argv,
                what="the set-up",
                log=self.log,
                lock=lock,
                env=env,
                cwd=directory,
                timeout_s=SETUP_TIMEOUT_S,
            )
            return {"setup": list(self.setup), "directory": str(directory)}

        make_once(mark, run)


def checkout(repo: Path | str, ref: str, *, cache_dir: Path) -> Worktree:
    """The working tree of a ref; a repository may also be a URL, of which a mirror is kept.

    The tree is a clone that borrows the repository's objects: fast, and no trace of it in the user's repository.
    """
    source = _source(repo, ref, cache_dir)
    revision = resolve(source, ref)
    directory = cache_dir / "worktrees" / _digest(str(source)) / revision

    def clone(lock: int) -> Mapping[str, Any]:
        borrow = ("clone", "--quiet", "--shared", "--no-checkout", "--", str(source), str(directory))
        ask_repository(directory.parent, *borrow, lock=lock)
        ask_repository(directory, "checkout", "--quiet", "--detach", revision, lock=lock)
        return {"revision": revision, "repo": str(source)}

    make_once(directory, clone)
    return Worktree(path=directory, revision=revision)


def missing_script(case: Case, tree: Worktree | None) -> str:
    """The script that a case runs and that a revision's tree does not have; empty if it has it."""
    if case.script is None or tree is None or Path(case.script).exists():
        return ""
    return os.path.relpath(case.script, tree.path)


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
    if not is_ancestor(repo, first, last):
        raise BuildError(
            f"{good} is no ancestor of {bad} in {repo}: name a good revision that the bad one came from"
        )
    return tuple(ask_repository(repo, "rev-list", "--first-parent", "--reverse", f"{first}..{last}").split())


def is_ancestor(repo: Path, first: str, last: str) -> bool:
    """Whether the last revision came from the first, or is the same."""
    return _try_git(repo, "merge-base", "--is-ancestor", first, last).returncode == 0


def merge_base(repo: Path, one: str, other: str) -> str:
    """The newest commit that both have; empty if they have none, or a shallow clone does not know it."""
    done = _try_git(repo, "merge-base", "--end-of-options", one, other)
    return done.stdout.split()[0] if done.returncode == 0 and done.stdout.strip() else ""


def subjects(repo: Path, revisions: Sequence[str]) -> dict[str, str]:
    """The first line of each commit's message."""
    words = ("log", "--no-walk=unsorted", "--format=%H%x00%s", "--stdin")
    lines = ask_repository(repo, *words, feed="".join(f"{revision}\n" for revision in revisions)).splitlines()
    return {revision: subject for revision, _, subject in (line.partition("\0") for line in lines)}


def fetch(repo: Path) -> None:
    """Bring the repository's remote branches and tags up to date; its own branches stay."""
    ask_repository(repo, "fetch", "--quiet", "--tags", "--prune")


def diff_stat(repo: Path, revision: str) -> str:
    """Which files a commit changed and how much, against its first parent; not who wrote it."""
    words = ("--first-parent", "--stat=100", "--format=", "--no-color", "--no-ext-diff", "--no-textconv")
    return ask_repository(repo, "show", *words, "--end-of-options", revision).strip("\n")


def diff(tree: Path, base: str, files: Sequence[str] = ()) -> str:
    """What a tree changed since a commit: the changes of these files, or else which files those are."""
    how = ("--unified=3",) if files else ("--stat=100",)
    words = (*how, "--no-color", "--no-ext-diff", "--no-textconv", "--end-of-options", base, "--", *files)
    return ask_repository(tree, "diff", *words).strip("\n")


def _source(repo: Path | str, ref: str, cache_dir: Path) -> Path:
    """The repository on this machine; a mirror of a remote one, brought up to date when it lacks the ref."""
    text = str(repo)
    if isinstance(repo, Path) or not ("://" in text or text.startswith("git@")):
        return Path(os.path.abspath(Path(text).expanduser()))  # noqa: PTH100 - as the user named it, links kept
    mirror = cache_dir / "mirrors" / _digest(text)

    def clone(lock: int) -> Mapping[str, Any]:
        ask_repository(mirror.parent, "clone", "--quiet", "--mirror", "--", text, str(mirror), lock=lock)
        return {"url": text}

    made = make_once(mirror, clone)
    if made.get("url") and _try_git(mirror, "cat-file", "-e", f"{ref}^{{commit}}").returncode:
        ask_repository(mirror, "fetch", "--quiet", "--prune", "origin")
    return mirror


def ask_repository(directory: Path, *words: str, lock: int | None = None, feed: str = "") -> str:
    """What git prints in a repository; a BuildError has its last line if it fails."""
    done = _try_git(directory, *words, lock=lock, feed=feed)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise BuildError(f"git {words[0]} in {directory} failed: {last[0]}")
    return done.stdout


def _try_git(
    directory: Path, *words: str, lock: int | None = None, feed: str = ""
) -> subprocess.CompletedProcess[str]:
    # What a git hook sets would send every command to the hook's repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {name: os.environ[name] for name in ("GIT_SSH_COMMAND", "GIT_ASKPASS") if name in os.environ}
    env["GIT_TERMINAL_PROMPT"] = "0"
    return ask(["git", "-C", directory, *words], feed=feed, env=env, lock=lock)


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()[:16]
