"""What only a session's files have: output, curves of memory, CPU and GPUs, artifacts and their copies in a site."""

import csv
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from paceline.dashboard.artifacts import BEGINNING, Artifact, find_artifacts, open_artifact, safe_ending
from paceline.dashboard.encoding import milliseconds, pack_floats
from paceline.model import Case
from paceline.record import layout
from paceline.record.files import write_atomic

LOG_BYTES = 256 * 1024
"""Of a longer output the end is kept."""
CURVE_POINTS = 2000
EXECUTION = "execution_summary.json"
"""What a session of evals has beside the files of all sessions."""

_PIECE = 1 << 20

Address = Callable[[Artifact], str | None]
"""Where a page finds a file of a run; None if nowhere."""


def find_directory(directory: str, name: str, results: Path | None) -> Path | None:
    """Where a session's files are now: in the results directory given, else where they were written."""
    if results is not None and layout.is_session(results / name):
        return results / name
    # Sessions in object stores, and those of other tools, have no files here.
    path = Path(directory) if directory and "://" not in directory else None
    return path if path is not None and layout.is_session(path) else None


def run_files(session_dir: Path, case: Case, address: Address) -> dict[str, Any] | None:
    """What a case's directory holds of its last attempt; None if there is none."""
    entry = layout.entry_path(session_dir, case)
    if not entry.is_dir():
        return None
    log = _log(entry)
    label = layout.last_run_label(entry)
    last_run = entry / layout.ATTEMPTS / label if label else entry  # of several repetitions, the last one's
    found = {
        "log": log,
        "resources": _curves(last_run / "resources.csv"),
        "gpus": _curves(last_run / "gpustats.csv"),
        "files": [_listed(one, address, entry, log) for one in find_artifacts(entry)],
    }
    return {name: value for name, value in found.items() if value}


def _log(entry: Path) -> dict[str, Any] | None:
    try:
        with (entry / layout.OUTPUT).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_BYTES))
            data = file.read(LOG_BYTES)
    except OSError:
        return None
    cut = size > LOG_BYTES
    text = data.decode("utf-8", "replace")
    return {"text": text.partition("\n")[2] if cut else text, "bytes": size, "cut": cut}


def _curves(path: Path) -> dict[str, Any] | None:
    """The columns of a CSV file that are numbers or times, thinned where there are very many rows."""
    try:
        with path.open(newline="", errors="replace") as file:
            rows = list(csv.reader(file))
    except (OSError, csv.Error):
        return None
    if len(rows) < 3:
        return None
    names = rows[0]
    kept = _thinned([row for row in rows[1:] if len(row) == len(names)])
    columns = {name: _column(name, [row[place] for row in kept]) for place, name in enumerate(names)}
    return {name: pack_floats(values) for name, values in columns.items() if any(v == v for v in values)}


def _thinned(rows: list[list[str]]) -> list[list[str]]:
    """Every so many moments; the rows of one moment, such as those of several GPUs, stay together."""
    moments = {row[0]: None for row in rows}
    step = -(-len(rows) // CURVE_POINTS)
    kept = frozenset(list(moments)[:: max(step, 1)])
    return [row for row in rows if row[0] in kept]


def _column(name: str, cells: list[str]) -> Iterable[float]:
    if name != "timestamp_utc":
        return [_number(cell) for cell in cells]
    try:
        return milliseconds(cells)
    except ValueError:
        return []


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _listed(found: Artifact, address: Address, entry: Path, log: Mapping[str, Any] | None) -> dict[str, Any]:
    listed: dict[str, Any] = {"name": found.name, "bytes": found.size_bytes}
    try:
        if log and not log["cut"] and found.path.samefile(entry / layout.OUTPUT):
            return {**listed, "shown": True}  # a reader has all of it already
        at = address(found)
    except OSError:  # it went away meanwhile
        at = None
    return {**listed, "at": at} if at else listed


class Copies:
    """Files of one session's runs copied into a site: each content once, under a name that says only what it is.

    What it keeps is removed again with it, unless another session has the same.
    """

    def __init__(self, out: Path, largest_bytes: int) -> None:
        self._out = out
        self._largest_bytes = largest_bytes
        self.sizes_bytes: dict[str, int] = {}
        """Of each path in the site that this session needs."""

    def keep(self, place: int, found: Artifact) -> str | None:
        """The address of a file's copy; None if it is too large to be copied."""
        if found.size_bytes > self._largest_bytes:
            return None
        with open_artifact(found.path) as file:
            ending = safe_ending(file.read(BEGINNING))
            file.seek(0)
            digest = hashlib.blake2b(digest_size=16)
            for piece in _pieces(file):
                digest.update(piece)
            name = digest.hexdigest()
            path = f"artifacts/{name[:2]}/{name}.{ending}"
            target = self._out / path
            if not target.is_file():
                file.seek(0)
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(target, _pieces(file), durable=False)
        self.sizes_bytes[path] = found.size_bytes
        return path


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece
