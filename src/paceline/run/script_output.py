"""What a command prints, as files with secrets masked; and what its script left in its results directory."""

import json
import math
import os
import re
import stat
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, Self

from paceline.model import Direction, Scalar, is_number
from paceline.run.inert_pickle import BadPickle
from paceline.run.task_metrics import Tally, read_lines, read_pickle

Stream = Literal["stdout", "stderr"]

TAIL_BYTES = 1 << 16
_SAYS_WHY = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|PANIC)\b|\bpanicked at\b"  # logs and Rust
    r"|\b(?:\w*Error|\w*Exception|error|fatal)(?:\[\w+\])?:\s"  # exceptions with a message, compilers, git
    r"|^(?:\w+\.)*\w+(?:Error|Exception)$"  # and without one
)
_LONGEST_REASON = 500
NAMES = {"stdout": "stdout.log", "stderr": "stderr.log", "both": "stdouterr.log"}


class StreamRedactor(Protocol):
    """Masks secrets in one stream, also those cut in two by a chunk's border."""

    def feed(self, chunk: bytes) -> bytes: ...
    def flush(self) -> bytes: ...


class OutputLog:
    """Writes the logs of one run. It never raises: with a full disk the benchmark goes on and `warning` says so."""

    def __init__(self, directory: Path, make_redactor: Callable[[], StreamRedactor] | None = None) -> None:
        self._directory = directory
        self._redactors = (
            {} if make_redactor is None else {"stdout": make_redactor(), "stderr": make_redactor()}
        )
        self._fds: dict[str, int] = {}
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._lock = threading.Lock()  # a live view reads the tail while a run writes it
        self.warning = ""

    def __enter__(self) -> Self:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._note(self._directory.name, error)
        for key, name in NAMES.items():
            self._open(key, name)
        return self

    def __exit__(self, *_: object) -> None:
        for stream, redactor in self._redactors.items():
            self._put(stream, redactor.flush())
        for fd in self._fds.values():
            os.close(fd)
        self._fds = {}

    def write(self, stream: Stream, chunk: bytes) -> None:
        """Add to a stream's log and to the common one."""
        redactor = self._redactors.get(stream)
        self._put(stream, chunk if redactor is None else redactor.feed(chunk))

    def tail(self, count: int) -> list[str]:
        """The last lines of both streams, as text; of a line rewritten by carriage returns, its last state."""
        if count <= 0:
            return []
        with self._lock:
            data = b"".join(self._tail)
        lines = data.decode("utf-8", "replace").split("\n")
        if not lines[-1]:
            lines.pop()
        return [line.rstrip("\r").rpartition("\r")[2] for line in lines[-count:]]

    def _put(self, stream: str, data: bytes) -> None:
        if not data:
            return
        self._append(stream, data)
        self._append("both", data)
        with self._lock:
            self._remember(data)

    def _remember(self, data: bytes) -> None:
        """Keep the end only: what is kept must not grow with what is printed."""
        self._tail.append(data[-TAIL_BYTES:])
        self._tail_bytes += len(self._tail[-1])
        while self._tail_bytes - len(self._tail[0]) >= TAIL_BYTES:
            self._tail_bytes -= len(self._tail.popleft())

    def _open(self, key: str, name: str) -> None:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._fds[key] = os.open(self._directory / name, flags, 0o666)
        except OSError as error:
            self._note(name, error)

    def _append(self, key: str, data: bytes) -> None:
        """Tried anew for every chunk: space may come back, and the end of a log matters most."""
        fd = self._fds.get(key)
        if fd is None:
            return
        try:
            written = os.write(fd, data)
            while written < len(data):
                written += os.write(fd, data[written:])
        except OSError as error:
            self._note(NAMES[key], error)

    def _note(self, name: str, error: OSError) -> None:
        self.warning = self.warning or f"output is missing from {name}: {error.strerror or error}"


def line_that_says_why(lines: Sequence[str]) -> str:
    """The last line of an output that says what went wrong; where none does, the last one that says anything."""
    spoken = [line.strip() for line in reversed(lines) if line.strip()]
    found = next(filter(_SAYS_WHY.search, spoken), spoken[0] if spoken else "")
    return found if len(found) <= _LONGEST_REASON else f"{found[:_LONGEST_REASON]}…"


