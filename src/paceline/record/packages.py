"""The packages of a Python environment, from their metadata, in the form of `pip freeze`.

Runs by itself under any Python from 3.8 on, so that the packages of another interpreter are read by the same code.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = "packages.txt"
CONDA = "conda-explicit.txt"

_NAME = re.compile(r"^Name: *(\S+)", re.MULTILINE)
_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
_CONDA_TOKEN = re.compile(r"/t/[^/]+/")


def installed() -> list[str]:
    """A line for each package of this interpreter, sorted, the first on the path winning."""
    lines: dict[str, str] = {}
    for distribution in metadata.distributions():
        named = _name_and_version(distribution)
        if named:
            lines.setdefault(normal_name(named[0]), _line(distribution, *named))
    return [lines[key] for key in sorted(lines)]


def describe_python(
    python: str, *, environ: Mapping[str, str] | None = None, timeout_s: float = 20
) -> dict[str, Any]:
    """Version, executable, packages and path of an interpreter; empty when it cannot be asked."""
    if Path(python) == Path(sys.executable):
        return _this_python()
    command = [python, "-I", str(Path(__file__).resolve())]
    try:
        answer = subprocess.run(
            command, env=environ, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout_s, check=True
        )
        described = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return described if isinstance(described, dict) else {}


def conda_explicit(environ: Mapping[str, str]) -> str | None:
    """The active conda environment as `conda list --explicit` writes it; None where there is none."""
    prefix = environ.get("CONDA_PREFIX")
    files = sorted(Path(prefix, "conda-meta").glob("*.json")) if prefix else []
    lines = [line for line in map(_conda_line, files) if line]
    return "\n".join(["@EXPLICIT", *lines, ""]) if lines else None


def _this_python() -> dict[str, Any]:
    version = ".".join(map(str, sys.version_info[:3]))
    implementation = sys.implementation.name
    described = {"version": version, "implementation": implementation, "executable": sys.executable}
    return {**described, "packages": installed(), "path": sys.path}


def _name_and_version(distribution: metadata.Distribution) -> tuple[str, str] | None:
    # Two searches: the parser that `distribution.metadata` uses reads whole descriptions, a hundred times as slow.
    text = _read(distribution, "METADATA") or _read(distribution, "PKG-INFO") or ""
    name, version = _NAME.search(text), _VERSION.search(text)
    return (name[1], version[1]) if name and version else None


def _read(distribution: metadata.Distribution, name: str) -> str | None:
    try:
        return distribution.read_text(name)
    except (OSError, UnicodeDecodeError):
        return None


def _line(distribution: metadata.Distribution, name: str, version: str) -> str:
    origin = _origin(distribution)
    url = _USER_IN_URL.sub("", str(origin.get("url", "")))
    vcs = origin.get("vcs_info")
    folder = origin.get("dir_info")
    if not url:
        return f"{name}=={version}"
    if isinstance(folder, dict) and folder.get("editable"):
        return f"-e {url}  # {name}=={version}"
    if isinstance(vcs, dict):
        return f"{name} @ {vcs.get('vcs')}+{url}@{vcs.get('commit_id')}"
    return f"{name} @ {url}"


def _origin(distribution: metadata.Distribution) -> dict[str, Any]:
    text = _read(distribution, "direct_url.json")
    try:
        origin = json.loads(text) if text else {}
    except ValueError:
        return {}
    return origin if isinstance(origin, dict) else {}


def normal_name(name: str) -> str:
    """The name of a package as an index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _conda_line(path: Path) -> str | None:
    try:
        package = json.loads(path.read_bytes())
        url, checksum = package["url"], package.get("md5")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    public = _CONDA_TOKEN.sub("/", _USER_IN_URL.sub("", str(url)))
    return f"{public}#{checksum}" if checksum else public


if __name__ == "__main__":
    print(json.dumps(_this_python()))
