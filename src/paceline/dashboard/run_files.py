"""What only a session's files have: output, curves of memory, CPU and GPUs, and the list of artifacts."""

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from paceline.dashboard.artifacts import Artifact, find_artifacts
from paceline.dashboard.encoding import milliseconds, pack_floats
from paceline.model import Case
from paceline.record import layout

LOG_BYTES = 256 * 1024
"""Of a longer output the end is kept."""
CURVE_POINTS = 2000
EXECUTION = "execution_summary.json"
"""What a session of evals has beside the files of all sessions."""

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
    found = {
        "log": log,
        "resources": _curves(_last_run(entry) / "resources.csv"),
        "gpus": _curves(_last_run(entry) / "gpustats.csv"),
        "files": [_listed(one, address, entry, log) for one in find_artifacts(entry)],
    }
    return {name: value for name, value in found.items() if value}


def _last_run(entry: Path) -> Path:
    """The directory of the case's last run: of several repetitions, the last one's."""
    label = layout.last_run_label(entry)
    return entry / layout.ATTEMPTS / label if label else entry


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
    told: dict[str, Any] = {"name": found.name, "bytes": found.size_bytes}
    try:
        if log and not log["cut"] and found.path.samefile(entry / layout.OUTPUT):
            return {**told, "shown": True}  # a reader has all of it already
        at = address(found)
    except OSError:  # it went away meanwhile
        at = None
    return {**told, "at": at} if at else told
