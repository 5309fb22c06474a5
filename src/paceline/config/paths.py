"""Paths as the plan writes them, the same from whichever directory; and what they are called in a container."""

import os
from collections.abc import Mapping
from pathlib import Path

MARKERS = (Path("/.dockerenv"), Path("/run/.containerenv"))
MOUNT = Path("/MOUNT")
"""Where directories of the host lie in a container that mounts them there."""


def normalise(path: str) -> str:
    """An absolute path without `.` and `..`; links are not followed.

    A path with a sentinel in it stays as it is, and so does one whose `..` steps out of a linked directory.
    """
    if "\x00" in path:
        return path
    plain = os.path.abspath(path)  # noqa: PTH100 - pathlib keeps `..`
    if ".." in path:
        try:
            is_same = os.path.samefile(plain, path)  # noqa: PTH121
        except OSError:
            # Where nothing is there yet, either spelling makes the same directory.
            is_same = not os.path.exists(path)  # noqa: PTH110
        if not is_same:
            return str(Path(path).absolute())
    return plain


def expand_home(path: str, environ: Mapping[str, str] | None = None) -> str:
    """The path with a `~` at its start replaced by the home directory, that of `environ` if it has one."""
    home = environ.get("HOME") if environ is not None else None
    if home and (path == "~" or path.startswith("~/")):
        return home + path[1:]
    return os.path.expanduser(path) if path.startswith("~") else path  # noqa: PTH111


def in_container(environ: Mapping[str, str]) -> bool:
    """Docker and Podman leave marker files; others set the variable `container`."""
    return bool(environ.get("container")) or any(marker.exists() for marker in MARKERS)


def mounted(host_path: str) -> str:
    """The path in a container of a directory that has no `container_path`.

    Most containers mount nothing under `/MOUNT`; what they see of the host then has the same path.
    """
    if not MOUNT.is_dir():
        return host_path
    return f"{MOUNT}{'' if host_path.startswith('/') else '/'}{host_path}"
