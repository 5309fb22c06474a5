"""The versions of a package between a good and a bad one, as pip finds them."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.errors import BuildError
from paceline.experiments.builds.environments import find_uv

_AVAILABLE = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_TIMEOUT_S = 120.0


def installer_options(find_links: Sequence[str], *, no_index: bool, base: Path) -> tuple[str, ...]:
    """What pip and uv are told of where packages are; directories are relative to `base`."""
    places = (str((base / place).absolute()) if (base / place).is_dir() else place for place in find_links)
    links = tuple(word for place in places for word in ("--find-links", place))
    return (*links, "--no-index") if no_index else links


def available_versions(package: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """All versions that could be installed here, oldest first; `options` are pip's, such as --find-links DIR."""
    argv = [*_pip(), "index", "versions", "--disable-pip-version-check", *options, "--", package]
    try:
        done = subprocess.run(
            argv,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            env={**os.environ, "PIP_NO_COLOR": "1"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(
            f"cannot ask for the versions of {package}: {error}; give them by --versions"
        ) from error
    found = _AVAILABLE.search(done.stdout)
    if found is None:
        last = [line for line in done.stderr.splitlines() if line.startswith("ERROR")][-1:]
        why = last[0].removeprefix("ERROR: ") if last else "pip knows none"
        raise BuildError(f"no versions of {package}: {why}; give them by --versions, or --find-links DIR")
    return tuple(reversed([version.strip() for version in found[1].split(",")]))


def resolve_packages(packages: Sequence[str], options: Sequence[str] = (), *, base: Path) -> tuple[str, ...]:
    """The packages and all that they need, each with the newest version that fits: what an environment is tonight."""
    uv = find_uv()
    if uv:
        words = ["pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python", sys.executable]
        printed = _ask([uv, *words, *options, "-"], cwd=base, feed="".join(f"{spec}\n" for spec in packages))
        return tuple(line.strip() for line in printed.splitlines() if line.strip() and line[0] not in "#-")
    words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    report = json.loads(_ask([*_pip(), *words, *options, *packages], cwd=base))
    found = (item["metadata"] for item in report["install"])
    return tuple(sorted(f"{one['name']}=={one['version']}" for one in found))


def _ask(argv: Sequence[str], *, cwd: Path, feed: str = "") -> str:
    try:
        done = subprocess.run(
            argv, cwd=cwd, input=feed, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise BuildError(f"cannot run {argv[0]}: {error.strerror or error}") from error
    if done.returncode:
        tail = " / ".join(line.strip() for line in done.stderr.splitlines()[-3:])
        raise BuildError(f"the packages cannot be resolved: {tail}")
    return done.stdout


def versions_between(versions: Sequence[str], good: str, bad: str) -> tuple[str, tuple[str, ...]]:
    """The good version, and those after it up to the bad one.

    A version may be named by its beginning: `2026.1` is the oldest 2026.1.x as good, and the newest as bad.
    """
    first, last = _find(versions, good, newest=False), _find(versions, bad, newest=True)
    if first >= last:
        raise BuildError(
            f"the good version {versions[first]} does not come before the bad one {versions[last]}: swap them"
        )
    return versions[first], tuple(versions[first + 1 : last + 1])


def _find(versions: Sequence[str], wanted: str, *, newest: bool) -> int:
    exact = [index for index, version in enumerate(versions) if _trimmed(version) == _trimmed(wanted)]
    within = [index for index, version in enumerate(versions) if version.startswith(f"{wanted}.")]
    found = exact or within
    if not found:
        near = ", ".join(versions[-8:])
        raise BuildError(f"there is no version {wanted}: the newest are {near}")
    return found[-1 if newest else 0]


def _trimmed(version: str) -> str:
    """A version without zeros at its end, which mean nothing: 1.0 is 1.0.0."""
    return re.sub(r"(\.0)+$", "", version.strip())


def _pip() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip") or shutil.which("pip3")
    if found is None:
        raise BuildError(
            "finding the versions of a package needs pip: install it, or give them by --versions"
        )
    return [found, "--python", sys.executable]
