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
_CI_BRANCHES = (
    *("GITHUB_HEAD_REF", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CHANGE_BRANCH", "BITBUCKET_BRANCH"),
    *("SYSTEM_PULLREQUEST_SOURCEBRANCH", "GITHUB_REF_NAME", "CI_COMMIT_BRANCH", "BUILDKITE_BRANCH"),
    *("CIRCLE_BRANCH", "BUILD_SOURCEBRANCHNAME", "TRAVIS_PULL_REQUEST_BRANCH", "TRAVIS_BRANCH"),
    *("DRONE_SOURCE_BRANCH", "DRONE_BRANCH", "BRANCH_NAME", "GIT_BRANCH"),
)
"""The variables by which CIs name a branch, those of a pull request before those of what it is merged into."""
DEFAULT_BRANCH = "PACELINE_DEFAULT_BRANCH"
"""The variable that names the branch whose results are judged, where it is not the one that the remote says."""
_DEFAULT_BRANCHES = (
    "refs/remotes/origin/HEAD",
    *(
        f"refs/{place}/{name}"
        for name in ("main", "master", "trunk")
        for place in ("remotes/origin", "heads")
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


def git_state(root: Path, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Revision, branch, where the branch left the default one, and by which changes a working tree differs from it.

    A CI checks out a commit and no branch; then `environ` says which one it is of.
    """
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
    elif branch := _branch_of_ci(environ or {}):
        facts["branch"] = branch
    if "revision" in facts:
        facts |= _ancestry(root, environ)
    if changes:
        diff = ask_git(root, *plain, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color") or ""
        facts["diff_sha256"] = hashlib.sha256("\n".join([*changes, diff]).encode()).hexdigest()
    return facts


def _branch_of_ci(environ: Mapping[str, str]) -> str:
    """The branch that a CI runs for: of a pull request its own, not the one that it is to be merged into."""
    if environ.get("GITHUB_REF_TYPE") == "tag":
        return ""
    found = next((environ[name] for name in _CI_BRANCHES if environ.get(name)), "")
    # A pull request of GitHub without a branch of its own is called `12/merge`.
    return "" if re.fullmatch(r"\d+/merge", found) else found.removeprefix("origin/")


def _ancestry(root: Path, environ: Mapping[str, str] | None) -> dict[str, Any]:
    """When the commit was made, the default branch, and the last commit that both have."""
    facts: dict[str, Any] = {}
    shown = (ask_git(root, "log", "-1", "--format=%cI", "HEAD") or "").strip()
    if shown:
        facts["commit_time"] = shown
    name, *tips = default_branch(root, environ)
    if name:
        facts["default_branch"] = name
        if base := (ask_git(root, "merge-base", "HEAD", tips[0]) or "").strip():
            facts["merge_base"] = base
    if is_shallow(root):
        facts["shallow"] = True
    return facts


def default_branch(root: Path, environ: Mapping[str, str] | None = None) -> list[str]:
    """The name of the default branch, and its refs here, the remote's first; only an empty name if none is known.

    The one that `PACELINE_DEFAULT_BRANCH` names counts, else the remote's own, else the first of the usual names.
    """
    asked = (os.environ if environ is None else environ).get(DEFAULT_BRANCH, "")
    named = [f"refs/{place}/{asked}" for place in ("remotes/origin", "heads")] if asked else []
    wanted = (*named, *_DEFAULT_BRANCHES)
    listed = ask_git(root, "for-each-ref", "--format=%(refname) %(symref)", *wanted) or ""
    refs = dict(line.partition(" ")[::2] for line in listed.splitlines())
    chosen = next((refs[name] or name for name in wanted if name in refs), "")
    name = chosen.removeprefix("refs/heads/").removeprefix("refs/remotes/origin/")
    others = (f"refs/heads/{name}",) if f"refs/heads/{name}" in refs else ()
    return [name, *dict.fromkeys((chosen, *others))] if chosen else [""]


def is_shallow(root: Path) -> bool:
    """Whether the clone has only the newest commits, so that what lies before them is unknown."""
    return (ask_git(root, "rev-parse", "--is-shallow-repository") or "").strip() == "true"


def is_bare(root: Path) -> bool:
    """Whether a directory is a repository without a working tree."""
    return (ask_git(root, "rev-parse", "--is-bare-repository") or "").strip() == "true"


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