MAX_JSON_BYTES = 64 << 20
MAX_TASKS_BYTES = 256 << 20
MAX_METRICS = 10_000
MAX_SAMPLES = 100_000
MAX_NAME = 500
OUTCOME = "case_outcome.json"
MAX_REASON = 1000
MAX_WARNINGS = 100
_MAX_DEPTH = 64
_MAX_PROBLEMS_A_FILE = 10

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptOutput:
    """All that a run's script says; `problems` is a line for each thing in it that could not be used."""

    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Scalar | tuple[Scalar, ...]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)
    tasks: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    has_metrics: bool = False
    outcome: Literal["skipped", "failed"] | None = None
    reason: str = ""
    warnings: tuple[str, ...] = ()


class Unusable(Exception):
    """A file cannot be used; says why, beginning with `:line` where there is one."""


def read(results_path: Path) -> ScriptOutput:
    """Read a results directory; never raises on what a script may have left there."""
    problems: list[str] = []
    params = _read_mapping(results_path / "params.json", problems)
    written = _read_mapping(results_path / "metrics.json", problems)
    units = _read_mapping(results_path / "units.json", problems)
    directions = _read_mapping(results_path / "directions.json", problems)
    outcome = _read_mapping(results_path / OUTCOME, problems) or {}
    tally = _read_tasks(results_path, problems)
    metrics = {} if written is None else _flatten(written, problems)
    return ScriptOutput(
        params=params or {},
        metrics={**metrics, **tally.metrics()},
        units={name: unit for name, unit in (units or {}).items() if isinstance(unit, str)},
        directions=_directions(directions or {}, problems),
        tasks=tuple(tally.tasks),
        problems=tuple(problems),
        has_metrics=bool(metrics),
        outcome=next((one for one in ("skipped", "failed") if one == outcome.get("status")), None),
        reason=_one_line(outcome.get("reason", "")),
        warnings=tuple(map(_one_line, _listed(outcome.get("warnings"))))[:MAX_WARNINGS],
    )


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _one_line(value: object) -> str:
    """The first line of a text, not longer than a reason may be."""
    text = str(value).strip()
    return text.splitlines()[0][:MAX_REASON] if text else ""


def _directions(given: Mapping[str, Any], problems: list[str]) -> dict[str, Direction]:
    known = {name: one for name, one in given.items() if one in ("lower", "higher")}
    problems += [
        f"directions.json: {_short(name)}: a direction is lower or higher, not {_short(str(given[name]))!r}"
        for name in list(given.keys() - known.keys())[:_MAX_PROBLEMS_A_FILE]
    ]
    return known


def _read_mapping(path: Path, problems: list[str]) -> dict[str, Any] | None:
    """A JSON file's mapping; none, with a problem noted, if it holds anything else; none if it is not there."""
    try:
        with _opened(path, MAX_JSON_BYTES) as (file, _):
            return _parse(file.read(MAX_JSON_BYTES), path.name, problems)
    except FileNotFoundError:
        return None
    except Unusable as reason:
        problems.append(f"{path.name}{reason}")
        return None


def _parse(content: bytes, name: str, problems: list[str]) -> dict[str, Any]:
    repeated: dict[str, None] = {}

    def join(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        joined = dict(pairs)
        if len(joined) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated.update((key, None) for key, count in counts.items() if count > 1)
        return joined

    data = _decode(content, join)
    if not isinstance(data, dict):
        kind = {list: "a list", str: "a string", type(None): "null"}.get(type(data), "a single value")
        raise Unusable(f":1: a mapping of names to values is needed, not {kind}")
    if _depth_exceeds(data, _MAX_DEPTH):
        raise Unusable(f": nested more than {_MAX_DEPTH} levels deep")
    problems += [f"{name}: {_short(key)} is given twice; the last value counts" for key in list(repeated)[:5]]
    # The escape of half a character is valid JSON but no text that can be written again.
    return _whole_text(data) if rb"\ud" in content.lower() else data


def _decode(content: bytes, join: Any) -> Any:
    try:
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=join, parse_int=_integer)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unusable(f":{line}: not UTF-8 (byte 0x{content[error.start]:02x})") from None
    except json.JSONDecodeError as error:
        raise Unusable(f":{error.lineno}: not JSON: {error.msg}" if content.strip() else ": empty") from None
    except RecursionError:
        raise Unusable(f": nested more than {_MAX_DEPTH} levels deep") from None


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        # Python reads integers of up to 4,300 digits; nobody counted so far.
        return float(digits)


