"""What git knows of the directories that suites come from; what it cannot tell is unknown, never an error."""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

STATE_TIMEOUT_S = 5.0

# What a repository's own configuration could have git start; --no-ext-diff and --no-textconv do the rest.
_STARTS_NOTHING = (
    *(
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.alternateRefsCommand=false",
    ),
    *(
        "-c",
        "log.showSignature=false",
        "-c",
        "gpg.program=false",
        "-c",
        "diff.external=",
        "-c",
        "core.pager=cat",
    ),
)
# The one filter that many have in a repository's own configuration, and which starts only itself.
_GIT_LFS = re.compile(r"git-lfs (clean|smudge)( --skip)? -- %f|git-lfs filter-process( --skip)?")


def find_top(directory: Path) -> Path | None:
    """The top of the working tree that an absolute directory lies in."""
    around = (directory, *directory.parents)
    # Unlike a Path's `exists`, this says False where we may not look.
    return next((one for one in around if os.path.exists(one / ".git")), None)  # noqa: PTH110


def ask_git(
    root: Path, *words: str, feed: Iterable[str] = (), timeout_s: float = STATE_TIMEOUT_S
) -> str | None:
    """What git answers, with the lines of `feed` on its standard input; None if it fails."""
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        answer = subprocess.run(
            ["git", *_STARTS_NOTHING, *words],
            cwd=root,
            env=environ,
            input="".join(f"{line}\n" for line in feed).encode(),
            capture_output=True,
            timeout=timeout_s,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.decode(errors="replace")


def git_state(root: Path) -> dict[str, Any]:
    """Revision, branch, and whether and by which changes a working tree differs from it."""
    plain = _without_filters(root)
    status = ask_git(root, *plain, "status", "--porcelain=v2", "--branch", "--no-renames")
    if status is None:
        return {}
    header = dict(re.findall(r"^# branch\.(oid|head) (.+)$", status, re.MULTILINE))
    changes = [line for line in status.splitlines() if not line.startswith("# ")]
    facts: dict[str, Any] = {"root": str(root), "dirty": bool(changes)}
    if header.get("oid", "(initial)") != "(initial)":
        facts["revision"] = header["oid"]
    if header.get("head", "(detached)") != "(detached)":
        facts["branch"] = header["head"]
    if changes:
        diff = ask_git(root, *plain, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color") or ""
        facts["diff_sha256"] = hashlib.sha256("\n".join([*changes, diff]).encode()).hexdigest()
    return facts


def _without_filters(root: Path) -> list[str]:
    """Options that switch off filters of the repository's own: comparing files would start them."""
    options: list[str] = []
    found = ask_git(root, "config", "--local", "--includes", "--null", "--get-regexp", r"^filter\.")
    for pair in (found or "").split("\0"):
        name, _, value = pair.partition("\n")
        if name and name != "filter.lfs.required" and not _GIT_LFS.fullmatch(value):
            options += ["-c", f"{name}={'false' if name.endswith('.required') else ''}"]
    return options


def git_of_suite(environment: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state of the suite's repository, else of the current directory's; of a file that anybody may have edited."""
    found = environment.get("config_git") or environment.get("git")
    return found if isinstance(found, dict) else {}
