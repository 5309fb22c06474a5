"""Which of a session's files are kept in an object store."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from paceline.record.atomic import is_temporary
from paceline.record.layout import (
    ATTEMPTS,
    BENCHMARK_RESULTS,
    DATA_SETUP,
    LOGS,
    OUTPUT,
    RAY_CLUSTER,
    RECORD,
    SCRATCH,
    last_run_label,
    names_in,
)

_MOVED = f"{ATTEMPTS}/attempt-"
_Roots = tuple[Path, Path | None]


def session_files(session_dir: Path) -> dict[str, Path]:
    """The files of the session itself; hidden ones are this machine's own."""
    paths = (session_dir / name for name in sorted(names_in(session_dir)) if not name.startswith("."))
    return {path.name: path for path in paths if path.is_file() and not path.is_symlink()}


def complete_entries(session_dir: Path) -> list[str]:
    """The directories of cases that have a record, relative to the session's."""
    parents = ("", DATA_SETUP)
    found = (f"{parent}/{name}".lstrip("/") for parent in parents for name in names_in(session_dir / parent))
    return sorted(name for name in found if (session_dir / name / RECORD).is_file())


def entry_of(name: str) -> str:
    """The entry's directory in the name of one of a session's files; empty for the session's own files."""
    parts = name.split("/")
    depth = 2 if parts[0] == DATA_SETUP else 1
    return "/".join(parts[:depth]) if len(parts) > depth else ""


def is_record(name: str) -> bool:
    """Whether this is the name of a case's current record in a session."""
    return name == f"{entry_of(name)}/{RECORD}"


def entry_files(entry: Path, artifacts_dir: Path | None = None) -> dict[str, Path]:
    """The files of a case by their names in its directory, in the order in which they are to be sent.

    Scratch data stay here. Of links, those to files of the same case become files, but for the one to the output, and
    those of ours into `artifacts_dir` are followed; others may lead anywhere and are left out.
    """
    roots = entry.resolve(), artifacts_dir.resolve() if artifacts_dir else None
    found = dict(_walk(entry, "", roots))
    return dict(sorted(found.items(), key=lambda item: _turn(item[0])))


def _turn(name: str) -> tuple[bool, bool, str]:
    """Earlier attempts first, and a record after all that belongs to it."""
    return not name.startswith(_MOVED), PurePosixPath(name).name == RECORD, name


def is_moved(name: str) -> bool:
    """Whether a case's file belongs to an attempt that was moved aside."""
    return name.startswith(_MOVED)


def _walk(directory: Path, below: str, roots: _Roots) -> Iterator[tuple[str, Path]]:
    try:
        with os.scandir(directory) as listed:
            items = sorted(listed, key=lambda item: item.name)
    except PermissionError:  # A container's, perhaps; what we may not read we cannot send.
        return
    for item in items:
        name, path = f"{below}{item.name}", directory / item.name
        if is_temporary(item.name) or _place_in_run(name) == SCRATCH:
            continue
        if item.is_symlink():
            yield from _linked(path, name, roots)
        elif item.is_dir():
            yield from _walk(path, f"{name}/", roots)
        elif item.is_file() and os.access(path, os.R_OK):
            yield name, path


def _linked(link: Path, name: str, roots: _Roots) -> Iterator[tuple[str, Path]]:
    entry, artifacts = roots
    target, place = Path(os.path.realpath(link)), _place_in_run(name)  # Path.resolve() fails on a loop.
    if artifacts and place in (LOGS, RAY_CLUSTER) and target.is_relative_to(artifacts) and target.is_dir():
        yield from _walk(link, f"{name}/", roots)
    elif place != OUTPUT and target.is_relative_to(entry) and target.is_file() and os.access(target, os.R_OK):
        yield name, link


def _place_in_run(name: str) -> str:
    """The name of a file or directory within the directory of its run."""
    parts = name.split("/")
    while len(parts) > 2 and parts[0] == ATTEMPTS:
        parts = parts[2:]
    return "/".join(parts)


def restore_links(entry: Path) -> None:
    """Make the links again that a case's directory has to its latest run, where they are not there."""
    label = last_run_label(entry)
    latest = f"{ATTEMPTS}/{label}/" if label else ""
    targets = {OUTPUT: f"{latest}{LOGS}/{OUTPUT}"}
    if latest:
        targets[BENCHMARK_RESULTS] = f"{latest}{BENCHMARK_RESULTS}"
    for name, target in targets.items():
        if (entry / target).exists() and not os.path.lexists(entry / name):
            (entry / name).symlink_to(target)