def _depth_exceeds(data: Any, limit: int) -> bool:
    level = [data]
    for _ in range(limit + 1):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return bool(level)


def _whole_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole_text(key): _whole_text(item) for key, item in value.items()}
    return [_whole_text(item) for item in value] if isinstance(value, list) else value


def _flatten(written: Mapping[str, Any], problems: list[str]) -> dict[str, Scalar | tuple[Scalar, ...]]:
    """Metrics by name: nested mappings joined with dots, lists of numbers as samples."""
    metrics: dict[str, Scalar | tuple[Scalar, ...]] = {}
    notes: list[str] = []
    for name, value in _leaves(written, ""):
        if len(metrics) >= MAX_METRICS:
            notes.append(f"more than {MAX_METRICS:,} metrics; the others are left out")
            break
        if len(name) > MAX_NAME:
            notes.append(f"{_short(name)}: a name of more than {MAX_NAME} characters; left out")
            continue
        if name in metrics:
            notes.append(f"{_short(name)} is given twice; the last value counts")
        if not isinstance(value, list):
            metrics[name] = _revived(value)
        elif reason := _not_samples(value):
            notes.append(f"{_short(name)}: {reason}; left out")
        else:
            metrics[name] = tuple(_revived(item) for item in value)
    if not metrics and not notes:
        notes.append("holds no metric")
    extra = len(notes) - _MAX_PROBLEMS_A_FILE
    problems += [f"metrics.json: {note}" for note in notes[:_MAX_PROBLEMS_A_FILE]]
    if extra > 0:
        problems.append(f"metrics.json: {extra} more problems")
    return metrics


def _leaves(mapping: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in mapping.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _revived(value: Any) -> Scalar:
    revived: Scalar = _NON_FINITE.get(value, value) if isinstance(value, str) else value
    return revived


def _not_samples(values: list[Any]) -> str | None:
    """Why a list cannot be a metric's samples, if it cannot."""
    if not values:
        return "an empty list has no value"
    if len(values) > MAX_SAMPLES:
        return f"more than {MAX_SAMPLES:,} samples"
    if not all(is_number(_revived(value)) for value in values):
        return "a list of anything but numbers is no metric"
    return None


def _read_tasks(results_path: Path, problems: list[str]) -> Tally:
    tally = Tally()
    for name, reader in (("tasks.pkl", read_pickle), ("tasks.jsonl", lambda file, _: read_lines(file))):
        try:
            with _opened(results_path / name, MAX_TASKS_BYTES) as (file, size):
                found = reader(file, size)
        except FileNotFoundError:
            continue
        except Unusable as reason:
            problems.append(f"{name}{reason}")
        except BadPickle as reason:
            problems.append(f"{name}: refused: {reason}")
        else:
            problems += [f"{name}: {note}" for note in found.notes()[:_MAX_PROBLEMS_A_FILE]]
            tally.merge(found)
    return tally


@contextmanager
def _opened(path: Path, max_bytes: int) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file of bounded size and that size; a pipe in its place would keep us waiting."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(error)) from error
    except OSError as error:
        raise Unusable(f": cannot be read: {error.strerror}") from error
    try:
        size = _regular_size(descriptor, max_bytes)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file, size
    except OSError as error:
        raise Unusable(f": cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _regular_size(descriptor: int, max_bytes: int) -> int:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise Unusable(": is not a file")
    if status.st_size > max_bytes:
        raise Unusable(f": {status.st_size:,} bytes are more than the {max_bytes:,} that are read")
    return status.st_size


def _short(name: str) -> str:
    return name if len(name) <= 100 else f"{name[:100]}…"
