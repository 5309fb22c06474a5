"""Coiled's benchmarks: their `benchmark.db`, of any age, since columns came one by one; absent ones are unknown."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from paceline.history.importers.batch import Batch, make_batch, make_case, make_record, make_session, once
from paceline.history.importers.document import complain, storable_text
from paceline.history.importers.values import environment, time_from_text
from paceline.history.store.foreign import StepLimit, harden
from paceline.model import Direction, Measurement, Record, Status

FORMAT = "coiled"
MAGIC = b"SQLite format 3\0"
_MEASURED: Mapping[str, tuple[str, Direction | None]] = {
    **dict.fromkeys(
        ("duration", "compute_time", "disk_spill_time", "serializing_time", "transfer_time"), ("s", "lower")
    ),
    **dict.fromkeys(("average_memory", "peak_memory", "scheduler_memory_max"), ("bytes", "lower")),
    **dict.fromkeys(("worker_max_tick", "scheduler_max_tick"), ("s", "lower")),
    "scheduler_cpu_avg": ("cores", "lower"),
}
_DETAILS = (
    *(
        "path",
        "setup_outcome",
        "call_outcome",
        "teardown_outcome",
        "coiled_runtime_version",
        "coiled_software_name",
    ),
    *("dask_version", "distributed_version", "dask_expr_version", "python_version", "platform", "ci_run_url"),
    *("cluster_name", "cluster_id", "cluster_details_url", "performance_report_url", "cluster_dump_url"),
    *("memray_profiles_url", "py_spy_profiles_url"),
)
_PACKAGES = {"dask": "dask_version", "distributed": "distributed_version", "dask-expr": "dask_expr_version"}
_NEEDED = frozenset({"session_id", "name"})
_MAIN_LINE = frozenset({"", "upstream", "latest"})

Row = Mapping[str, Any]


def tables(path: Path) -> frozenset[str]:
    """The names of a database's tables, without its views."""
    with _reading(path) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")
        return frozenset(str(name) for (name,) in found)


def batches(path: Path) -> Iterator[Batch]:
    """A session for each call of pytest; two if, after a merge, one id stands for runs in two environments."""
    if "test_run" not in tables(path):
        raise complain(path, "has no table test_run", "import a benchmark.db of Coiled's")
    with _reading(path) as connection:
        columns = [str(row[1]) for row in connection.execute("PRAGMA table_info(test_run)")]
        if _NEEDED - set(columns):
            missing = ", ".join(sorted(_NEEDED - set(columns)))
            raise complain(path, f"the table test_run has no {missing}", "import a benchmark.db of Coiled's")
        order = [name for name in ("session_id", *_place_columns(columns), "start", "id") if name in columns]
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        rows = connection.execute(f"SELECT {quoted} FROM test_run ORDER BY {', '.join(order)}")  # noqa: S608 - names of columns
        named = (dict(zip(columns, row, strict=True)) for row in rows)
        for _, group in groupby(named, key=lambda row: (row["session_id"], *_place(row))):
            yield _batch(list(_once(group)), path)


def _place_columns(columns: list[str]) -> list[str]:
    return [name for name in ("python_version", "platform", *_PACKAGES.values()) if name in columns]


def _place(row: Row) -> tuple[str, ...]:
    return tuple(_text(row, name) for name in ("python_version", "platform", *_PACKAGES.values()))


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as connection:
            harden(connection)
            StepLimit(connection, path)
            connection.text_factory = lambda data: storable_text(data.decode(errors="replace"))
            yield connection
    except sqlite3.Error as error:
        raise complain(path, f"is no readable database ({error})", "copy it again, or repair it") from error


def _once(rows: Iterator[Row]) -> Iterator[Row]:
    """Rows that differ in nothing but their number are one: the merge of the databases could double them."""
    seen = set()
    for row in rows:
        content = tuple((name, value) for name, value in row.items() if name != "id")
        if content not in seen:
            seen.add(content)
            yield row


def _batch(rows: list[Row], path: Path) -> Batch:
    first = rows[0]
    session = make_session(
        FORMAT,
        (_text(first, "session_id"),),
        started_at=min(filter(None, (_time(row, "start") for row in rows)), default=""),
        directory=str(path.absolute().parent),
        ci_run_url=_text(first, "ci_run_url"),
        meta={"session_id": _text(first, "session_id")},
    )
    surroundings = environment(
        os=_text(first, "platform"),
        python=_text(first, "python_version"),
        packages={name: _text(first, column) for name, column in _PACKAGES.items() if _text(first, column)},
    )
    return make_batch(session, surroundings, map(_record, rows))


def _record(row: Row) -> Record:
    name = _text(row, "name")
    original = _text(row, "originalname") or name.partition("[")[0]
    path = _text(row, "path")
    label = name[len(original) :].removeprefix("[").removesuffix("]") if name.startswith(original) else name
    arm = _text(row, "coiled_runtime_version")
    status, reason = _status(row)
    return make_record(
        make_case(
            f"{path}::{original}" if path else original,
            {"id": label} if label else {},  # The parameters' names were never kept, only this text.
            variant=None if arm in _MAIN_LINE else arm,
        ),
        _metrics(row),
        status=status,
        reason=reason,
        started_at=_time(row, "start"),
        exec_time_s=float(row["duration"]) if isinstance(row.get("duration"), int | float) else 0.0,
        details={
            **{column: _text(row, column) for column in _DETAILS},
            "test_name": name,
            "original_name": original,
            "started": _time(row, "start"),
            "ended": _time(row, "end"),
        },
    )


def _status(row: Row) -> tuple[Status, str]:
    outcomes = {phase: _text(row, f"{phase}_outcome") for phase in ("setup", "call", "teardown")}
    for phase, outcome in outcomes.items():
        if outcome in ("failed", "error"):
            return Status.FAILED, f"the test's {phase} failed"
        if outcome == "skipped":
            return Status.SKIPPED, f"skipped in {phase}"
    if outcomes["call"] == "passed" or (not any(outcomes.values()) and row.get("duration") is not None):
        return Status.PASSED, ""
    return Status.INTERRUPTED, "the test's outcome was not recorded"


def _metrics(row: Row) -> dict[str, Measurement]:
    measured = {name: row.get(name) for name in _MEASURED}
    return {
        name: once(value, *_MEASURED[name])
        for name, value in measured.items()
        if isinstance(value, int | float)
    }


def _text(row: Row, column: str) -> str:
    value = row.get(column)
    return "" if value is None else str(value)


def _time(row: Row, column: str) -> str:
    return time_from_text(_text(row, column))
