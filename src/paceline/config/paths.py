"""Paths as the plan writes them: the same from whichever directory it is made."""

import os
from collections.abc import Mapping
from pathlib import Path


def normalise(path: str) -> str:
    """An absolute path without `.` and `..`; links are not followed.

    A path with a mark in it stays as it is, and so does one whose `..` steps out of a linked directory.
    """
    if "\x00" in path:
        return path
    plain = os.path.abspath(path)  # noqa: PTH100 - pathlib keeps `..`
    return plain if _is_same(plain, path) else str(Path(path).absolute())


def expand_home(path: str, environ: Mapping[str, str] | None = None) -> str:
    """The path with a `~` at its start replaced by the home directory, that of `environ` if it has one."""
    home = environ.get("HOME") if environ is not None else None
    if home and (path == "~" or path.startswith("~/")):
        return home + path[1:]
    return os.path.expanduser(path) if path.startswith("~") else path  # noqa: PTH111


def _is_same(plain: str, path: str) -> bool:
    if ".." not in path:
        return True
    try:
        return os.path.samefile(plain, path)  # noqa: PTH121
    except OSError:
        # Where nothing is there yet, either spelling makes the same place.
        return not os.path.exists(path)  # noqa: PTH110
