"""What a path holds, told by its content: names and endings only decide which files of a directory are looked at."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from paceline.history.importers import (
    asv,
    coiled,
    criterion,
    curator,
    github_action,
    google_benchmark,
    hyperfine,
    lm_eval,
    pyperf,
    pytest_benchmark,
    records,
    session,
)
from paceline.history.importers.batch import OnProblem
from paceline.history.importers.document import Value, complain, read_head, read_json
from paceline.history.session_info import Batch

DATABASE = "paceline"
_VERSION_TABLE = "history_version"


class DocumentFormat(Protocol):
    """A module for one format whose files are JSON documents."""

    FORMAT: str

    def matches(self, data: Any, /) -> bool: ...

    def batches(self, document: Value, path: Path, /) -> Iterator[Batch]: ...


class DirectoryFormat(Protocol):
    """A module for one format whose sessions are directories."""

    FORMAT: str

    def found(self, directory: Path, /) -> bool: ...

    def batches(self, directory: Path, on_problem: OnProblem, /) -> Iterator[Batch]: ...


_DOCUMENTS: tuple[DocumentFormat, ...] = (
    *(pytest_benchmark, google_benchmark, asv, pyperf, hyperfine, github_action, lm_eval),
)
_DIRECTORIES: tuple[DirectoryFormat, ...] = (session, criterion, curator)
FORMATS: tuple[str, ...] = tuple(
    sorted(
        {
            *(module.FORMAT for module in _DOCUMENTS),
            *(module.FORMAT for module in _DIRECTORIES),
            *(coiled.FORMAT, records.FORMAT),
        }
    )
)

_ENDINGS = (".json", ".json.gz", ".js", ".jsonl", ".db", ".sqlite", ".sqlite3")
_NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".tox", ".nox"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Something to import, and how."""

    format: str
    batches: Callable[[OnProblem], Iterator[Batch]]


def places(path: Path, say: OnProblem) -> Iterator[Path]:
    """The path itself if it is a file or a session; else all such under it, in the order of their names."""
    waiting = [path]
    while waiting:
        place = waiting.pop()
        if not place.is_dir():
            yield place
        elif not os.access(place, os.R_OK | os.X_OK):
            say(complain(place, "may not be looked into", "check its permissions"))
        elif _directory_format(place) is not None:
            yield place
        else:
            waiting += reversed([child for child in sorted(place.iterdir()) if _is_wanted(child)])


def _is_wanted(path: Path) -> bool:
    if path.is_symlink():  # It may lead anywhere, and what it leads to is named by somebody else.
        return False
    if not path.is_dir():
        return path.name.endswith(_ENDINGS)
    # The packages in a virtual environment bring results of their own tests along.
    return path.name not in _NEVER and not os.access(path / "pyvenv.cfg", os.F_OK)


def _directory_format(path: Path) -> DirectoryFormat | None:
    return next((module for module in _DIRECTORIES if module.found(path)), None)


def look(path: Path) -> Found | None:
    """What one of `places` is; None if it is nothing we know. A file that cannot be read is an error."""
    if path.is_dir():
        kind = _directory_format(path)
        return Found(format=kind.FORMAT, batches=partial(kind.batches, path)) if kind else None
    head = read_head(path, len(coiled.MAGIC))
    if head == coiled.MAGIC:
        return _database(path)
    if head.startswith(github_action.PREFIX[: len(head)]) and head:
        return _document(github_action, github_action.read_script(path), path)
    if path.suffix == ".js":
        return None
    if records.found(path):
        return Found(format=records.FORMAT, batches=partial(records.batches, path))
    if path.suffix == ".jsonl":
        return None
    document = read_json(path)
    fitting = next((module for module in _DOCUMENTS if module.matches(document.data)), None)
    return _document(fitting, document, path) if fitting else None


def is_database(path: Path) -> bool:
    """Whether a file is a database of our own, which is merged rather than imported; cheaper than looking at all."""
    return read_head(path, len(coiled.MAGIC)) == coiled.MAGIC and _VERSION_TABLE in coiled.tables(path)


def force(path: Path, name: str) -> Found:
    """The path as something of the named format, whether it looks like it or not."""
    if name == coiled.FORMAT:
        return Found(format=name, batches=lambda _: coiled.batches(path))
    if name == records.FORMAT:
        return Found(format=name, batches=partial(records.batches, path))
    for directory in _DIRECTORIES:
        if name == directory.FORMAT:
            return Found(format=name, batches=partial(directory.batches, path))
    module = next(module for module in _DOCUMENTS if name == module.FORMAT)
    is_script = read_head(path, len(coiled.MAGIC)) == github_action.PREFIX[: len(coiled.MAGIC)]
    return _document(module, github_action.read_script(path) if is_script else read_json(path), path)


def _document(module: DocumentFormat, document: Value, path: Path) -> Found:
    return Found(format=module.FORMAT, batches=lambda _: module.batches(document, path))


def _database(path: Path) -> Found | None:
    tables = coiled.tables(path)
    if _VERSION_TABLE in tables:
        return Found(format=DATABASE, batches=partial(_refuse_database, path))
    return (
        Found(format=coiled.FORMAT, batches=lambda _: coiled.batches(path)) if "test_run" in tables else None
    )


def _refuse_database(path: Path, _: OnProblem) -> Iterator[Batch]:
    raise complain(path, "is a history of Paceline's own", "join it with `paceline history merge INTO FROM`")
