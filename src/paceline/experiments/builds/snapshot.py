"""The user's tree with its uncommitted changes, as a tree of its own: it is measured while the user goes on."""

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.errors import BuildError
from paceline.experiments.builds.build import Worktree, ask_repository, resolve
from paceline.experiments.builds.cache import make_once
from paceline.numbers import size

_MOST_BYTES = 200 << 20
"""Of files that are not committed: more than this are data, which no benchmark wants a copy of."""


def uncommitted(repo: Path, *, but: Sequence[Path] = ()) -> tuple[str, ...]:
    """The files in which the tree differs from its commit; nothing that git ignores, nor what lies below `but`.

    Those are directories of results, which a benchmark does not read.
    """
    changed = ask_repository(repo, "diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", "HEAD")
    others = ask_repository(repo, "ls-files", "--others", "--exclude-standard", "-z")
    apart = [os.path.relpath(path, repo) for path in but]
    found = []
    for name in sorted(set(filter(None, f"{changed}\0{others}".split("\0")))):
        is_result = any(name == one or name.startswith(f"{one}/") for one in apart)
        if is_result or Path(name).name.startswith("benchmark.db") or "__pycache__/" in name:
            continue
        if "\ufffd" in name or (repo / name).is_dir():
            raise BuildError(
                f"{repo / name} is not committed and cannot be copied: commit it, and give --head HEAD"
            )
        found.append(name)
    return tuple(found)


def snapshot(repo: Path, files: Sequence[str], *, cache_dir: Path) -> Worktree:
    """A tree with HEAD and these files as they are now; made once for the same content."""
    head = resolve(repo, "HEAD")
    here = [name for name in files if os.path.lexists(repo / name)]
    total = sum((repo / name).lstat().st_size for name in here)
    if total > _MOST_BYTES:
        raise BuildError(
            f"{repo} has {size(total)} of files that are neither committed nor ignored: add them to .gitignore, "
            "or commit what is to be measured, and give --head HEAD"
        )
    digest = hashlib.sha256(head.encode())
    for name in files:
        digest.update(f"\0{name}\0".encode() + (_content(repo / name) if name in here else b""))
    directory = cache_dir / "snapshots" / digest.hexdigest()[:20]

    def make(lock: int) -> Mapping[str, Any]:
        borrow = ("clone", "--quiet", "--shared", "--no-checkout", "--", str(repo), str(directory))
        ask_repository(directory.parent, *borrow, lock=lock)
        ask_repository(directory, "checkout", "--quiet", "--detach", head, lock=lock)
        for name in files:
            target = directory / name
            target.unlink(missing_ok=True)
            if name in here:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(repo / name, target, follow_symlinks=False)
        return {"head": head, "repo": str(repo)}

    make_once(directory, make)
    return Worktree(path=directory, revision=head, top=repo)


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return b"->" + os.fsencode(path.readlink())
    return hashlib.sha256(path.read_bytes()).digest() + bytes([path.stat().st_mode & 0o111 != 0])
