"""What a candidate is measured in, made ready: a working tree, an environment, and what the user's command builds."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import BuildError
from paceline.experiments.bisect.result import Candidate
from paceline.experiments.builds.cache import keep
from paceline.experiments.builds.environments import Venv, build_venv
from paceline.experiments.builds.worktrees import Worktree, checkout
from paceline.record.atomic import RUNNER

SETUP_TIMEOUT_S = 7200.0
_SHOWN_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A candidate with what it is measured in; without a revision that is the suite's own tree.

    `packages` make an environment of their own. With `overlay` they are laid over the Python that runs paceline,
    without their dependencies; without, they are all it has. No packages: that Python as it is.
    """

    candidate: Candidate
    revision: str = ""
    packages: tuple[str, ...] = ()
    overlay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A state that is ready to be measured in."""

    worktree: Worktree | None = None
    venv: Venv | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Makes states ready, each once; what was made is kept for later searches too.

    `setup` builds a revision in its tree, `install` are packages of every environment (`.` is the revision's tree),
    `options` go to the installer. A BuildError says why a state cannot be had.
    """

    cache_dir: Path
    log: Path
    repo: Path | None = None
    setup: tuple[str, ...] = ()
    install: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def make(self, state: State) -> Made:
        """The tree and the environment of a state."""
        tree = self._tree(state.revision)
        venv = self._venv(state, tree)
        if self.setup:
            self._build(tree, venv)
        return Made(worktree=tree, venv=venv)

    def _tree(self, revision: str) -> Worktree | None:
        if self.repo is None:
            return None
        if not revision:
            return Worktree(path=self.repo, revision="")
        # Trees that different commands built in are different trees.
        apart = self.cache_dir / "setups" / _digest(self.setup) if self.setup else self.cache_dir
        return checkout(self.repo, revision, cache_dir=apart)

    def _venv(self, state: State, tree: Worktree | None) -> Venv | None:
        packages = (*state.packages, *self.install)
        if not packages:
            return None
        return build_venv(
            packages,
            cache_dir=self.cache_dir,
            log=self.log,
            base=tree.path if tree else self.repo,
            options=self.options,
            overlay=state.overlay,
        )

    def _build(self, tree: Worktree | None, venv: Venv | None) -> None:
        directory = tree.path if tree else Path.cwd()
        told = (*self.setup, str(directory), venv.key if venv else "")
        mark = self.cache_dir / "builds" / _digest(told)
        if tree is None or not tree.revision:
            # The user's own tree changes under our hands: what was built in it before tells nothing.
            mark = mark.with_name(f"{mark.name}-{RUNNER}")
        keep(mark, lambda lock: self._run_setup(directory, venv, mark, lock))

    def _run_setup(self, directory: Path, venv: Venv | None, mark: Path, lock: int) -> Mapping[str, Any]:
        env = {**os.environ, "PACELINE_REPO": str(directory)}
        if venv is not None:
            env |= {
                "VIRTUAL_ENV": str(venv.bin.parent),
                "PATH": f"{venv.bin}{os.pathsep}{env.get('PATH', '')}",
            }
        argv = [word.replace("{repo_dir}", str(directory)) for word in self.setup]
        # Looked up in the environment's own directory first, which Popen does not do.
        argv[0] = shutil.which(argv[0], path=env.get("PATH")) or argv[0]
        mark.mkdir(parents=True, exist_ok=True)
        _run_logged(argv, directory, env, self.log, lock)
        return {"setup": list(self.setup), "directory": str(directory)}


def _run_logged(argv: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path, lock: int) -> None:
    """Run a program to its end; a BuildError with its last lines if it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        file.write(f"$ {' '.join(argv)}  # in {cwd}\n".encode(errors="replace"))
        file.flush()
        start = file.tell()
        try:
            # It holds our lock too: if we are killed, nobody builds in the same place before it has ended.
            done = subprocess.run(
                argv,
                check=False,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=SETUP_TIMEOUT_S,
                pass_fds=(lock,),
            )
        except OSError as error:
            raise BuildError(f"cannot run {argv[0]}: {error.strerror or error}") from error
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"{argv[0]} took longer than {SETUP_TIMEOUT_S / 3600:g} h") from error
    if done.returncode:
        raise BuildError(f"{argv[0]} exited with {done.returncode}: {_tail(log, start)}")


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    return " / ".join(line.strip() for line in lines[-_SHOWN_LINES:] if line.strip()) or "it printed nothing"


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()[:16]
