"""What only a session's files have: output, curves of memory, CPU and GPUs, artifacts and their copies in a site."""

import csv
import hashlib
import io
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from paceline.dashboard.artifacts import (
    BEGINNING,
    MOST_MASKED_BYTES,
    Artifact,
    Entry,
    SafePath,
    find_artifacts,
    read_artifact,
    safe_ending,
    session_redactor,
)
from paceline.dashboard.encoding import milliseconds, pack_floats
from paceline.errors import SessionError
from paceline.model import Case
from paceline.record import below, layout
from paceline.record.codec import load
from paceline.record.redact import Redactor

LOG_BYTES = 256 * 1024
"""Of a longer output the end is kept."""
CURVE_POINTS = 2000
EXECUTION = "execution_summary.json"
"""What a session of evals has beside the files of all sessions."""

_MOST_CURVE_BYTES, _MOST_CURVE_ROWS = 32 << 20, 500_000

Address = Callable[[Artifact], str | None]
"""Where a page finds a file of a run; None if nowhere."""


class SessionPath:
    """A session's directory in a results directory; what it holds is data, also if somebody else made it."""

    def __init__(self, path: SafePath, elsewhere: SafePath | None) -> None:
        self.path = path
        self._elsewhere = elsewhere
        self._redactor: Redactor | None = None

    def entry(self, case: Case) -> Entry:
        name = str(layout.entry_path(Path(), case))
        return Entry(self.path / name, self._elsewhere / name if self._elsewhere else None)

    @property
    def redactor(self) -> Redactor:
        """Masks what the session's plan names as secret, if that is set here."""
        if self._redactor is None:
            try:
                names = load(below.read(*self.path / "plan.json"))["secret_names"]
            except (OSError, ValueError, LookupError, TypeError, RecursionError):
                names = []
            self._redactor = session_redactor(list(map(str, names)) if isinstance(names, list) else [])
        return self._redactor


def find_session(
    directory: str, name: str, results: Path | None, artifacts_dir: Path | None = None
) -> SessionPath | None:
    """A session's files in the results directory: under its name, else where it was written if that is inside.

    Name and directory come from a database that anybody may have made. Sessions in object stores, and those of other
    tools, have no files here.
    """
    if results is None:
        return None
    for inner in (_plain_name(name), _inside(directory, results)):
        path = SafePath(results, inner or "")
        if inner is not None and any(below.is_file(*path / one) for one in (layout.LOCK, "plan.json")):
            last = inner.rpartition("/")[2]
            return SessionPath(path, SafePath(artifacts_dir, last) if artifacts_dir and last else None)
    return None


def _plain_name(name: str) -> str | None:
    try:
        layout.check_session_name(name)
    except SessionError:
        return None
    return name


def _inside(directory: str, results: Path) -> str | None:
    """A directory as its name below the results directory; None if it is elsewhere."""
    for root in (os.path.abspath(results), os.path.realpath(results)):  # noqa: PTH100 - resolve() is the second
        if directory == root:
            return ""
        if directory.startswith(f"{root}/"):
            return directory.removeprefix(f"{root}/")
    return None


def run_files(session: SessionPath, case: Case, address: Address) -> dict[str, Any] | None:
    """What a case's directory holds of its last attempt; None if there is none."""
    entry = session.entry(case)
    with ExitStack() as stack:
        try:
            fd = stack.enter_context(below.directory(*entry.path))
        except OSError:
            return None
        return _files_of(entry._replace(path=SafePath(fd, "")), address)


def _files_of(entry: Entry, address: Address) -> dict[str, Any]:
    last_run = entry.last_run()  # of several repetitions, the last one's
    folder = f"{last_run}/" if last_run else ""
    # Our link in the entry's directory leads here; where a session was fetched from a store, it has become a file.
    places = [f"{folder}{layout.LOGS}/{layout.OUTPUT}", layout.OUTPUT]
    output = next((name for name in places if below.is_file(*entry.find(name))), "")
    log = _log(entry.find(output)) if output else None
    whole = output if log and not log["cut"] else ""
    found = {
        "log": log,
        "resources": _curves(entry.path / f"{folder}resources.csv"),
        "gpus": _curves(entry.path / f"{folder}gpustats.csv"),
        "files": [_listed(one, address, whole) for one in find_artifacts(entry)],
    }
    return {name: value for name, value in found.items() if value}


def _log(path: SafePath) -> dict[str, Any] | None:
    try:
        with below.open_file(*path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_BYTES))
            data = file.read(LOG_BYTES)
    except OSError:
        return None
    cut = size > LOG_BYTES
    text = data.decode("utf-8", "replace")
    return {"text": text.partition("\n")[2] if cut else text, "bytes": size, "cut": cut}


def _curves(path: SafePath) -> dict[str, Any] | None:
    """The columns of a CSV file that are numbers or times, thinned where there are very many rows."""
    try:
        text = below.read(*path, _MOST_CURVE_BYTES).decode("utf-8", "replace")
        rows = list(islice(csv.reader(io.StringIO(text, newline="")), _MOST_CURVE_ROWS))
    except (OSError, csv.Error):
        return None
    if len(rows) < 3 or not rows[0]:
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


def _listed(found: Artifact, address: Address, whole: str) -> dict[str, Any]:
    """A file for the page: whether all of it is on the page already, where it is, or that it is too large."""
    listed: dict[str, Any] = {"name": found.name, "bytes": found.size_bytes}
    if found.name == whole:
        return {**listed, "shown": True}
    try:
        at = address(found)
    except OSError:  # it went away meanwhile, or may not be read
        at = None
    if at is None and found.size_bytes > MOST_MASKED_BYTES:
        return {**listed, "too_large": True}
    return {**listed, "at": at} if at else listed


class Copies:
    """Files of one session's runs copied into a site: each content once, under a name that says only what it is.

    Secrets are masked on the way. What it keeps is removed again with it, unless another session has the same.
    """

    def __init__(self, out: Path, largest_bytes: int, redactor: Redactor) -> None:
        self._out = out
        self._largest_bytes = largest_bytes
        self._redactor = redactor
        self.sizes_bytes: dict[str, int] = {}
        """Of each path in the site that this session needs."""

    def keep(self, place: int, found: Artifact) -> str | None:
        """The address of a file's copy; None if it is too large to be copied."""
        if found.size_bytes > min(self._largest_bytes, MOST_MASKED_BYTES):
            return None
        data = read_artifact(found.path, self._redactor, self._largest_bytes)
        name = hashlib.blake2b(data, digest_size=16).hexdigest()
        path = f"artifacts/{name[:2]}/{name}.{safe_ending(data[:BEGINNING])}"
        if not below.is_file(self._out, path):
            below.write(self._out, path, data, durable=False)
        self.sizes_bytes[path] = len(data)
        return path
