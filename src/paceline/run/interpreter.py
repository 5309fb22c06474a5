"""The Python that a case runs, where that is not ours: its packages are the case's, and its Ray cluster is its own."""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import NamedTuple

from paceline.model import Case
from paceline.record.packages import describe_python

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?")
_known: dict[str, tuple[list[tuple[str, int]], list[str]]] = {}


class ForeignPython(NamedTuple):
    """`words` start it; `path` is its file, None if only the program in front of it knows, as in `uv run python`."""

    words: tuple[str, ...]
    path: str | None


def foreign_python(case: Case, environ: Mapping[str, str], cwd: str, own: str) -> ForeignPython | None:
    """The Python in front of a case's script, or that is its command; None if there is none, or it is `own`."""
    argv = case.argv
    front = argv[: argv.index(case.script)] if case.script in argv else argv[:1]
    at = next((i for i, word in enumerate(front) if _PYTHON.fullmatch(PurePath(word).name)), None)
    if at is None:
        return None
    word, path = front[at], None
    if "/" in word:
        path = str(Path(cwd, word))
    elif at == 0:
        path = shutil.which(word, path=environ.get("PATH", os.defpath))
    if path in (own, sys.executable):
        return None
    return ForeignPython(front[: at + 1], path)


def packages_of(python: ForeignPython, environ: Mapping[str, str]) -> list[str]:
    """Its packages, none if it cannot be asked; asked again when something was installed meanwhile."""
    if python.path is None:
        return []
    stamps, packages = _known.get(python.path, ([], []))
    if not stamps or stamps != _stamps([name for name, _ in stamps]):
        described = describe_python(python.path, environ=environ)
        stamps, packages = _stamps(described.get("path", ())), described.get("packages", [])
        _known[python.path] = (stamps, packages)
    return packages


def _stamps(names: list[str]) -> list[tuple[str, int]]:
    """When each of the directories that Python looks into was changed."""
    return [(name, os.stat(name).st_mtime_ns if os.path.exists(name) else 0) for name in names]  # noqa: PTH110, PTH116
